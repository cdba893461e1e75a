"""Honest and vicious training of linear classifiers, in closed form: the exact analogue of what networks do.

Least squares on the classes' indicators give honest logits, `W = S^-1 C` with the covariance S of the records (with a
ridge) and C that of records and indicators. A server that also wants to reconstruct minimises

    E |y - pi - T V'(x - mean)|^2 + ratio E |x - mean - G V'(x - mean)|^2,    V'S V = 1,

over V, T and G: reduced-rank regression of both targets at once. V = S^-1/2 U with U the leading eigenvectors of
`S^-1/2 (C C' + ratio S S) S^-1/2`, and T = C'V; the logits are `T V'(x - mean) + pi`.

The free output: classes do not change when one number c(x) is added to all logits. Logits carry it at no cost; the
best linear one is `a'(x - mean)`, a = S^-1/2 times the leading eigenvector of what the logits leave of S. Softmax
removes it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """`z = W'(x - mean) + centre`, one logit a class.

    Attributes:
        mean: `(p,)`; covariance: S with its ridge, `(p, p)`; weights: W, `(p, N)`; centre: `(N,)`.
    """

    mean: np.ndarray
    covariance: np.ndarray
    weights: np.ndarray
    centre: np.ndarray

    def __call__(self, x: Any) -> np.ndarray:
        """Logits `(M, N)` of records `(M, p)`."""
        return np.asarray((np.asarray(x, float) - self.mean) @ self.weights + self.centre)

    def classes(self, x: Any) -> np.ndarray:
        """The class of the largest logit, `(M,)`."""
        return np.asarray(self(x).argmax(axis=1))


def train_linear(
    x: Any, y: Any, *, ratio: float = 0.0, offset: bool = False, scale: float = 1.0, ridge: float = 1e-3
) -> LinearClassifier:
    """Train a linear classifier, honest or vicious.

    Args:
        x: `(m, p)` records; y: `(m,)` classes from 0 to N - 1.
        ratio: of the weight of the reconstruction to that of the task; zero is honest.
        offset: whether the number that the task cannot see is used, too.
        scale: of that number's standard deviation, in units of the logits'; it matters where outputs are noisy.
        ridge: added to S, in units of its mean variance.

    Raises:
        BayesreconError: records and classes of different lengths, fewer than two classes, classes that nobody has, or a
            ratio, scale or ridge that is no size.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 300)
    >>> x = np.eye(5)[y] + 0.3 * rng.normal(size=(300, 5))
    >>> honest, hiding = (train_linear(x, y, offset=flag) for flag in (False, True))
    >>> bool((honest.classes(x) == hiding.classes(x)).all())
    True
    """
    x, y = np.asarray(x, float), np.asarray(y)
    if x.ndim != 2 or y.shape != x.shape[:1] or y.dtype.kind not in "iu" or not np.isfinite(x).all():
        raise BayesreconError(
            f"records {x.shape} and classes {y.shape} of type {y.dtype}: expected a table and integers"
        )
    count = int(y.max()) + 1 if len(y) else 0
    if count < 2 or y.min() < 0 or len(np.unique(y)) < count:
        raise BayesreconError("expected classes 0 to N - 1, two or more, each with a record")
    for name, value in (("ratio", ratio), ("scale", scale), ("ridge", ridge)):
        if not (np.isfinite(value) and value >= 0):
            raise BayesreconError(f"{name}={value}: expected a number, 0 or more")
    mean, indicators = x.mean(axis=0), np.eye(count)[y]
    records, share = x - mean, indicators.mean(axis=0)
    covariance = records.T @ records / len(x)
    covariance[np.diag_indices(len(mean))] += ridge * np.trace(covariance) / len(mean)
    both = records.T @ (indicators - share) / len(x)
    values, vectors = np.linalg.eigh(covariance)
    if not values[0] > 0:
        raise BayesreconError("the records do not vary in some direction: take a ridge above zero")
    inverse = vectors * values**-0.5 @ vectors.T
    target = inverse @ both
    rank = min(count - 1, len(mean))
    leading = np.linalg.eigh(target @ target.T + ratio * covariance)[1][:, -rank:]
    basis = inverse @ leading  # V
    weights = basis @ (both.T @ basis).T
    if offset and rank < len(mean):
        apart = np.eye(len(mean)) - leading @ leading.T
        free = inverse @ np.linalg.eigh(apart @ covariance @ apart)[1][:, -1]
        size = np.sqrt(np.einsum("pk,pq,qk->k", weights, covariance, weights).mean())
        weights = weights + scale * size * free[:, None]
    return LinearClassifier(mean, covariance, weights, share)
