"""Positive definite matrices by Cholesky's factor, where that keeps their digits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

_LEAST = 1e-6  # of what a unit vector leaves of another's: a smaller one says that most of the digits are lost

_POWERS = 8  # from which a largest singular value is known to a few per cent: its size is what matters


def largest(diagonal: np.ndarray, functions: np.ndarray) -> float:
    """The largest singular value of `diagonal^(1/2) functions`, from below, for `diagonal (M,)` and `functions (M, r)`:
    how many digits a kernel of functions loses, which is taken from the kernel of what they are combinations of.

    >>> float(largest(np.array([4.0, 1.0]), np.array([[3.0, 0.0], [0.0, 1.0]])))
    6.0
    """
    scaled = np.sqrt(np.maximum(diagonal, 0.0))[:, None] * functions
    direction = np.ones(scaled.shape[1])
    for _ in range(_POWERS):
        direction = scaled.T @ (scaled @ (direction / np.linalg.norm(direction)))
    return float(np.sqrt(np.linalg.norm(direction)))


def factor(matrix: Float[np.ndarray, "r r"]) -> Float[np.ndarray, "r r"] | None:
    """`(r, r)` upper triangle U with `U' U = matrix`; None where that is not clearly positive definite.

    >>> factor(np.array([[4.0, 0.0], [0.0, 1.0]])).tolist()
    [[2.0, 0.0], [0.0, 1.0]]
    >>> factor(np.ones((2, 2))) is None
    True
    """
    scale = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    if not (np.isfinite(scale).all() and scale.all()):
        return None
    found = np.divide(matrix.T, scale, order="F")  # which is the same, as LAPACK has matrices: nothing is copied again
    found /= scale[:, None]
    try:
        found = np.asarray(scipy.linalg.cholesky(found, overwrite_a=True, check_finite=False))
    except np.linalg.LinAlgError:
        return None
    if not np.diag(found).min(initial=1.0) > _LEAST:
        return None
    found *= scale
    return found


def by_triangle(upper: Float[np.ndarray, "r r"], columns: Float[np.ndarray, "r M"]) -> Float[np.ndarray, "r M"]:
    """`upper @ columns` of an upper triangle, in the place of the columns.

    >>> by_triangle(np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[1.0], [1.0]])).tolist()
    [[3.0], [3.0]]
    """
    blas: Any = scipy.linalg.blas
    return np.asarray(blas.dtrmm(1.0, upper, columns.T, side=1, trans_a=1, overwrite_b=1)).T


def solver(matrix: Float[np.ndarray, "r r"]) -> Callable[[np.ndarray], np.ndarray] | None:
    """`b -> matrix^-1 b`; None where the matrix `(r, r)` is not clearly positive definite.

    >>> solve = solver(np.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> solve(np.array([2.0, 2.0])).round(9).tolist()
    [1.0, 0.5]
    """
    found = factor(matrix)
    if found is None:
        return None
    return lambda b: np.asarray(scipy.linalg.cho_solve((found, False), b, check_finite=False))


def solution(matrix: Float[np.ndarray, "r r"], b: np.ndarray) -> np.ndarray:
    """`matrix^-1 b` of a positive semi-definite matrix `(r, r)`: by its eigenvalues where it is not clearly definite.

    >>> solution(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0])).round(9).tolist()
    [1.0, 0.5]
    """
    solve = solver(matrix)
    if solve is not None:
        return solve(b)
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ ((vectors.T @ b) / np.maximum(values, 1e-14 * values[-1]))
