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
from bayesrecon.divergence.output_embedding import Outputs
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.estimation.random_key import generator
from bayesrecon.json_types import Json
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress
from bayesrecon.results.input_estimate import InputEstimate

# The best linear reconstruction of a record from the outputs of a model, in closed form.
#
# With the moments of the public distribution, the decoder is `x_hat = mean + G (z - E z)` with
#
#     G = Cov(x, z) (Cov(z) + s^2)^+,    and the unexplained variance is diag(Cov(x) - G Cov(z, x)),
#
# where s is the standard deviation of the noise of the outputs. Without noise, only the span of the outputs
# matters, not their scale. The visibility of a field is the share of its variance that the outputs determine.


_RANK = 1e-10  # directions with a smaller variance of outputs, relative to the largest, are functions of the others


@dataclass(frozen=True, eq=False)
class LinearDecoder:
    """Reconstructs records from outputs.

    Attributes:
        mean: `(p,)` mean of the records.
        centre: `(k,)` mean of the outputs.
        gain: G, `(p, k)`.
        variance: `(p,)` variance of each field.
        unexplained: `(p,)` variance that the outputs do not explain.
    """

    mean: np.ndarray
    centre: np.ndarray
    gain: np.ndarray
    variance: np.ndarray
    unexplained: np.ndarray

    def __call__(self, outputs: ArrayLike) -> np.ndarray:
        """Records `(N, p)` from outputs `(N, k)`."""
        z = np.asarray(outputs, float)
        if z.ndim != 2 or z.shape[1] != len(self.centre) or not np.isfinite(z).all():
            raise BayesreconError(
                f"outputs of shape {z.shape}: expected finite numbers, (records, {len(self.centre)}) as of the model"
            )
        return self.mean + (z - self.centre) @ self.gain.T

    @property
    def visibility(self) -> Float[np.ndarray, " p"]:
        """`1 - unexplained / variance` of every field, `(p,)`; zero where it does not vary."""
        share = 1 - self.unexplained / np.where(self.variance > 0, self.variance, 1.0)
        return np.where(self.variance > 0, np.clip(share, 0.0, 1.0), 0.0)

    @property
    def error(self) -> float:
        """Mean squared error of a field, over all fields."""
        return float(self.unexplained.mean())


def linear_decoder(
    mean: ArrayLike, covariance: ArrayLike, weights: ArrayLike, *, noise: float = 0.0, centre: ArrayLike | None = None
) -> LinearDecoder:
    """The decoder of linear outputs `z = W'(x - mean) + centre + noise` of records with given moments.

    Args:
        mean, covariance: moments of the records, `(p,)` and `(p, p)`.
        weights: W, `(p, k)`. The outputs of several models for one record are stacked.
        noise: standard deviation of the noise of each output. That of rounding to q decimals is `rounding_noise(q)`.
        centre: `(k,)` mean of the outputs; zero by default.
    """
    records, sigma, w = (np.asarray(v, float) for v in (mean, covariance, weights))
    width = len(records)
    if sigma.shape != (width, width) or w.ndim != 2 or len(w) != width:
        raise BayesreconError(f"mean of {width} fields, covariance {sigma.shape} and weights {w.shape}: sizes differ")
    outputs = np.zeros(w.shape[1]) if centre is None else np.asarray(centre, float)
    products = sigma @ w
    return _decoder(records, outputs, products, w.T @ products, np.diag(sigma), noise)


def fitted_decoder(x: ArrayLike, z: ArrayLike, *, noise: float = 0.0) -> LinearDecoder:
    """Fit the decoder of any model to public records and their outputs.

    Args:
        x: `(m, p)` public records.
        z: `(m, k)` the model's outputs for them, without noise.
        noise: as in `linear_decoder`.
    """
    public, answers = np.asarray(x, float), np.asarray(z, float)
    count = len(public)
    finite = np.isfinite(public).all() and np.isfinite(answers).all()
    if public.ndim != 2 or answers.ndim != 2 or count != len(answers) or not finite:
        raise BayesreconError(
            f"records {public.shape} and outputs {answers.shape}: expected two finite tables of as many rows"
        )
    width = answers.shape[1]
    if count <= width + 1:
        raise BayesreconError(f"{count} public records for {width} outputs: supply more records than outputs")
    mean, centre = public.mean(axis=0), answers.mean(axis=0)
    records, outputs = public - mean, answers - centre
    # Corrected for the degrees of freedom of the fit.
    free = count - 1 - min(width, count - 2)
    products, moments = records.T @ outputs / count, outputs.T @ outputs / count
    decoder = _decoder(mean, centre, products, moments, (records**2).mean(axis=0), noise)
    unexplained = np.minimum(decoder.unexplained * ((count - 1) / free), decoder.variance)
    return LinearDecoder(mean, centre, decoder.gain, decoder.variance, unexplained)


def _decoder(
    mean: np.ndarray, centre: np.ndarray, products: np.ndarray, outputs: np.ndarray, variance: np.ndarray, noise: float
) -> LinearDecoder:
    if not (np.isfinite(noise) and noise >= 0):
        raise BayesreconError(f"noise={noise}: expected a standard deviation, 0 or more")
    spread = outputs + noise**2 * np.eye(len(outputs))
    gain = products @ np.linalg.pinv(spread, rcond=_RANK if not noise else 0.0, hermitian=True)
    unexplained = np.clip(variance - np.einsum("pk,pk->p", gain, products), 0.0, variance)
    return LinearDecoder(mean, centre, gain, np.asarray(variance, float), unexplained)


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
