"""A low-dimensional public distribution of records, and the likelihood of an answer under it.

Records are `x = mean + V diag(sd) c`, with V the leading principal components of public records and c normal or a
mixture of normals. The contribution of the other components to an answer, and deliberate noise, are its error. Normal
views are `z ~ N(F(x) + b, D + s^2)`. The bias b and D are measured on public records as `F(x) - F(P x)`, with P the
projection on the components. A rounded number has the probability of its cell under this error. The largest class has
that of a softmax of logits in units of the error (errors of the extreme-value distribution).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.divergence.output_embedding import Answer, Outputs
from bayesrecon.errors import BayesreconError, first_line

_RANK = 1e-10  # directions with a smaller variance of answers, relative to the largest, are functions of the others
_GUMBEL = np.sqrt(6) / np.pi  # scale of an extreme-value distribution of variance one
_BLOCK = 512  # records per call of the model


@dataclass(frozen=True, eq=False)
class RecordPrior:
    """The distribution of records, and of the errors of an answer.

    Attributes:
        arrays: arrays for compiled code: `mean (p,)`, `basis (p, q)` with V diag(sd), for a mixture `weights (n,)`,
            `centres (n, q)` and roots of precisions `roots (n, q, q)`, and those of `log_likelihood`.
        rest: `(p,)` variance of each field outside the components.
        gain, centre: `(q, K)` and `(K,)` of the linear estimate of c from which chains start.
        share: share of the variance of all fields in the components.
        error: root mean squared error of an answer, in units of its spread.
    """

    arrays: dict[str, np.ndarray]
    rest: Float[np.ndarray, " p"]
    gain: Float[np.ndarray, "q K"]
    centre: Float[np.ndarray, " K"]
    share: float
    error: float

    def start(self, z: np.ndarray) -> np.ndarray:
        """Linear estimates of c `(n, q)` from answers `(n, K)`."""
        return np.asarray((z - self.centre) @ self.gain.T)

    def records(self, c: np.ndarray) -> np.ndarray:
        """Records `(..., p)` with components c `(..., q)`."""
        return np.asarray(self.arrays["mean"] + c @ self.arrays["basis"].T)


def fitted_prior(
    release: Outputs, at: np.ndarray, components: int, clusters: int, scale: float, seed: int
) -> RecordPrior:
    """Fit the distribution to public records.

    Args:
        at: positions of the records to use.
        components: largest number q of components.
        clusters: number n of normals in the mixture.
        scale: smallest error of an answer, in units of its spread.
        seed: seed of the fit of the mixture.
    """
    x, answers = release.public[at], release.answers[at]
    mean = x.mean(axis=0)
    _, singular, directions = np.linalg.svd(x - mean, full_matrices=False)
    variance = singular**2 / len(x)
    q = min(components, int((variance > _RANK * variance[0]).sum()), len(x) // 3)
    basis = directions[:q].T * np.sqrt(variance[:q])
    c = (x - mean) @ (directions[:q].T / np.sqrt(variance[:q]))
    check_gradient(release.answer, mean)
    smooth = smooth_answers(release.answer, x)
    errors = smooth - smooth_answers(release.answer, mean + c @ basis.T)
    centred = answers - answers.mean(axis=0)
    gain = (c.T @ centred) @ np.linalg.pinv(centred.T @ centred, rcond=_RANK, hermitian=True)
    arrays = {"mean": mean, "basis": basis} | _mixture(c, clusters, seed) | _error(release, smooth, errors, scale)
    spread = max(float(smooth.var(axis=0).sum()), 1e-300)
    return RecordPrior(
        arrays,
        np.maximum(x.var(axis=0) - (basis**2).sum(axis=1), 0.0),
        gain,
        answers.mean(axis=0),
        float(variance[:q].sum() / variance.sum()),
        float(np.sqrt(errors.var(axis=0).sum() / spread)),
    )


def log_prior(c: Array, arrays: Mapping[str, Array]) -> Array:
    """Log density of `c (q,)` up to a constant."""
    if "weights" not in arrays:
        return -0.5 * (c**2).sum()
    white = jnp.einsum("nqr,nq->nr", arrays["roots"], c - arrays["centres"])
    size = jnp.log(jnp.abs(jnp.diagonal(arrays["roots"], axis1=1, axis2=2))).sum(axis=1)
    return jax.nn.logsumexp(jnp.log(arrays["weights"]) + size - 0.5 * (white**2).sum(axis=1))


def log_likelihood(c: Array, z: Array, answer: Answer, widths: tuple[int, ...], arrays: Mapping[str, Array]) -> Array:
    """Log probability (density) of an answer `z (K,)` for the record with components `c (q,)`.

    `arrays` has the bias `b` of the error. It also has `white (r, K)` for normal views, half a cell `half` and standard
    deviations `sd (K,)` for a rounded view, or scales `tau (K,)` for the largest class.
    """
    z = jnp.asarray(z)
    mean = jnp.asarray(answer(arrays["mean"] + arrays["basis"] @ c) + arrays["b"])
    if answer.view == "rounded":
        low = jnp.where(z - arrays["half"] <= 0, -jnp.inf, (z - arrays["half"] - mean) / arrays["sd"])
        high = jnp.where(z + arrays["half"] >= 1, jnp.inf, (z + arrays["half"] - mean) / arrays["sd"])
        return log_between(low, high).sum()
    if answer.view == "argmax":
        parts = jnp.split(mean / arrays["tau"], np.cumsum(widths)[:-1])
        return (z * jnp.concatenate([jax.nn.log_softmax(part) for part in parts])).sum()
    return -0.5 * ((arrays["white"] @ (z - mean)) ** 2).sum()


def log_between(low: Array, high: Array) -> jax.Array:
    """Logarithm of the standard normal probability of an interval, without cancellation in the tails."""
    flip = low + high > 0  # an infinite end determines the sign
    a, b = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    # Both branches of `where` need finite gradients.
    open_, closed = jnp.isinf(a), jnp.where(jnp.isinf(a), b - 1, a)
    log_high, log_low = jax.scipy.special.log_ndtr(b), jax.scipy.special.log_ndtr(closed)
    return log_high + jnp.where(open_, 0.0, jnp.log1p(-jnp.exp(jnp.minimum(log_low - log_high, -1e-12))))


def check_gradient(answer: Answer, record: np.ndarray) -> None:
    """Raise an error for a model that JAX cannot differentiate."""
    try:
        jacobian = np.asarray(jax.jacrev(answer)(jnp.asarray(record)))
    except Exception as error:
        raise BayesreconError(
            f"predict cannot be differentiated by JAX ({first_line(error)[:90]}): write it with jax.numpy, or take "
            "LinearDecoding, which needs no gradient"
        ) from None
    if not np.isfinite(jacobian).all() or not jacobian.any():
        raise BayesreconError(
            "predict has no gradient (it is zero or infinite at the mean record): release its logits before they are "
            "rounded or compared, and name that as view=; LinearDecoding needs no gradient"
        )


def smooth_answers(answer: Answer, records: np.ndarray) -> np.ndarray:
    """Answers `(m, K)` to records `(m, p)` before they are rounded."""
    shaped = records.reshape(len(records), *answer.shape)
    parts = []
    for first in range(0, len(records), _BLOCK):
        logits = [jnp.asarray(predict(shaped[first : first + _BLOCK])) for predict in answer.predicts]
        parts.append(np.concatenate([np.asarray(answer.smooth(z)) for z in logits], axis=1))
    return np.concatenate(parts)


def _mixture(c: np.ndarray, clusters: int, seed: int) -> dict[str, np.ndarray]:
    if clusters == 1:
        return {}
    from sklearn.mixture import GaussianMixture

    mixture = GaussianMixture(clusters, reg_covar=0.05, random_state=seed % 2**32, max_iter=50).fit(c)
    arrays = {"weights": mixture.weights_, "centres": mixture.means_, "roots": mixture.precisions_cholesky_}
    return {name: np.asarray(array) for name, array in arrays.items()}


def _error(release: Outputs, smooth: np.ndarray, errors: np.ndarray, scale: float) -> dict[str, np.ndarray]:
    answer, b = release.answer, errors.mean(axis=0)
    smallest = scale * np.sqrt(smooth.var(axis=0).mean())
    sd = np.sqrt(errors.var(axis=0) + smallest**2)
    if answer.view == "rounded":
        return {"b": b, "sd": sd, "half": np.asarray(10.0**-answer.decimals / 2)}
    if answer.view == "argmax":
        bounds = np.cumsum(release.widths)[:-1]
        # A common shift of the logits does not change the largest one.
        scales = [
            np.sqrt((p - p.mean(axis=1, keepdims=True)).var(axis=0).mean()) for p in np.split(errors, bounds, axis=1)
        ]
        tau = np.repeat([max(scale_, smallest) * _GUMBEL for scale_ in scales], release.widths)
        return {"b": b, "tau": tau}
    values, vectors = np.linalg.eigh(np.cov(smooth, rowvar=False).reshape(smooth.shape[1], -1))
    directions = vectors[:, values > _RANK * values[-1]]
    covariance = directions.T @ np.cov(errors, rowvar=False).reshape(len(vectors), -1) @ directions
    covariance += (smallest**2 + release.noise**2) * np.eye(directions.shape[1])
    return {"b": b, "white": np.linalg.solve(np.linalg.cholesky(covariance), directions.T)}
