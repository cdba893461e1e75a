"""Positive definite matrices by Cholesky's factor, where that keeps their digits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

_LEAST = 1e-6  # smallest pivot of a matrix with unit diagonal; with a smaller one most digits are lost

_POWERS = 8  # iterations of the power method, after which the largest singular value is known to a few per cent


def largest(diagonal: np.ndarray, functions: np.ndarray) -> float:
    """A lower bound on the largest singular value of `diagonal^(1/2) functions`.

    It measures how many digits the kernel of the functions loses if it is computed from the kernel of the records that
    they combine.

    Args:
        diagonal: diagonal of the records' kernel, `(M,)`.
        functions: coefficients, `(M, r)`.

    >>> float(largest(np.array([4.0, 1.0]), np.array([[3.0, 0.0], [0.0, 1.0]])))
    6.0
    """
    scaled = np.sqrt(np.maximum(diagonal, 0.0))[:, None] * functions
    direction = np.ones(scaled.shape[1])
    for _ in range(_POWERS):
        direction = scaled.T @ (scaled @ (direction / np.linalg.norm(direction)))
    return float(np.sqrt(np.linalg.norm(direction)))


def factor(matrix: Float[np.ndarray, "r r"]) -> Float[np.ndarray, "r r"] | None:
    """The upper triangle U `(r, r)` with `U' U = matrix`; None if the matrix is not clearly positive definite.

    >>> factor(np.array([[4.0, 0.0], [0.0, 1.0]])).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    >>> factor(np.ones((2, 2))) is None
    True
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not (np.isfinite(scale).all() and scale.all()):
        return None
    upper = np.divide(matrix.T, scale, order="F")  # LAPACK's order, so that nothing is copied
    upper /= scale[:, None]
    try:
        upper = np.asarray(scipy.linalg.cholesky(upper, overwrite_a=True, check_finite=False))
    except np.linalg.LinAlgError:
        return None
    if not np.diag(upper).min(initial=1.0) > _LEAST:
        return None
    upper *= scale
    return upper


def by_triangle(upper: Float[np.ndarray, "r r"], columns: Float[np.ndarray, "r M"]) -> Float[np.ndarray, "r M"]:
    """`upper @ columns` for an upper triangle; it overwrites the columns.

    >>> by_triangle(np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[1.0], [1.0]])).tolist()
    [[3.0], [3.0]]
    """
    blas: Any = scipy.linalg.blas
    return np.asarray(blas.dtrmm(1.0, upper, columns.T, side=1, trans_a=1, overwrite_b=1)).T


def solver(matrix: Float[np.ndarray, "r r"]) -> Callable[[np.ndarray], np.ndarray] | None:
    """The function `b -> matrix^-1 b`; None if the matrix `(r, r)` is not clearly positive definite.

    >>> solve = solver(np.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> solve(np.array([2.0, 2.0])).round(9).tolist()
    [1.0, 0.5]
    """
    upper = factor(matrix)
    if upper is None:
        return None
    return lambda b: np.asarray(scipy.linalg.cho_solve((upper, False), b, check_finite=False))


def solution(matrix: Float[np.ndarray, "r r"], b: np.ndarray) -> np.ndarray:
    """`matrix^-1 b` of a positive semi-definite matrix `(r, r)`, by its eigenvalues if it is not clearly definite.

    >>> solution(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0])).round(9).tolist()
    [1.0, 0.5]
    """
    solve = solver(matrix)
    if solve is not None:
        return solve(b)
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ ((vectors.T @ b) / np.maximum(values, 1e-14 * values[-1]))
