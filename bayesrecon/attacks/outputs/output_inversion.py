"""`OutputInversion`: a model's input by gradient descent on the misfit of the outputs, without a decoder."""

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.deletion.inversion import invert_embedding
from bayesrecon.attacks.outputs.calibration import split, spread_of
from bayesrecon.attacks.outputs.decoding import with_held_out_errors
from bayesrecon.attacks.outputs.record_prior import check_gradient
from bayesrecon.divergence.output_embedding import Outputs
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.random_key import generator
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.precision import in_float64
from bayesrecon.results.input_estimate import InputEstimate


@dataclass(frozen=True)
class OutputInversion(Attack[InputEstimate]):
    """Gradient descent from the public records whose outputs are closest (`invert_embedding`).

    Many records have the same outputs. This attack finds one that is close to public records. Its errors are measured
    by running it on public records that are not used as starts.

    >>> OutputInversion().starts
    3
    """

    name: ClassVar[str] = "output-inversion"
    summary: ClassVar[str] = "an input from a model's outputs, by descent from public records"
    takes: ClassVar[tuple[type, ...]] = (Outputs,)
    uses: ClassVar[tuple[str, ...]] = ()

    starts: int = option(3, "Public records to descend from.")
    steps: int = option(60, "Steps of each descent.")
    calibration: int = option(40, "Public records that calibrate the intervals.")
    checked: int = option(20, "Further public records that check their coverage.")

    @in_float64
    def run(self, release: Outputs, knows: Knows, *, key: Key, progress: Progress) -> InputEstimate:
        start, rng = time.perf_counter(), generator(key)
        if release.answer.view in ("rounded", "argmax"):
            raise BayesreconError(
                f"inversion needs outputs that change with the record, and the view is {release.answer.view}: take "
                "PosteriorSampling, which has its likelihood, or LinearDecoding"
            )
        parts = split(len(release.public), rng)
        held = np.concatenate([parts.calibrate, parts.check])[: self.calibration + self.checked]
        if len(held) < self.calibration + self.checked:
            raise BayesreconError(
                f"{len(release.public)} public records: supply {2 * (self.calibration + self.checked)} or more"
            )
        check_gradient(release.answer, release.public.mean(axis=0))
        targets = np.concatenate([release.z[None], release.noisy(release.answers[held], rng)])
        bounds = (
            np.full(release.public.shape[1], release.values[0]),
            np.full(release.public.shape[1], release.values[1]),
        )
        inverted = invert_embedding(
            release.answer, targets, release.public[parts.fit], starts=self.starts, steps=self.steps, bounds=bounds
        )
        settings = {"misfit": float(inverted.misfit[0])}
        scale = spread_of(release)
        return with_held_out_errors(
            release, inverted.x[0], inverted.x[1:], scale, self.name, held, self.checked, settings, start
        )


ATTACK = OutputInversion
