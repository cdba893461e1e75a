"""The best linear reconstruction of a record from the outputs of a model, in closed form.

With the moments of the public distribution, the decoder is `x_hat = mean + G (z - E z)` with

    G = Cov(x, z) (Cov(z) + s^2)^+,    and the unexplained variance is diag(Cov(x) - G Cov(z, x)),

where s is the standard deviation of the noise of the outputs. Without noise, only the span of the outputs matters, not
their scale. The visibility of a field is the share of its variance that the outputs determine.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesrecon.errors import BayesreconError

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
