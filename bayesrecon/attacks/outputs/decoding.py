"""`LinearDecoding` and `TrainedDecoding`: a model's input from its outputs by a decoder, the best linear one or
the user's, with errors from held-out records."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.outputs.calibration import calibrated, interval, split, spread_of
from bayesrecon.attacks.outputs.linear_decoder import fitted_decoder
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.estimation.estimator import generator
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
        coverage_records=checked,
        draws=np.zeros((0, len(estimate))),
        settings={"view": release.answer.view, "noise": release.noise, **settings},
        warnings=release.notes,
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True)
class TrainedDecoding(Attack[InputEstimate]):
    """A decoder that you provide, for example a network trained with the model or afterwards.

    The public records must not have been used to train the decoder. Half of them calibrate the intervals, and the other
    half check the coverage.

    >>> TrainedDecoding(decoder=lambda z: z).name
    'trained-decoding'
    """

    name: ClassVar[str] = "trained-decoding"
    summary: ClassVar[str] = "an input from a model's outputs, by a decoder of your own"
    takes: ClassVar[tuple[type, ...]] = (Outputs,)
    uses: ClassVar[tuple[str, ...]] = ()

    decoder: Callable[[Any], Any] | None = option(None, "Function from outputs (m, K) to records (m, *shape).")

    def run(self, release: Outputs, knows: Knows, *, key: Any, progress: Progress) -> InputEstimate:
        began, rng = time.perf_counter(), generator(key)
        if self.decoder is None:
            raise BayesreconError("TrainedDecoding needs decoder=, a function of outputs (m, K) that gives records")
        decoder, width = self.decoder, release.public.shape[1]

        def decode(z: np.ndarray) -> np.ndarray:
            return decoded(decoder, z, width)

        held = rng.permutation(len(release.public))
        return decode_held_out(release, decode, self.name, held, len(held) // 2, rng, {}, began)


def decoded(decoder: Callable[[Any], Any], z: np.ndarray, width: int) -> Float[np.ndarray, "m p"]:
    """Records `(m, p)` from the user's decoder.

    Raises:
        BayesreconError: the decoder fails, or returns something other than records.
    """
    try:
        found = np.asarray(decoder(z), float)
    except Exception as error:
        raise BayesreconError(f"the decoder fails on outputs {z.shape}: {first_line(error)}") from None
    if len(found) != len(z) or found.size != len(z) * width or not np.isfinite(found).all():
        raise BayesreconError(
            f"the decoder gives {found.shape} for outputs {z.shape}: expected {width} finite numbers each"
        )
    return found.reshape(len(z), width)
