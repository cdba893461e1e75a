"""The probability that the label, or the sign, of a deleted record is right.

The estimated gradient is `G = s (x, 1)' + E`, where E is the sampling error of the public Hessian. Three kinds of
numbers in G distinguish a record from its mirror image and from records with other labels: the column of the
intercepts, which is s; along the slope's direction u the score `u' G (u' W)'`, which is `(u's) (u' eta)`; and
`G (v, -v'c)'`, v the direction of the features from the mean public record c, which is s times their distance from
it and the sign of u's. Every public record is a hypothesis with slope s_i, predictor eta_i and a label. Given these,
its features are normal as among the public records of that label. So the numbers t are normal with

    mean    (a_j' s_i) E(b_j' z | eta_i),    covariance    (a_j' s_i) (a_k' s_i) Cov(b_j' z, b_k' z | eta_i) + S_jk

and `S = n (1 + n / m) Cov(kappa_i (x_i, 1)')` of these numbers, because public and private records are both samples.
If few records contribute to the estimate, S is estimated from few, so the distribution is t with that many degrees of
freedom. Errors make the distance too long, by up to the share `1 - (1 - tr S' / |u'G|^2)^(1/2)` of it, where S' is
their covariance along the features. S includes that. Trained parameters fit private records better than public ones,
which `trained_on` corrects by d. Whether it is as uncertain as it is large, which adds `d d'` to S, is left open: the
probabilities are the mean of those with and without it. The probability of a label is its share of the likelihood of
all hypotheses, and the most probable label is the one that is reported. Nothing here is fitted to deletions.
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
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The probability of every label, or without labels of both signs of a direction.

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

    Returns:
        The labels `(L,)` (or the signs -1 and 1), their probabilities `(L,)`, which add up to one, and the expected
        directions of the slopes of records with these labels, `(L, K)`.

    >>> from bayesrecon.models import load
    >>> rng, linear = np.random.default_rng(0), load("linear_predictor", loss="logistic", features=1).linear
    >>> z, y = np.column_stack([rng.normal(size=400), np.ones(400)]), rng.integers(0, 2, 400)
    >>> options = dict(count=400, direction=np.ones(1))
    >>> high, low = (certainty(linear, z, y, np.zeros((1, 2)), np.array([[0.1, 0.5]]),
    ...     kappa * rng.normal(size=(400, 1)), other=np.array([[0.1, 0.5]]), **options)[1][1] for kappa in (0.003, 0.3))
    >>> bool(high > 0.99 > 0.6 > low)
    True
    """
    outputs = len(gradient)
    samples = count * (1 + count / len(design))
    left, right = _functionals(design, at, direction, linear.intercept is not None)
    lengths, excess = None, 0.0
    if linear.intercept is not None:
        towards, lengths, excess = _distances(design, direction @ gradient, kappa, direction, samples)
        left, right = np.concatenate([left, np.eye(outputs)]), np.concatenate([right, np.tile(towards, (outputs, 1))])
    values = np.einsum("jk,kq,jq->j", left, gradient, right)
    scores = design @ right.T
    share = (kappa @ left.T) * scores
    noise = samples * np.atleast_2d(np.cov(share.T, bias=True))
    if lengths is not None:
        scores[:, -outputs:] = lengths[:, None]
        noise[-outputs:, -outputs:] += excess**2 * np.outer(values[-outputs:], values[-outputs:])
    correction = np.einsum("jk,kq,jq->j", left, gradient - other, right)
    subset = slice(None, None, -(-len(design) // _HYPOTHESES))
    eta, scores, y = design[subset] @ at.T, scores[subset], labels[subset]
    s = np.asarray(slopes(linear, eta, y)).reshape(-1, outputs)
    slopes_along = s @ left.T
    if lengths is not None:  # a slope that is opposite to the direction belongs to features on the other side
        slopes_along[:, -outputs:] *= np.where(s @ direction < 0, -1.0, 1.0)[:, None]
    weight = (kappa**2).sum(axis=1)
    freedom = max(float(weight.sum() ** 2 / (weight**2).sum()) - 1, 1.0)
    groups = y.astype(int) if linear.labels else np.zeros(len(eta), int)
    likelihood = np.zeros(len(eta))
    for error in (noise, noise + np.outer(correction, correction)):
        unit = np.sqrt(np.maximum(np.diag(error), 1e-300))
        logs = np.full(len(eta), -np.inf)
        for group in np.unique(groups):
            members = groups == group
            mean, variance = _conditional_moments(scores[members], eta[members])
            difference = (values - slopes_along[members] * mean) / unit
            scaled = slopes_along[members] / unit
            covariance = scaled[:, :, None] * scaled[:, None, :] * variance + error / np.outer(unit, unit)
            logs[members] = _log_t(difference, covariance, freedom)
        weights = np.exp(logs - logs.max())
        likelihood += 0.5 * weights / weights.sum()
    found = y.astype(int) if linear.labels else np.where(s @ direction > 0, 1, -1)
    names = np.unique(found)
    probability = np.array([likelihood[found == name].sum() for name in names])
    directions = np.array([likelihood[found == name] @ s[found == name] for name in names])
    return names, probability, directions / np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)


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


def _distances(
    design: np.ndarray, row: np.ndarray, kappa: np.ndarray, direction: np.ndarray, samples: float
) -> tuple[np.ndarray, np.ndarray, float]:
    """The functional `(q,)` that gives a record's distance from the mean public record along the estimated features,
    these distances of the public records `(m,)`, and the share of the estimated distance that its errors may be."""
    weight, x = (kappa**2).sum(axis=1), design[:, :-1]
    centre = weight @ x / weight.sum()
    about = row[:-1] - row[-1] * centre
    square = max(float(about @ about), np.finfo(float).tiny)
    spread = float(((kappa @ direction)[:, None] * (x - centre)).var(axis=0).sum()) * samples
    towards = about / np.sqrt(square)
    excess = 1 - np.sqrt(max(1 - spread / square, 0.0))
    return np.append(towards, -towards @ centre), np.linalg.norm(x - centre, axis=1), float(excess)


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
