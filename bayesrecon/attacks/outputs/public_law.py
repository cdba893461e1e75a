"""A public distribution of records in few numbers, and how likely an answer is under it.

Records are `x = mean + V diag(sd) c`, V the leading principal components of public records and c normal, or a mixture
of normals. What the other components would add to an answer, and what was added to it on purpose, is its error: with
normal views `z ~ N(F(x) + b, D + s^2)`, b and D measured on public records as `F(x) - F(P x)`, P the projection on the
components. A rounded number has the probability of its cell under such an error, the largest class that of a
softmax of logits in units of it (errors of the extreme-value distribution).
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.kernels.output_embedding import Answer, Outputs

_RANK = 1e-10  # of the largest variance of answers, below which one is a function of the others
_GUMBEL = np.sqrt(6) / np.pi  # scale of an extreme-value distribution of variance one
_BLOCK = 512  # records that are projected and asked about at once


@dataclass(frozen=True, eq=False)
class PriorLaw:
    """Where records lie, and what of an answer is error.

    Attributes:
        arrays: what compiled code is given: `mean (p,)`, `basis (p, q)` with V diag(sd); of a mixture `weights (n,)`,
            `centres (n, q)` and `roots (n, q, q)`, of precisions; and the error's, see `log_likelihood`.
        rest: `(p,)` variance of every field outside the components.
        gain, centre: `(q, K)` and `(K,)`, of the linear estimate of c where chains start.
        share: share of the variance of all fields that the components hold.
        error: root mean square of the error of an answer, in units of its spread.
    """

    arrays: dict[str, Any]
    rest: Float[np.ndarray, " p"]
    gain: Float[np.ndarray, "q K"]
    centre: Float[np.ndarray, " K"]
    share: float
    error: float

    def start(self, z: np.ndarray) -> np.ndarray:
        """`(n, q)` for answers `(n, K)`."""
        return np.asarray((z - self.centre) @ self.gain.T)

    def records(self, c: np.ndarray) -> np.ndarray:
        """Records `(..., p)` of numbers `(..., q)`."""
        return np.asarray(self.arrays["mean"] + c @ self.arrays["basis"].T)


def fitted_distribution(
    release: Outputs, at: np.ndarray, components: int, clusters: int, scale: float, seed: int
) -> PriorLaw:
    """The distribution of public records at some positions.

    Args:
        components: q, at most.
        clusters: n of the mixture, one for a normal distribution.
        scale: least error of an answer, in units of its spread.

    Raises:
        BayesreconError: the model has no gradient.
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
    missed = smooth - smooth_answers(release.answer, mean + c @ basis.T)
    about = answers - answers.mean(axis=0)
    gain = (c.T @ about) @ np.linalg.pinv(about.T @ about, rcond=_RANK, hermitian=True)
    arrays = {"mean": mean, "basis": basis} | _mixture(c, clusters, seed) | _error(release, smooth, missed, scale)
    spread = max(float(smooth.var(axis=0).sum()), 1e-300)
    return PriorLaw(
        arrays,
        np.maximum(x.var(axis=0) - (basis**2).sum(axis=1), 0.0),
        gain,
        answers.mean(axis=0),
        float(variance[:q].sum() / variance.sum()),
        float(np.sqrt(missed.var(axis=0).sum() / spread)),
    )


def log_prior(c: Any, arrays: dict[str, Any]) -> Any:
    """Log density of `c (q,)` but for a constant."""
    if "weights" not in arrays:
        return -0.5 * (c**2).sum()
    white = jnp.einsum("nqr,nq->nr", arrays["roots"], c - arrays["centres"])
    size = jnp.log(jnp.abs(jnp.diagonal(arrays["roots"], axis1=1, axis2=2))).sum(axis=1)
    return jax.nn.logsumexp(jnp.log(arrays["weights"]) + size - 0.5 * (white**2).sum(axis=1))


def log_likelihood(c: Any, z: Any, answer: Answer, widths: tuple[int, ...], arrays: dict[str, Any]) -> Any:
    """Log probability (density) of an answer `z (K,)` to the record of `c (q,)`.

    `arrays` hold the error's bias `b`, and of normal views `white (r, K)`; of a rounded view half a cell, `half`, and
    the standard deviations `sd (K,)`; of the largest class the scales `tau (K,)`.
    """
    mean = answer(arrays["mean"] + arrays["basis"] @ c) + arrays["b"]
    if answer.view == "rounded":
        low = jnp.where(z - arrays["half"] <= 0, -jnp.inf, (z - arrays["half"] - mean) / arrays["sd"])
        high = jnp.where(z + arrays["half"] >= 1, jnp.inf, (z + arrays["half"] - mean) / arrays["sd"])
        return log_between(low, high).sum()
    if answer.view == "argmax":
        parts = jnp.split(mean / arrays["tau"], np.cumsum(widths)[:-1])
        return (z * jnp.concatenate([jax.nn.log_softmax(part) for part in parts])).sum()
    return -0.5 * ((arrays["white"] @ (z - mean)) ** 2).sum()


def log_between(low: Any, high: Any) -> Any:
    """Logarithm of the standard normal probability of an interval, without cancellation in the tails."""
    flip = low + high > 0  # an end at infinity decides the sign
    a, b = jnp.where(flip, -high, low), jnp.where(flip, -low, high)
    # Gradients of what is not taken must be finite, too.
    open_, closed = jnp.isinf(a), jnp.where(jnp.isinf(a), b - 1, a)
    top, bottom = jax.scipy.special.log_ndtr(b), jax.scipy.special.log_ndtr(closed)
    return top + jnp.where(open_, 0.0, jnp.log1p(-jnp.exp(jnp.minimum(bottom - top, -1e-12))))


def check_gradient(answer: Answer, record: np.ndarray) -> None:
    """Refuse a model that JAX cannot differentiate.

    Raises:
        BayesreconError: it cannot be traced, or its gradient is not finite or zero.
    """
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
    """What is seen of records `(m, p)` before it is rounded, `(m, K)`."""
    shaped = records.reshape(len(records), *answer.shape)
    parts = []
    for first in range(0, len(records), _BLOCK):
        logits = [jnp.asarray(predict(shaped[first : first + _BLOCK])) for predict in answer.predicts]
        parts.append(np.concatenate([np.asarray(answer.smooth(z)) for z in logits], axis=1))
    return np.concatenate(parts)


def _mixture(c: np.ndarray, clusters: int, seed: int) -> dict[str, Any]:
    if clusters == 1:
        return {}
    from sklearn.mixture import GaussianMixture

    found = GaussianMixture(clusters, reg_covar=0.05, random_state=seed % 2**32, max_iter=50).fit(c)
    return {"weights": found.weights_, "centres": found.means_, "roots": found.precisions_cholesky_}


def _error(release: Outputs, smooth: np.ndarray, missed: np.ndarray, scale: float) -> dict[str, Any]:
    answer, b = release.answer, missed.mean(axis=0)
    least = scale * np.sqrt(smooth.var(axis=0).mean())
    sd = np.sqrt(missed.var(axis=0) + least**2)
    if answer.view == "rounded":
        return {"b": b, "sd": sd, "half": 10.0**-answer.decimals / 2}
    if answer.view == "argmax":
        ends = np.cumsum(release.widths)[:-1]
        # What is common to the logits of a model has no part in which of them is largest.
        own = [np.sqrt((p - p.mean(axis=1, keepdims=True)).var(axis=0).mean()) for p in np.split(missed, ends, axis=1)]
        tau = np.repeat([max(o, least) * _GUMBEL for o in own], release.widths)
        return {"b": b, "tau": tau}
    values, vectors = np.linalg.eigh(np.cov(smooth, rowvar=False).reshape(smooth.shape[1], -1))
    seen = vectors[:, values > _RANK * values[-1]]
    covariance = seen.T @ np.cov(missed, rowvar=False).reshape(len(vectors), -1) @ seen
    covariance += (least**2 + release.noise**2) * np.eye(seen.shape[1])
    return {"b": b, "white": np.linalg.solve(np.linalg.cholesky(covariance), seen.T)}
