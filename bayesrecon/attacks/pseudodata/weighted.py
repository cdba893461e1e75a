"""`WeightedRecords`: weighted records of least Fisher divergence from the release, with a certificate of optimality."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.pseudodata.adam import Slicing
from bayesrecon.attacks.pseudodata.setup import Setup, check_records, reconstruct_with, refuse_slices, slicing_of
from bayesrecon.divergence.metrics import Metric
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress, PseudoData
from bayesrecon.regularisers import Regulariser
from bayesrecon.releases import EQUATIONS, Release
from bayesrecon.results.reconstruction import Reconstruction


@dataclass(frozen=True)
class WeightedRecords(Attack[Reconstruction]):
    """Gauss-Newton in whitened coordinates with positive weights. This is the default attack.

    The divergence is `1/2 w'Kw - w'b + const` with `K = k(Z, Z)`, `b = mu(Z)` (Wynne 2025, Theorem 3.4). For a trained
    parameter it is half the squared norm of the gradient. Fields with finitely many values are enumerated: every value
    is a candidate, and the weights choose among the candidates. If fields are known row by row, every row has the
    weight of one record.

    >>> WeightedRecords(n=100, tolerance=1e-6).n
    100
    """

    name: ClassVar[str] = "weighted-records"
    summary: ClassVar[str] = "weighted records of smallest Fisher divergence, by Gauss-Newton, with a certificate"
    takes: ClassVar[tuple[type, ...]] = EQUATIONS
    uses: ClassVar[tuple[str, ...]] = ("known", "total", "domain", "factors")

    n: int | None = option(None, "Number of weighted records; default 200, or the rows of known fields.")
    objective: Literal["exact", "sliced"] = option("exact", "Objective: exact, or sliced with fixed directions.")
    start: str | PseudoData = option("located", "located (around the recovered data) or published.")
    regulariser: Regulariser | None = option(None, "(weights, records) -> scalar, e.g. TotalVariation.")
    tolerance: float = option(1e-10, "Stop at this relative gap.")
    steps: int | None = option(None, "Largest number of steps; default 300.")
    slices: int | None = option(None, "Directions per draw of the sliced objective; default 10.")
    slice_law: Literal["normal", "rademacher"] | None = option(
        None, "Distribution of the directions: normal (default) or rademacher."
    )
    metric: Metric = option(Metric(), "Metric and coordinates.")
    checkpoint: str | Path | None = option(None, "File to write progress to; if it exists, the run resumes from it.")

    def __post_init__(self) -> None:
        check_records(self.n, self.steps, self.start, self.tolerance)
        slicing_of(self.objective, self._slicing)
        refuse_slices(self.objective, slices=self.slices, slice_law=self.slice_law)

    @property
    def _slicing(self) -> Slicing:
        return Slicing(10 if self.slices is None else self.slices, self.slice_law or "normal", fresh=False)

    def run(self, release: Release, knows: Knows, *, key: Key, progress: Progress) -> Reconstruction:
        setup = Setup(
            n=self.n,
            method="newton",
            metric=self.metric,
            slicing=slicing_of(self.objective, self._slicing),
            start=self.start,
            published=False,
            tolerance=self.tolerance,
            checkpoint=self.checkpoint,
            settings={},
            regulariser=self.regulariser,
        )
        return reconstruct_with(setup, lambda run, _: run.newton(self.steps), release, knows, key, progress)


ATTACK = WeightedRecords
