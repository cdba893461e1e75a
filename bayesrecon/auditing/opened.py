"""The input of every attack of an audit: the contents of a file, read as a release of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.attacks.sidechannels.density_recovery import DensityRecovery
from bayesrecon.attacks.sidechannels.released_log_densities import recover_from_log_density
from bayesrecon.attacks.sidechannels.resolution import Resolution, resolution
from bayesrecon.auditing.density_columns import Numbers
from bayesrecon.auditing.sensitive_values import POTENTIAL, log_densities
from bayesrecon.auditing.stage import INCALCULABLE
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import recovered, recovered_with_problem
from bayesrecon.knowledge import Knows
from bayesrecon.model import Model, Progress
from bayesrecon.posteriors.contents import Contents, Variable
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.findings import Thresholds
from bayesrecon.results.recovery import Recovery


@dataclass(frozen=True, eq=False)
class Opened:
    """A file that was opened as a release of a model. The attack on the draws alone is made when a channel needs it.

    Attributes:
        contents: the file.
        model: the model.
        release: the draws of the file as a release of the model, with log densities if the file has them.
        positions: `(T,)` positions of the release's draws among the file's draws.
        knows: what an attacker knows.
        thresholds: what counts as severe.
        key: seed of everything random.
    """

    contents: Contents
    model: Model
    release: PosteriorDraws
    positions: np.ndarray
    knows: Knows
    thresholds: Thresholds
    key: int

    @cached_property
    def outcome(self) -> tuple[Problem | None, Recovery] | Exception:
        """The solved problem (None if the release states its statistics) and the recovery, or why there is none."""
        try:
            if kind_of(self.release).states:
                return None, recovered(self.release, **self.knows)
            problem, recovery = recovered_with_problem(self.release, **self.knows, key=self.key)
        except (BayesreconError, *INCALCULABLE) as error:
            return error
        return problem, recovery.judged(force=True)

    @cached_property
    def reference(self) -> Reference:
        """Distribution of generic records, as the draws determine it."""
        if not isinstance(self.outcome, Exception) and self.outcome[0] is not None:
            return self.outcome[0].reference
        return Reference(self.model.fields, {k: np.asarray(v) for k, v in self.known.items()})

    @cached_property
    def numbers(self) -> Numbers:
        """Columns of the file that are combinations of the model's value functions, whatever their name."""
        return Numbers(self.contents, self.model, self.release, self.positions, self.reference, self.key)

    @cached_property
    def moved(self) -> np.ndarray | None:
        """Random draws that would be rounded to the release's draws; None if those were not rounded."""
        draws = self.contents.draws
        return None if draws is None else _as_written(draws, self.model, self.positions, self.rng)

    @property
    def known(self) -> Mapping[str, Array]:
        """Fields that an attacker knows row by row."""
        return self.knows.get("known") or {}

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

    @property
    def recovery(self) -> Recovery | None:
        """The recovery from the draws alone, if there is one."""
        return None if isinstance(self.outcome, Exception) else self.outcome[1]

    def wide(self, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Draws `(K, d)` and values `(K, ...)` of a variable, at the draws that have both."""
        rows, values = self.at(variable)
        return np.asarray(self.release.theta)[rows], values

    def at(self, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Positions `(K,)` among the release's draws, and values `(K, ...)` of a variable there."""
        position = {int(k): i for i, k in enumerate(self.positions)}
        at = [(position[int(r)], i) for i, r in enumerate(self.contents.rows) if int(r) in position]
        release_rows, variable_rows = (np.array(part, int) for part in zip(*at, strict=True))
        return release_rows, variable.values[variable_rows]

    def rounding(self, columns: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Standard deviations `(N,)` of the errors that the rounding of the draws causes in columns `(K, N)`."""
        if (moved := self.moved) is None:
            return np.zeros(columns.shape[1])
        at = np.arange(len(columns)) if rows is None else rows
        return _noise_of(np.asarray(self.release.theta)[at], moved[at], columns)

    def of_density(self, release: PosteriorDraws, written: Resolution, progress: Progress | None) -> DensityRecovery:
        """What the log densities of a release give, if they are written at this resolution."""
        known, key = self.known, self.key
        return recover_from_log_density(release, written=written, known=known, key=key, progress=progress)

    def spread(self, field: str) -> np.ndarray:
        """The spread of a field's values, as far as it is known."""
        if field in self.reference.scale:
            return np.asarray(self.reference.scale[field], float)
        domain = self.model.fields[field].domain
        return np.asarray(np.std(domain.levels) if domain.levels else 1.0)


def opened(contents: Contents, model: Model, knows: Knows, thresholds: Thresholds, key: int) -> Opened:
    """The file, opened as a release of a model.

    Raises:
        BayesreconError: there are no draws, or they are not of this model.
    """
    draws = contents.draws
    if draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to attack (no group 'posterior')")
    release, positions = accepted_draws(draws, model, ignore_unknown=True)
    # Samplers have many names for log densities, and readers of draws know only the two of ArviZ.
    densities = [v for v in log_densities(contents, model) if v.per_draw and not v.shape]
    if release.log_density is None and densities:
        values = np.asarray(densities[0].values, float)[positions]
        release = replace(release, log_density=-values if densities[0].name == POTENTIAL else values)
    return Opened(contents, model, release, positions, knows, thresholds, key)


# Draws may have been rounded after their densities were computed, such as draws in single and densities in double
# precision. A density that belongs to the draw before rounding has an error of its slope times the rounding error. A
# quadratic fit of the values gives the slopes.

_ROWS = 3  # draws per feature that a quadratic fit needs; with fewer, the fit is linear
_FEATURES = 2000  # largest number of features of a fit, which takes a second


def _as_written(draws: Draws, model: Model, positions: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Random draws `(T, d)` that would be rounded to these; None if there are no signs of rounding."""
    moved, coarse = {}, False
    for name, values in draws.values.items():
        written = resolution(values)
        moved[name] = values
        if written.label != "double precision":
            coarse = True
            moved[name] = values + np.where(values == 0, 0.0, written.step) * rng.uniform(-0.5, 0.5, values.shape)
    if not coarse:
        return None
    try:
        release, at = accepted_draws(replace(draws, values=moved), model, ignore_unknown=True)
    except BayesreconError:  # a random draw is outside the support
        return None
    return np.asarray(release.theta) if np.array_equal(at, positions) else None


def _noise_of(theta: np.ndarray, moved: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Standard deviations `(N,)` of the errors that the rounding of the draws causes in N columns.

    Args:
        theta: `(T, d)` rounded draws.
        moved: `(T, d)` random draws that would be rounded to `theta`.
        columns: `(T, N)`.

    >>> rng = np.random.default_rng(0)
    >>> theta, error = rng.normal(size=(500, 1)), rng.uniform(-0.05, 0.05, size=(500, 1))
    >>> round(float(_noise_of(theta, theta + error, 3 * theta)[0] / (3 * 0.1 / np.sqrt(12))), 1)
    1.0
    """
    centre, scale = theta.mean(axis=0), theta.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    first, second = np.triu_indices(theta.shape[1])
    squares = len(first) <= _FEATURES and len(theta) >= _ROWS * (theta.shape[1] + len(first) + 1)

    def features(points: np.ndarray) -> np.ndarray:
        z = (points - centre) / scale
        return np.column_stack([z, z[:, first] * z[:, second]]) if squares else z

    design = features(theta)
    slopes = np.linalg.lstsq(np.column_stack([np.ones(len(theta)), design]), columns, rcond=1e-12)[0][1:]
    return np.sqrt(np.mean(((features(moved) - design) @ slopes) ** 2, axis=0))
