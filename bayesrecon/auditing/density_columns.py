"""Find log densities, their terms and gradients among the columns of a file, whatever their name.

Each array is regressed on the model's value functions with half of the draws and tested on the other half. Sign, scale
and constant are arbitrary.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayesrecon.attacks.sidechannels.exactness import Halves, exact_in, halves, steps_of
from bayesrecon.attacks.sidechannels.features import (
    base_functions,
    generic_records,
    score_functions,
    value_functions,
)
from bayesrecon.auditing.sensitive_values import parameters_of
from bayesrecon.diagnostics import evenly
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Model, Records
from bayesrecon.posteriors.contents import WIDE, Contents, Variable
from bayesrecon.releases import Release

_MOST_DRAWS, _MOST_COLUMNS = 1200, 400  # largest size of a regression: exact relations need no more
_SCALES = (1.0, -1.0, -2.0, 2.0, -0.5, 0.5)  # multiples of the log density, such as energies and deviances
_LEAST, _WHOLE = 0.5, 1e-4  # smallest number of records behind a density, and the tolerance for an integer
_SHARE = 0.5  # an array is of such a kind if at least this share of its columns is exact
_TOGETHER = 5  # with at least this many scalars of one kind, they are treated as one array


@dataclass(frozen=True, eq=False)
class Series:
    """N columns of values at some of the release's draws.

    Attributes:
        where: places of the arrays that they come from.
        rows: `(K,)` positions among the release's draws.
        values: `(K, N)`.
    """

    where: tuple[str, ...]
    rows: np.ndarray
    values: np.ndarray


@dataclass(frozen=True)
class Reading:
    """An interpretation of a scalar as a multiple of the log likelihood, with or without prior and determinant.

    Attributes:
        scale: the multiple, such as -2 for a deviance.
        parts: multiples of the log prior and of the log determinant.
        count: number of records under this interpretation.
    """

    scale: float
    parts: tuple[float, float]
    count: float

    @property
    def words(self) -> str:
        """The interpretation in words, or "" for the log density itself."""
        names = {(1.0, 1.0): "log density", (1.0, 0.0): "log density of the constrained parameters"}
        name = names.get(self.parts, "log likelihood")
        if self.scale == 1 and self.parts == (1.0, 1.0):
            return ""
        return f"{self.scale:g} times the {name}" if self.scale != 1 else f"the {name}"


@dataclass(frozen=True, eq=False)
class Numbers:
    """The columns of a file that are combinations of a model's value functions.

    Attributes:
        contents: the file.
        model: the model.
        release: its draws as a release.
        positions: `(T,)` positions of the release's draws among the file's draws.
        reference: the distribution of generic records.
        key: seed.
    """

    contents: Contents
    model: Model
    release: Release
    positions: np.ndarray
    reference: Reference
    key: int

    @cached_property
    def all_series(self) -> list[Series]:
        """Every array with a value per draw that is neither a parameter of the model nor constant."""
        arrays, parameters = [], parameters_of(self.model)
        for variable in self.contents.variables:
            drawn = variable.group == "posterior" and (parameters is None or variable.name in parameters)
            if drawn or not variable.per_draw or variable.group.startswith("warmup_"):
                continue
            series = self.series(variable)
            if series is None or len(series.rows) < 4:
                continue
            fine = np.isfinite(series.values).all(axis=0) & (np.ptp(series.values, axis=0) > 0)
            if fine.any():
                arrays.append(Series(series.where, series.rows, series.values[:, fine]))
        return arrays

    def series(self, variable: Variable) -> Series | None:
        """An array at the draws that it shares with the release."""
        total = self.contents.draws.chains * self.contents.draws.length if self.contents.draws is not None else 0
        rows = self.contents.rows if variable.group in WIDE else np.arange(total)
        if len(rows) != len(variable.values) or variable.values.dtype.kind not in "biuf":
            return None
        position = np.full(max(total, int(rows.max(initial=0)) + 1), -1)
        position[self.positions] = np.arange(len(self.positions))
        mine = position[rows]
        values = np.asarray(variable.values, float).reshape(len(rows), -1)
        return Series((variable.where,), mine[mine >= 0], values[mine >= 0])

    @cached_property
    def records(self) -> Records:
        """Generic records that span the model's value functions."""
        theta = np.asarray(self.release.theta)
        some = theta[evenly(len(theta), _MOST_DRAWS)]
        return generic_records(self.model, some, self.reference, np.random.default_rng(self.key))

    @cached_property
    def _design(self) -> np.ndarray:
        """Value functions at all draws, and the log prior and determinant unless they are combinations of them."""
        theta = np.asarray(self.release.theta)
        values = value_functions(self.model, theta, self.records)
        return np.column_stack([values, base_functions(self.model, theta)[0]])

    def _ready(self, features: np.ndarray, rng: np.random.Generator) -> Halves | None:
        moving = np.isfinite(features).all(axis=0) & (np.ptp(features, axis=0) > 0)
        if not moving.any():
            return None
        centred = features[:, moving] - features[:, moving].mean(axis=0)
        # Principal directions instead of columns, because columns of records are nearly collinear.
        directions, size, _ = np.linalg.svd(centred / np.linalg.norm(centred, axis=0), full_matrices=False)
        scores = directions[:, size > 1e-11 * size[0]]
        return halves(scores, rng, np.zeros(scores.shape[1]))

    @cached_property
    def gradients(self) -> list[tuple[Series, np.ndarray]]:
        """Arrays whose columns are combinations of the scores of one coordinate each, in order, with the weights.

        In simple models scores are also value functions. A gradient is then not treated as an array of terms.
        """
        theta = np.asarray(self.release.theta)
        wide = [s for s in self.all_series if s.values.shape[1] == theta.shape[1] > 1]
        if not wide:
            return []
        matches, rng = [], np.random.default_rng(self.key)
        for series in wide:
            rows = evenly(len(series.rows), _MOST_DRAWS // 2)
            at = theta[series.rows[rows]]
            slopes = np.concatenate(
                [score_functions(self.model, at, self.records), base_functions(self.model, at)[1]], axis=1
            )
            values = series.values[rows]
            fits = []
            for k in range(theta.shape[1]):
                ready = self._ready(slopes[:, :, k], rng)
                result = None if ready is None else exact_in(ready, values[:, [k]], rng)
                fits.append(result is not None and bool(result.exact[0]))
                if not fits[-1]:
                    break
            if all(fits):
                stacked = slopes.transpose(2, 0, 1).reshape(-1, slopes.shape[1])
                matches.append((series, np.linalg.lstsq(stacked, values.T.ravel(), rcond=1e-12)[0]))
        return matches

    @cached_property
    def exact(self) -> list[Series]:
        """Arrays most of whose columns are combinations of value functions."""
        matches, prepared = [], dict[tuple[int, ...], Halves | None]()
        rng, gradients = np.random.default_rng(self.key), {s.where for s, _ in self.gradients}
        for series in self.all_series:
            if series.where in gradients:
                continue
            rows = evenly(len(series.rows), _MOST_DRAWS)
            at = series.rows[rows]
            sample = (len(at), int(at.sum()))
            if sample not in prepared:
                prepared[sample] = self._ready(self._design[at], rng)
            ready = prepared[sample]
            if ready is None:
                continue
            columns = series.values[rows][:, evenly(series.values.shape[1], _MOST_COLUMNS)]
            result = exact_in(ready, columns, rng, steps_of(columns))
            if result is not None and result.exact.mean() > _SHARE:
                matches.append(series)
        return matches

    @cached_property
    def densities(self) -> list[Series]:
        """Scalars that are combinations of value functions, unless there are many of them."""
        scalars = [s for s in self.exact if s.values.shape[1] == 1]
        return [] if len(scalars) >= _TOGETHER else scalars

    @cached_property
    def terms(self) -> list[Series]:
        """Arrays whose columns are combinations of value functions. Many scalars are treated as one array."""
        arrays = [s for s in self.exact if s.values.shape[1] > 1]
        single = [s for s in self.exact if s.values.shape[1] == 1]
        if len(single) >= _TOGETHER:
            where = tuple(w for s in single for w in s.where)
            arrays.append(Series(where, single[0].rows, np.column_stack([s.values[:, 0] for s in single])))
        return arrays

    def reading(self, series: Series, likelihood: bool = False, first: float = 1.0) -> Reading | None:
        """The most likely interpretation of a scalar as a multiple of the log density.

        If the prior and the determinant are combinations of value functions, several interpretations fit. The first one
        with an integer number of records is returned.

        Args:
            series: the scalar.
            likelihood: whether to try interpretations without the prior first, as a name may suggest.
            first: the multiple to try first.
        """
        rows = evenly(len(series.rows), _MOST_DRAWS)
        design = self._design[series.rows[rows]]
        values, functions, base = series.values[rows, 0], design[:, :-2], design[:, -2:]
        parts = [(1.0, 1.0), (1.0, 0.0), (0.0, 0.0)]
        readings = []
        ready = self._ready(functions, np.random.default_rng(self.key))
        if ready is None:
            return None
        for scale in dict.fromkeys((first, *_SCALES)):
            for multiples in parts[::-1] if likelihood else parts:
                total = values / scale - base @ np.array(multiples)
                result = exact_in(ready, total[:, None], np.random.default_rng(self.key), steps_of(values[:, None]))
                if result is None or not result.exact[0]:
                    continue
                centred = functions - functions.mean(axis=0)
                count = float(np.linalg.lstsq(centred, total - total.mean(), rcond=1e-12)[0].sum())
                if count > _LEAST:
                    readings.append(Reading(scale, multiples, count))
        integer_counts = [r for r in readings if abs(r.count - round(r.count)) < _WHOLE * max(1.0, r.count)]
        return (integer_counts or readings or [None])[0]

    def full(self, series: Series, reading: Reading) -> np.ndarray:
        """The complete log density `(K,)` under an interpretation."""
        base = self._design[series.rows, -2:]
        return series.values[:, 0] / reading.scale + base @ (1 - np.array(reading.parts))
