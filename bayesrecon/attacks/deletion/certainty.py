"""The probability that the label, or the sign, of a deleted record is right.

The estimated gradient is `G = s (x, 1)' + E`, where E is the sampling error of the public Hessian. Two kinds of numbers
in G distinguish a record from its mirror image: the column of the intercepts, which is s, and along the slope's
direction u the score `u' G (u' W)'`, which is `(u's) (u' eta)`. Every public record is a hypothesis with slope s_i,
predictor eta_i and a label. Given these, its features are normal as among the public records of that label. So the
numbers t are normal with

    mean    (a_j' s_i) E(b_j' z | eta_i),    covariance    (a_j' s_i) (a_k' s_i) Cov(b_j' z, b_k' z | eta_i) + S_jk

and `S = n (1 + n / m) Cov(kappa_i (x_i, 1)')` of these numbers, because public and private records are both samples. If
few records contribute to the estimate, S is estimated from few, so the distribution is t with that many degrees of
freedom. Trained parameters fit private records better than public ones, which `trained_on` corrects. The correction d
is as uncertain as it is large, which adds `d d'` to S. The probability of a label is its share of the likelihood of all
hypotheses. Nothing here is fitted to deletions.
"""

import numpy as np
from jaxtyping import Float

from bayesrecon.divergence.outer_products import slopes
from bayesrecon.model import LinearPredictor

_HYPOTHESES = 1500  # largest number of public records that are hypotheses
_RIDGE = 1e-7  # ridge relative to the numbers' variances, because the numbers may be linearly dependent


def certainty(
    linear: LinearPredictor,
    design: Float[np.ndarray, "m q"],
    labels: np.ndarray,
    at: Float[np.ndarray, "K q"],
    gradient: Float[np.ndarray, "K q"],
    kappa: np.ndarray,
    *,
    other: Float[np.ndarray, "K q"],
    count: float,
    direction: Float[np.ndarray, " K"],
    label: int | None,
) -> float:
    """The probability that a label is right, or without labels that the slope has the direction's sign.

    Args:
        linear: the predictor and its loss.
        design: public records, `(m, q)`.
        labels: labels of the public records, `(m,)`, or `(m, K)` for least squares.
        at: parameter at which slopes are computed, `(K, q)`.
        gradient: the estimated gradient, `(K, q)`.
        kappa: contributions of the public records to the gradient, `(m, K)`.
        other: the estimated gradient without the correction, `(K, q)`. The difference of both counts as an error.
        count: n, the number of private records.
        direction: direction of the inferred slope, `(K,)`.
        label: the inferred label; None without labels.

    Returns:
        Between 0 and 1.

    >>> from bayesrecon.models import load
    >>> rng, linear = np.random.default_rng(0), load("linear_predictor", loss="logistic", features=1).linear
    >>> z, y = np.column_stack([rng.normal(size=400), np.ones(400)]), rng.integers(0, 2, 400)
    >>> options = dict(count=400, direction=np.ones(1), label=1)
    >>> high, low = (certainty(linear, z, y, np.zeros((1, 2)), np.array([[0.1, 0.5]]),
    ...     kappa * rng.normal(size=(400, 1)), other=np.array([[0.1, 0.5]]), **options) for kappa in (0.003, 0.3))
    >>> bool(high > 0.99 > 0.6 > low)
    True
    """
    outputs = len(gradient)
    left, right = _functionals(design, at, direction, linear.intercept is not None)
    values = np.einsum("jk,kq,jq->j", left, gradient, right)
    scores = design @ right.T
    share = (kappa @ left.T) * scores
    noise = count * (1 + count / len(design)) * np.atleast_2d(np.cov(share.T, bias=True))
    difference = np.einsum("jk,kq,jq->j", left, gradient - other, right)
    noise = noise + np.outer(difference, difference)
    unit = np.sqrt(np.maximum(np.diag(noise), 1e-300))
    subset = slice(None, None, -(-len(design) // _HYPOTHESES))
    eta, scores, y = design[subset] @ at.T, scores[subset], labels[subset]
    s = np.asarray(slopes(linear, eta, y)).reshape(-1, outputs)
    slopes_along = s @ left.T
    weight = (kappa**2).sum(axis=1)
    freedom = max(float(weight.sum() ** 2 / (weight**2).sum()) - 1, 1.0)
    logs = np.full(len(eta), -np.inf)
    groups = y if linear.labels else np.zeros(len(eta), int)
    for group in np.unique(groups):
        members = groups == group
        mean, variance = _conditional_moments(scores[members], eta[members])
        difference = (values - slopes_along[members] * mean) / unit
        scaled_slopes = slopes_along[members] / unit
        covariance = scaled_slopes[:, :, None] * scaled_slopes[:, None, :] * variance + noise / np.outer(unit, unit)
        logs[members] = _log_t(difference, covariance, freedom)
    likelihood = np.exp(logs - logs.max())
    agree = (y == label) if label is not None else (s @ direction > 0)
    return float(likelihood[agree].sum() / likelihood.sum())


def _functionals(
    design: np.ndarray, at: np.ndarray, direction: np.ndarray, intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The vectors a `(D, K)` and b `(D, q)` of the numbers `a_j' G b_j`."""
    outputs, width = at.shape
    constant = np.zeros(width)
    if intercept:
        constant[-1] = 1.0
    else:  # the linear function of the features that is closest to a constant
        constant = np.linalg.lstsq(design, np.ones(len(design)), rcond=1e-9)[0]
    score = direction @ at
    left, right = list(np.eye(outputs)), [constant] * outputs
    if np.linalg.norm(score) > 0:
        left, right = [*left, direction], [*right, score]
    return np.array(left), np.array(right)


def _conditional_moments(scores: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean `(M, D)` and covariance `(D, D)` of the numbers `b_j' z` given eta, if all are jointly normal."""
    numbers, predictors = scores - scores.mean(axis=0), eta - eta.mean(axis=0)
    gain = np.linalg.pinv(predictors.T @ predictors, rcond=1e-9, hermitian=True) @ predictors.T @ numbers
    residual = numbers - predictors @ gain
    return scores - residual, residual.T @ residual / len(residual)


def _log_t(difference: np.ndarray, covariance: np.ndarray, freedom: float) -> np.ndarray:
    """Log density of a t distribution up to a constant, row by row."""
    size = difference.shape[1]
    ridge = _RIDGE * np.trace(covariance, axis1=1, axis2=2)
    root = np.linalg.cholesky(covariance + ridge[:, None, None] * np.eye(size))
    square = (np.linalg.solve(root, difference[:, :, None])[:, :, 0] ** 2).sum(axis=1)
    volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return -volume - 0.5 * (freedom + size) * np.log1p(square / freedom)
