"""The input of every attack of an audit: the contents of a file, read as a release of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.auditing.density_columns import Numbers
from bayesrecon.auditing.rounded_draws import as_written, noise_of
from bayesrecon.auditing.sensitive_values import POTENTIAL, log_densities
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Model, Progress
from bayesrecon.posteriors.contents import Contents, Variable
from bayesrecon.posteriors.sources import accepted_draws
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.findings import Thresholds
from bayesrecon.results.recovery import Recovery


@dataclass(frozen=True)
class Opened:
    """A file that was opened as a release of a model.

    Attributes:
        contents: the file.
        model: the model.
        release: the draws of the file as a release of the model, with log densities if the file has them.
        positions: `(T,)` positions of the release's draws among the file's draws.
        reference: distribution of generic records, as the draws determine it.
        recovery: recovery from the draws alone.
        known: fields that an attacker knows row by row.
        thresholds: what counts as severe.
        key: seed of everything random.
        numbers: columns of the file that are combinations of the model's value functions, whatever their name.
        progress: called with a label and the completed fraction.
    """

    contents: Contents
    model: Model
    release: PosteriorDraws
    positions: np.ndarray
    reference: Reference
    recovery: Recovery | None
    known: Mapping[str, Array]
    thresholds: Thresholds
    key: int
    numbers: Numbers
    progress: Progress | None = None

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

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

    @cached_property
    def moved(self) -> np.ndarray | None:
        """Random draws that would be rounded to the release's draws; None if those were not rounded."""
        draws = self.contents.draws
        return None if draws is None else as_written(draws, self.model, self.positions, self.rng)

    def rounding(self, columns: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """Standard deviations `(N,)` of the errors that the rounding of the draws causes in columns `(K, N)`."""
        if self.moved is None:
            return np.zeros(columns.shape[1])
        at = np.arange(len(columns)) if rows is None else rows
        return noise_of(np.asarray(self.release.theta)[at], self.moved[at], columns)

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
