"""The best linear reconstruction of a record from the outputs of a model, in closed form.

With the public law's moments the decoder is `x_hat = mean + G (z - E z)`,

    G = Cov(x, z) (Cov(z) + s^2)^+,    what is left: diag(Cov(x) - G Cov(z, x)),

s the standard deviation of noise that is added to the outputs. Without noise only the span of the outputs counts, not
their scale. A field's visibility is the share of its variance that the outputs determine.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from bayesrecon.errors import BayesreconError

_RANK = 1e-10  # of the largest variance of outputs, below which a direction counts as a function of the others


@dataclass(frozen=True, eq=False)
class LinearDecoder:
    """Reconstructs records from outputs.

    Attributes:
        mean: mean of the records, `(p,)`.
        centre: centre of the outputs, `(k,)`.
        gain: G, `(p, k)`.
        variance: variance of every field, `(p,)`.
        unexplained: the part of it that the outputs leave, `(p,)`.
    """

    mean: np.ndarray
    centre: np.ndarray
    gain: np.ndarray
    variance: np.ndarray
    unexplained: np.ndarray

    def __call__(self, outputs: Any) -> np.ndarray:
        """The records `(N, p)` of outputs `(N, k)`.

        Raises:
            BayesreconError: outputs of another width, or that are not finite.
        """
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
    mean: Any, covariance: Any, weights: Any, *, noise: float = 0.0, centre: Any = None
) -> LinearDecoder:
    """The decoder of linear outputs `z = W'(x - mean) + centre + noise` of records with given moments.

    Args:
        mean, covariance: mean and covariance of the records, `(p,)` and `(p, p)`.
        weights: W, `(p, k)`; several models that were asked about one record are stacked.
        noise: standard deviation of what is added to every output; rounding to q decimals adds `rounding_noise(q)`.
        centre: centre of the outputs, `(k,)`; zero by default.

    Raises:
        BayesreconError: shapes that do not go together, or a noise that is no size.

    >>> decoder = linear_decoder([0.0, 0.0], [[1.0, 0.8], [0.8, 1.0]], [[1.0], [0.0]])
    >>> decoder.visibility.round(2).tolist(), decoder([[2.0]]).tolist()
    ([1.0, 0.64], [[2.0, 1.6]])
    """
    mean, covariance, weights = (np.asarray(v, float) for v in (mean, covariance, weights))
    width = len(mean)
    if covariance.shape != (width, width) or weights.ndim != 2 or len(weights) != width:
        raise BayesreconError(f"moments of {width} fields, {covariance.shape} and weights {weights.shape}: they differ")
    centre = np.zeros(weights.shape[1]) if centre is None else np.asarray(centre, float)
    products = covariance @ weights
    return _decoder(mean, centre, products, weights.T @ products, np.diag(covariance), noise)


def fitted_decoder(x: Any, z: Any, *, noise: float = 0.0) -> LinearDecoder:
    """The decoder of the outputs of any model, from public records and what the model answers to them.

    Args:
        x: `(m, p)` public records.
        z: `(m, k)` the model's outputs for them, without noise.
        noise: as of `linear_decoder`.

    Raises:
        BayesreconError: tables of different lengths or with numbers that are not finite, no more records than outputs,
            or a noise that is no size.

    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> fitted_decoder(x, np.tanh(x[:, :1])).visibility.round(1).tolist()
    [0.9, 0.0]
    """
    x, z = np.asarray(x, float), np.asarray(z, float)
    if x.ndim != 2 or z.ndim != 2 or len(x) != len(z) or not (np.isfinite(x).all() and np.isfinite(z).all()):
        raise BayesreconError(f"records {x.shape} and outputs {z.shape}: expected two finite tables of as many rows")
    if len(x) <= z.shape[1] + 1:
        raise BayesreconError(f"{len(x)} public records for {z.shape[1]} outputs: supply more records than outputs")
    mean, centre = x.mean(axis=0), z.mean(axis=0)
    records, outputs = x - mean, z - centre
    # What is left is judged with the freedom that the fit took.
    free = len(x) - 1 - min(z.shape[1], len(x) - 2)
    found = _decoder(
        mean, centre, records.T @ outputs / len(x), outputs.T @ outputs / len(x), (records**2).mean(axis=0), noise
    )
    unexplained = np.minimum(found.unexplained * ((len(x) - 1) / free), found.variance)
    return LinearDecoder(mean, centre, found.gain, found.variance, unexplained)


def _decoder(
    mean: np.ndarray, centre: np.ndarray, products: np.ndarray, outputs: np.ndarray, variance: np.ndarray, noise: float
) -> LinearDecoder:
    if not (np.isfinite(noise) and noise >= 0):
        raise BayesreconError(f"noise={noise}: expected a standard deviation, 0 or more")
    spread = outputs + noise**2 * np.eye(len(outputs))
    gain = products @ np.linalg.pinv(spread, rcond=_RANK if not noise else 0.0, hermitian=True)
    unexplained = np.clip(variance - np.einsum("pk,pk->p", gain, products), 0.0, variance)
    return LinearDecoder(mean, centre, gain, np.asarray(variance, float), unexplained)
