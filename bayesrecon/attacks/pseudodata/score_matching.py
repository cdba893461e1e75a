"""`ScoreMatching`: the published algorithm, Adam on the sliced Fisher divergence."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.pseudodata.adam import Slicing
from bayesrecon.attacks.pseudodata.setup import Setup, check_records, reconstruct_with, refuse_slices, slicing_of
from bayesrecon.divergence.metrics import Metric
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress, PseudoData
from bayesrecon.regularisers import Regulariser
from bayesrecon.releases import EQUATIONS, Release
from bayesrecon.results.reconstruction import Reconstruction

_TOLERANCE = 1e-10  # it only scales the displayed progress: all steps are taken


@dataclass(frozen=True)
class ScoreMatching(Attack[Reconstruction]):
    """Adam on the sliced Fisher divergence (Wynne 2025, section 3).

    Weights are unconstrained, and records are in their own units. This attack is provided for comparison. It needs
    about a hundred thousand steps where `WeightedRecords` needs about a hundred.

    >>> ScoreMatching(n=50, slices=10, steps=1000).rate
    0.001
    """

    name: ClassVar[str] = "score-matching"
    summary: ClassVar[str] = "the published method: Adam on the sliced Fisher divergence (slow)"
    takes: ClassVar[tuple[type, ...]] = EQUATIONS
    uses: ClassVar[tuple[str, ...]] = ("known", "total", "domain", "factors")

    n: int | None = option(None, "Number of weighted records; default 200, or the rows of known fields.")
    objective: Literal["exact", "sliced"] | None = option(None, "Objective: sliced (default for draws) or exact.")
    slices: int | None = option(None, "Directions per draw of the sliced objective; default 10.")
    slice_law: Literal["normal", "rademacher"] | None = option(
        None, "Distribution of the directions: normal (default) or rademacher."
    )
    fresh: bool = option(True, "Draw new directions at every step.")
    reduced: bool = option(True, "Variance-reduced objective: do not slice the squared score.")
    steps: int = option(20_000, "Steps of Adam.")
    rate: float = option(1e-3, "Learning rate.")
    regulariser: Regulariser | None = option(None, "(weights, records) -> scalar, e.g. TotalVariation.")
    start: str | PseudoData = option("published", "published (covariates standard normal, weights one) or located.")
    metric: Metric = option(Metric(), "Metric and coordinates; default identity, and the parameters' own coordinates.")
    checkpoint: str | Path | None = option(None, "File to write progress to; if it exists, the run resumes from it.")

    def __post_init__(self) -> None:
        check_records(self.n, self.steps, self.start, _TOLERANCE)
        slicing_of(self.objective or "sliced", self._slicing)
        refuse_slices(self.objective, slices=self.slices, slice_law=self.slice_law)
        if not (self.rate > 0 and np.isfinite(self.rate)):
            raise BayesreconError(f"rate={self.rate}: the learning rate must be positive")

    @property
    def _slicing(self) -> Slicing:
        return Slicing(10 if self.slices is None else self.slices, self.slice_law or "normal", self.fresh, self.reduced)

    def run(self, release: Release, knows: Knows, *, key: Key, progress: Progress) -> Reconstruction:
        coordinates, objectives = _PUBLISHED[release.temperature]
        metric = Metric(self.metric.sigma or "identity", self.metric.coordinates or coordinates)
        objective = self.objective or objectives[0]
        if objective not in objectives:
            raise BayesreconError("a trained parameter has no Laplacian to slice; use objective='exact'")
        setup = Setup(
            n=self.n,
            method="adam",
            metric=metric,
            slicing=slicing_of(objective, self._slicing),
            start=self.start,
            published=True,
            tolerance=_TOLERANCE,
            checkpoint=self.checkpoint,
            settings={"rate": self.rate},
            regulariser=self.regulariser,
        )
        return reconstruct_with(
            setup,
            lambda run, random: run.adam(objective, self._slicing, self.steps, self.rate, random),
            release,
            knows,
            key,
            progress,
        )


_PUBLISHED = {1.0: ("constrained", ("sliced", "exact")), 0.0: ("unconstrained", ("exact",))}
"""Coordinates and objectives by tau, the published ones first."""

ATTACK = ScoreMatching
