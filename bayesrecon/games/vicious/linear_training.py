"""Honest and vicious training of linear classifiers, in closed form: the exact analogue of networks.

Let S be the covariance of the records (with a ridge), C their covariance with the indicators of the classes, and pi the
mean of the indicators. Least squares on the indicators gives honest logits with `W = S^-1 C`. A server that also wants
to reconstruct records minimises

    E |y - pi - T V'(x - mean)|^2 + ratio E |x - mean - G V'(x - mean)|^2,    V'S V = 1,

over V, T and G. This is a reduced-rank regression of both targets. The solution is V = S^-1/2 U, where U contains the
leading eigenvectors of `S^-1/2 (C C' + ratio S S) S^-1/2`, and T = C'V. The logits are `T V'(x - mean) + pi`.

The offset: adding the same number c(x) to all logits does not change the class. So logits can carry one more number at
no cost. The best linear one is `a'(x - mean)`, where a is S^-1/2 times the leading eigenvector of the residual
covariance of the records given the logits. Softmax removes the offset.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """A linear classifier `z = W'(x - mean) + centre` with one logit per class.

    Attributes:
        mean: mean of the records, `(p,)`.
        covariance: S with its ridge, `(p, p)`.
        weights: W, `(p, N)`.
        centre: mean of the indicators of the classes, `(N,)`.
    """

    mean: np.ndarray
    covariance: np.ndarray
    weights: np.ndarray
    centre: np.ndarray

    def __call__(self, x: npt.ArrayLike) -> np.ndarray:
        """Logits `(M, N)` of records `(M, p)`."""
        return np.asarray((np.asarray(x, float) - self.mean) @ self.weights + self.centre)

    def classes(self, x: npt.ArrayLike) -> np.ndarray:
        """The class of the largest logit, `(M,)`."""
        return np.asarray(self(x).argmax(axis=1))


def train_linear(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    ratio: float = 0.0,
    offset: bool = False,
    scale: float = 1.0,
    ridge: float = 1e-3,
) -> LinearClassifier:
    """Train a linear classifier, honest or vicious.

    Args:
        x: records, `(m, p)`.
        y: classes from 0 to N - 1, `(m,)`.
        ratio: weight of the reconstruction relative to the task. Zero is an honest classifier.
        offset: whether to use the offset of the logits, on which the task does not depend.
        scale: standard deviation of the offset, relative to the logits. It matters if the outputs are noisy.
        ridge: number added to the diagonal of S, relative to the mean variance.
    """
    x, y = np.asarray(x, float), np.asarray(y)
    if x.ndim != 2 or y.shape != x.shape[:1] or y.dtype.kind not in "iu" or not np.isfinite(x).all():
        raise BayesreconError(
            f"records {x.shape} and classes {y.shape} of type {y.dtype}: expected a table and integers"
        )
    count = int(y.max()) + 1 if len(y) else 0
    if count < 2 or y.min() < 0 or len(np.unique(y)) < count:
        raise BayesreconError("expected at least two classes, 0 to N - 1, each with at least one record")
    for name, value in (("ratio", ratio), ("scale", scale), ("ridge", ridge)):
        if not (np.isfinite(value) and value >= 0):
            raise BayesreconError(f"{name}={value}: expected a number, 0 or more")
    mean, indicators = x.mean(axis=0), np.eye(count)[y]
    records, share = x - mean, indicators.mean(axis=0)
    covariance = records.T @ records / len(x)
    covariance[np.diag_indices(len(mean))] += ridge * np.trace(covariance) / len(mean)
    cross_covariance = records.T @ (indicators - share) / len(x)  # C
    values, vectors = np.linalg.eigh(covariance)
    if not values[0] > 0:
        raise BayesreconError("the records do not vary in some direction; set ridge= to a positive number")
    inverse_root = vectors * values**-0.5 @ vectors.T
    target = inverse_root @ cross_covariance
    rank = min(count - 1, len(mean))
    leading = np.linalg.eigh(target @ target.T + ratio * covariance)[1][:, -rank:]
    basis = inverse_root @ leading  # V
    weights = basis @ (cross_covariance.T @ basis).T
    if offset and rank < len(mean):
        residual = np.eye(len(mean)) - leading @ leading.T
        direction = inverse_root @ np.linalg.eigh(residual @ covariance @ residual)[1][:, -1]
        sd = np.sqrt(np.einsum("pk,pq,qk->k", weights, covariance, weights).mean())
        weights = weights + scale * sd * direction[:, None]
    return LinearClassifier(mean, covariance, weights, share)
