"""`LinearDecoding` and `TrainedDecoding`: the input of a model from its outputs, by a linear or a given decoder.

Errors are measured on held-out records.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesrecon.arrays import Key
from bayesrecon.attacks.attack import Attack, option
from bayesrecon.attacks.outputs.calibration import calibrated, interval, split, spread_of
from bayesrecon.attacks.outputs.linear_decoder import fitted_decoder
from bayesrecon.divergence.output_embedding import Outputs
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.estimation.random_key import generator
from bayesrecon.json_types import Json
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.results.input_estimate import InputEstimate

Decoder = Callable[[np.ndarray], ArrayLike]
"""From outputs `(m, K)` to records `(m, *shape)`."""


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

    def run(self, release: Outputs, knows: Knows, *, key: Key, progress: Progress) -> InputEstimate:
        start, rng = time.perf_counter(), generator(key)
        parts = split(len(release.public), rng)
        if len(parts.fit) <= release.answers.shape[1] + 1:
            raise BayesreconError(
                f"{len(release.public)} public records for {release.answers.shape[1]} outputs: supply more than twice "
                "as many records as outputs"
            )
        fitted = fitted_decoder(release.public[parts.fit], release.answers[parts.fit], noise=release.noise)
        held = np.concatenate([parts.calibrate, parts.check])
        return decode_held_out(
            release, fitted, self.name, held, len(parts.check), rng, {"fitted": len(parts.fit)}, start
        )


ATTACK = LinearDecoding


def decode_held_out(
    release: Outputs,
    decode: Decoder,
    method: str,
    held: np.ndarray,
    checked: int,
    rng: np.random.Generator,
    settings: Json,
    start: float,
) -> InputEstimate:
    """The input that a decoder `(m, K) -> (m, p)` gives, with errors calibrated on the public records at `held`.

    The last `checked` of these records check the coverage of the intervals.
    """
    guess = np.clip(np.asarray(decode(release.noisy(release.answers[held], rng))), *release.values)
    estimate = np.clip(np.asarray(decode(release.z[None]))[0], *release.values)
    scale = np.ones(len(estimate))
    return with_held_out_errors(release, estimate, guess, scale, method, held, checked, settings, start)


def with_held_out_errors(
    release: Outputs,
    estimate: np.ndarray,
    guess: np.ndarray,
    scale: Float[np.ndarray, " p"],
    method: str,
    held: np.ndarray,
    checked: int,
    settings: Json,
    start: float,
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
        seconds=time.perf_counter() - start,
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

    decoder: Decoder | None = option(None, "Function from outputs (m, K) to records (m, *shape).")

    def run(self, release: Outputs, knows: Knows, *, key: Key, progress: Progress) -> InputEstimate:
        start, rng = time.perf_counter(), generator(key)
        if self.decoder is None:
            raise BayesreconError("TrainedDecoding needs decoder=, a function of outputs (m, K) that gives records")
        decoder, width = self.decoder, release.public.shape[1]

        def decode(z: np.ndarray) -> np.ndarray:
            return decoded(decoder, z, width)

        held = rng.permutation(len(release.public))
        return decode_held_out(release, decode, self.name, held, len(held) // 2, rng, {}, start)


def decoded(decoder: Decoder, z: np.ndarray, width: int) -> Float[np.ndarray, "m p"]:
    """Records `(m, p)` from the user's decoder."""
    try:
        records = np.asarray(decoder(z), float)
    except Exception as error:
        raise BayesreconError(f"the decoder fails on outputs {z.shape}: {first_line(error)}") from None
    if len(records) != len(z) or records.size != len(z) * width or not np.isfinite(records).all():
        raise BayesreconError(
            f"the decoder gives {records.shape} for outputs {z.shape}: expected {width} finite numbers each"
        )
    return records.reshape(len(z), width)
