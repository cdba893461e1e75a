"""`LinearDecoding`: a model's input from its outputs by the best linear decoder, with errors from held-out records."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.attack import Attack
from bayesrecon.attacks.outputs.calibration import calibrated, interval, split, spread_of
from bayesrecon.attacks.outputs.linear_decoder import fitted_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import generator
from bayesrecon.kernels.output_embedding import Outputs
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.results.input_estimate import InputEstimate

Decoder = Callable[[Any], Any]


@dataclass(frozen=True)
class LinearDecoding(Attack[InputEstimate]):
    """The best linear decoder, fitted to public records in closed form.

    Half of the public records fit the decoder, a quarter calibrates the intervals, and a quarter checks their coverage.

    >>> LinearDecoding.name
    'linear-decoding'
    """

    name: ClassVar[str] = "linear-decoding"
    summary: ClassVar[str] = "an input from a model's outputs, by the best linear decoder"
    takes: ClassVar[tuple[type, ...]] = (Outputs,)
    uses: ClassVar[tuple[str, ...]] = ()

    def run(self, release: Outputs, knows: Knows, *, key: Any, progress: Progress) -> InputEstimate:
        began, rng = time.perf_counter(), generator(key)
        at = split(len(release.public), rng)
        if len(at.fit) <= release.answers.shape[1] + 1:
            raise BayesreconError(
                f"{len(release.public)} public records for {release.answers.shape[1]} outputs: supply more than twice "
                "as many records as outputs"
            )
        fitted = fitted_decoder(release.public[at.fit], release.answers[at.fit], noise=release.noise)
        held = np.concatenate([at.calibrate, at.check])
        return decode_held_out(release, fitted, self.name, held, len(at.check), rng, {"fitted": len(at.fit)}, began)


ATTACK = LinearDecoding


def decode_held_out(
    release: Outputs,
    decode: Decoder,
    method: str,
    held: np.ndarray,
    checked: int,
    rng: np.random.Generator,
    settings: dict[str, Any],
    began: float,
) -> InputEstimate:
    """The input that a decoder `(m, K) -> (m, p)` gives, with errors calibrated on the public records at `held`.

    The last `checked` of these records check the coverage of the intervals.
    """
    guess = np.clip(decode(release.noisy(release.answers[held], rng)), *release.values)
    estimate = np.clip(decode(release.z[None])[0], *release.values)
    scale = np.ones(len(estimate))
    return told_by_held_out(release, estimate, guess, scale, method, held, checked, settings, began)


def told_by_held_out(
    release: Outputs,
    estimate: np.ndarray,
    guess: np.ndarray,
    scale: Float[np.ndarray, " p"],
    method: str,
    held: np.ndarray,
    checked: int,
    settings: dict[str, Any],
    began: float,
) -> InputEstimate:
    """An estimate `(p,)` with errors measured on held-out public records.

    `guess` `(n, p)` holds the reconstructions of these records by the same attack. Errors are in units of `scale (p,)`.
    The last `checked` records check the coverage.
    """
    spread, values = spread_of(release), release.values
    calibration = calibrated(release.public[held], guess, scale, spread, checked, values)
    lower, upper = interval(estimate, scale, calibration.factor, values)
    return InputEstimate(
        release=release.name,
        method=method,
        shape=release.answer.shape,
        estimate=estimate,
        se=np.sqrt(calibration.mse),
        lower=lower,
        upper=upper,
        visibility=calibration.visibility(spread),
        spread=spread,
        coverage=calibration.coverage,
        checked=checked,
        draws=np.zeros((0, len(estimate))),
        settings={"view": release.answer.view, "noise": release.noise, **settings},
        warnings=release.notes,
        seconds=time.perf_counter() - began,
    )
