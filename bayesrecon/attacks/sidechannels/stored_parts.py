"""Rows and responses from stored parts of a fit: factors of the design, effects, fitted values, residuals.

R keeps the design `X` of a regression as `X = Q R`, with Householder vectors below the diagonal (LINPACK's `dqrdc2`;
Golub and Van Loan, Matrix Computations, section 5.2), and the effects `Q' y`. All of it is exact algebra.
"""

import numpy as np
from jaxtyping import Float

from bayesrecon.errors import BayesreconError


def rows_of_factors(qr: Float[np.ndarray, "n p"], qraux: Float[np.ndarray, " p"]) -> Float[np.ndarray, "n p"]:
    """The matrix `(n, p)` that was factorised, with columns in the order of the factors.

    Args:
        qr: `(n, p)` the triangle, and below it the Householder vectors without their first entries.
        qraux: `(p,)` these first entries.

    >>> rows_of_factors(np.array([[-5.0], [0.8]]), np.array([1.6])).ravel().round(6).tolist()
    [3.0, 4.0]
    """
    _check(qr, qraux)
    p = qr.shape[1]
    triangle = np.zeros_like(qr)
    triangle[:p] = np.triu(qr[:p])
    return _rotated(qr, qraux, triangle)


def response_of_effects(qr: np.ndarray, qraux: np.ndarray, effects: np.ndarray) -> Float[np.ndarray, " n"]:
    """The response y `(n,)`, from its effects `Q' y`.

    >>> response_of_effects(np.array([[-5.0], [0.8]]), np.array([1.6]), np.array([-5.0, 0.0])).round(6).tolist()
    [3.0, 4.0]
    """
    _check(qr, qraux)
    if effects.shape != (len(qr),):
        raise BayesreconError(f"effects of shape {effects.shape} for {len(qr)} rows")
    return _rotated(qr, qraux, effects[:, None].astype(float))[:, 0]


def covariate_of_predictors(predictors: np.ndarray, intercept: float, slope: float) -> np.ndarray:
    """The only covariate of a regression, `(eta - a) / b` for its linear predictors `eta`.

    >>> covariate_of_predictors(np.array([3.0, 5.0]), 1.0, 2.0).tolist()
    [1.0, 2.0]
    """
    if not slope or not np.isfinite(slope):
        raise BayesreconError("the slope is zero: the predictors contain no information about the covariate")
    return (np.asarray(predictors, float) - intercept) / slope


def count_of_first(qraux: float) -> float:
    """Number of records, from the first entry of the first Householder vector of a design with an intercept.

    A column of ones has the norm `sqrt(n)`, and the vector begins with `1 + 1 / sqrt(n)`.

    >>> count_of_first(1.1)
    100.0
    """
    if not 1.0 < qraux <= 2.0:
        raise BayesreconError("the first column is not all ones")
    return float(np.round((qraux - 1.0) ** -2, 6))


def _check(qr: np.ndarray, qraux: np.ndarray) -> None:
    if qr.ndim != 2 or qr.shape[0] < qr.shape[1] or qraux.shape != (qr.shape[1],) or not qr.size:
        raise BayesreconError(f"factors of shapes {qr.shape} and {qraux.shape} are not those of a design matrix")
    if not (np.isfinite(qr).all() and np.isfinite(qraux).all()):
        raise BayesreconError("factors with missing values are not those of a design matrix")


def _rotated(qr: np.ndarray, qraux: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """`Q` times columns `(n, k)`."""
    result = columns.astype(float).copy()
    n, p = qr.shape
    for j in reversed(range(min(p, n - 1))):
        if qraux[j] == 0:
            continue
        vector = qr[j:, j].copy()
        vector[0] = qraux[j]
        result[j:] -= np.outer(vector, vector @ result[j:]) / vector[0]
    return result
