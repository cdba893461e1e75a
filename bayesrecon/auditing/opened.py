"""What every attack of an audit starts from: the contents of a file, read as a release of a model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesrecon.auditing.held import POTENTIAL, log_densities
from bayesrecon.auditing.numbers import Numbers
from bayesrecon.auditing.rounded import as_written, noise_of
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
    """A file opened as a release of a model: what every channel needs.

    Attributes:
        release: the draws of the file as a release of the model; its log densities where the file has them.
        kept: `(T,)` positions of the release's draws among the file's.
        reference: where the records lie, as the draws tell.
        recovery: what the draws alone give.
        numbers: columns of the file that are made of what the model's densities are made of, whatever their name.
    """

    contents: Contents
    model: Model
    release: PosteriorDraws
    kept: np.ndarray
    reference: Reference
    recovery: Recovery | None
    known: Mapping[str, Any]
    thresholds: Thresholds
    key: int
    numbers: Numbers
    progress: Progress | None = None

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

    def wide(self, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Draws `(K, d)` and values `(K, ...)` of a wide variable, where both exist."""
        mine, values = self.at(variable)
        return np.asarray(self.release.theta)[mine], values

    def at(self, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
        """Positions `(K,)` among the release's draws and values `(K, ...)` of a wide variable, where both exist."""
        position = {int(k): i for i, k in enumerate(self.kept)}
        at = [(position[int(r)], i) for i, r in enumerate(self.contents.rows) if int(r) in position]
        mine, theirs = (np.array(part, int) for part in zip(*at, strict=True))
        return mine, variable.values[theirs]

    @cached_property
    def moved(self) -> np.ndarray | None:
        """Draws that would have been written as the release's are, where they were rounded."""
        draws = self.contents.draws
        return None if draws is None else as_written(draws, self.model, self.kept, self.rng)

    def rounding(self, columns: np.ndarray, rows: np.ndarray | None = None) -> np.ndarray:
        """What the rounding of the draws adds to columns `(K, N)` at these of them, as standard deviations `(N,)`."""
        if self.moved is None:
            return np.zeros(columns.shape[1])
        at = np.arange(len(columns)) if rows is None else rows
        return noise_of(np.asarray(self.release.theta)[at], self.moved[at], columns)

    def spread(self, field: str) -> np.ndarray:
        """How far a field's values lie apart, as far as is known."""
        if field in self.reference.scale:
            return np.asarray(self.reference.scale[field], float)
        domain = self.model.fields[field].domain
        return np.asarray(np.std(domain.levels) if domain.levels else 1.0)


def open_release(contents: Contents, model: Model) -> tuple[PosteriorDraws, np.ndarray]:
    """The draws as a release of the model, and which of the file's draws they are."""
    draws = contents.draws
    if draws is None:
        raise BayesreconError(f"{contents.name}: there are no draws to attack (no group 'posterior')")
    release, kept = accepted_draws(draws, model, ignore_unknown=True)
    if release.log_density is not None:
        return release, kept
    # Samplers have many names for them, of which readers of draws know the two of ArviZ.
    beside = [v for v in log_densities(contents, model) if v.per_draw and not v.shape]
    if beside:
        values = np.asarray(beside[0].values, float)[kept]
        release = replace(release, log_density=-values if beside[0].name == POTENTIAL else values)
    return release, kept
