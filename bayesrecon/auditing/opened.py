"""The input of every attack of an audit: the contents of a file, read as a release of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.auditing.density_columns import Numbers
from bayesrecon.auditing.rounded_draws import as_written, noise_of
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
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.findings import Thresholds
from bayesrecon.results.recovery import Recovery


@dataclass(frozen=True, eq=False)
class Attacked:
    """The attack on the draws alone, which is made once, when a channel first needs it.

    Attributes:
        contents, model, release, positions, key: as in `Opened`.
        knows: what an attacker knows.
        progress: called with a label and the completed fraction.
    """

    contents: Contents
    model: Model
    release: PosteriorDraws
    positions: np.ndarray
    knows: Knows
    key: int
    progress: Progress | None = None

    @cached_property
    def outcome(self) -> tuple[Problem | None, Recovery] | Exception:
        """The solved problem (None if the release states its statistics) and the recovery, or why there is none."""
        try:
            if kind_of(self.release).states:
                return None, recovered(self.release, **self.knows)
            problem, recovery = recovered_with_problem(self.release, **self.knows, key=self.key, progress=self.progress)
        except (BayesreconError, *INCALCULABLE) as error:
            return error
        return problem, recovery.judged(force=True)

    @cached_property
    def reference(self) -> Reference:
        """Distribution of generic records, as the draws determine it."""
        if not isinstance(self.outcome, Exception) and self.outcome[0] is not None:
            return self.outcome[0].reference
        return Reference(self.model.fields, {k: np.asarray(v) for k, v in (self.knows.get("known") or {}).items()})

    @cached_property
    def numbers(self) -> Numbers:
        """Columns of the file that are combinations of the model's value functions, whatever their name."""
        return Numbers(self.contents, self.model, self.release, self.positions, self.reference, self.key)

    @cached_property
    def moved(self) -> np.ndarray | None:
        """Random draws that would be rounded to the release's draws; None if those were not rounded."""
        draws, rng = self.contents.draws, np.random.default_rng(self.key)
        return None if draws is None else as_written(draws, self.model, self.positions, rng)


@dataclass(frozen=True, eq=False)
class Opened:
    """A file that was opened as a release of a model.

    Attributes:
        contents: the file.
        model: the model.
        release: the draws of the file as a release of the model, with log densities if the file has them.
        positions: `(T,)` positions of the release's draws among the file's draws.
        attacked: the attack on the draws alone.
        known: fields that an attacker knows row by row.
        thresholds: what counts as severe.
        key: seed of everything random.
        progress: called with a label and the completed fraction.
    """

    contents: Contents
    model: Model
    release: PosteriorDraws
    positions: np.ndarray
    attacked: Attacked
    known: Mapping[str, Array]
    thresholds: Thresholds
    key: int
    progress: Progress | None = None

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

    @property
    def reference(self) -> Reference:
        return self.attacked.reference

    @property
    def numbers(self) -> Numbers:
        return self.attacked.numbers

    @property
    def recovery(self) -> Recovery | None:
        """The recovery from the draws alone, if there is one."""
        return None if isinstance(self.attacked.outcome, Exception) else self.attacked.outcome[1]

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
        if (moved := self.attacked.moved) is None:
            return np.zeros(columns.shape[1])
        at = np.arange(len(columns)) if rows is None else rows
        return noise_of(np.asarray(self.release.theta)[at], moved[at], columns)

    def spread(self, field: str) -> np.ndarray:
        """The spread of a field's values, as far as it is known."""
        if field in self.reference.scale:
            return np.asarray(self.reference.scale[field], float)
        domain = self.model.fields[field].domain
        return np.asarray(np.std(domain.levels) if domain.levels else 1.0)


def open_release(contents: Contents, model: Model) -> tuple[PosteriorDraws, np.ndarray]:
    """The draws as a release of the model, and their positions among the file's draws."""
    draws = contents.draws
    if draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to attack (no group 'posterior')")
    release, positions = accepted_draws(draws, model, ignore_unknown=True)
    if release.log_density is not None:
        return release, positions
    # Samplers have many names for log densities, and readers of draws know only the two of ArviZ.
    densities = [v for v in log_densities(contents, model) if v.per_draw and not v.shape]
    if densities:
        values = np.asarray(densities[0].values, float)[positions]
        release = replace(release, log_density=-values if densities[0].name == POTENTIAL else values)
    return release, positions


def opened(contents: Contents, model: Model, knows: Knows, thresholds: Thresholds, key: int) -> Opened:
    """The file, opened as a release of a model.

    Raises:
        BayesreconError: the draws are not of this model.
    """
    release, positions = open_release(contents, model)
    attacked = Attacked(contents, model, release, positions, knows, key)
    return Opened(contents, model, release, positions, attacked, knows.get("known") or {}, thresholds, key)
