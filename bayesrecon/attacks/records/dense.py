"""Solve `K s = b` with K as one dense array: exact, in cubic time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

lapack: Any = scipy.linalg.lapack

_SINGULAR = 1e-11  # eigenvalues of K below this share of the largest are rounding
_PIVOT = 1e-13  # pivots below this are rounding, if K has a unit diagonal
_LOW = 0.5  # if the rank is below this share of the size, a pivoted Cholesky factor is faster than all eigenvectors
_CONSTANT = 1e-20  # features with a smaller diagonal of K, relative to the largest, are constant over the draws


def units_of(gram: np.ndarray) -> Float[np.ndarray, " M"]:
    """Scales in which K has a unit diagonal, or a smaller one for features that vary only by rounding."""
    diagonal = np.diag(gram)
    return np.sqrt(np.maximum(diagonal, max(_CONSTANT * diagonal.max(), 1e-300)))


def solved(
    gram: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, Callable[[np.ndarray], np.ndarray]]:
    """Least-norm solution for K scaled to a unit diagonal.

    Returns:
        The solution `(M,)`, the directions `(M, r)` that K determines (None if all), and a solver for further
        right-hand sides.
    """
    unit = units_of(gram)
    scaled = gram / unit[:, None] / unit

    def in_units(solve: Callable[[np.ndarray], np.ndarray], right: np.ndarray) -> np.ndarray:
        scale = unit if right.ndim == 1 else unit[:, None]
        return solve(right / scale) / scale

    factor, info = lapack.dpotrf(scaled, lower=1, clean=0)
    if not info:
        rcond, info = lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
        if rcond > _SINGULAR:

            def solve(right: np.ndarray) -> np.ndarray:
                return in_units(lambda x: scipy.linalg.cho_solve((factor, True), x, check_finite=False), right)

            return solve(target), None, solve
    values, vectors = _spectrum(scaled)
    nonzero = values > _SINGULAR * values[-1]
    basis = vectors[:, nonzero]

    def solve_nonzero(right: np.ndarray) -> np.ndarray:
        return in_units(lambda x: basis @ ((basis.T @ x).T / values[nonzero]).T, right)

    return solve_nonzero(target), (None if basis.shape[1] == len(basis) else basis), solve_nonzero


def _spectrum(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues in ascending order, and eigenvectors. For a matrix of low rank, only those above rounding."""
    factor, order, rank, _ = lapack.dpstrf(scaled, lower=1, tol=_PIVOT)
    if not 0 < rank <= _LOW * len(scaled):
        return scipy.linalg.eigh(scaled, check_finite=False)
    # K = L L' with few columns: its eigenvectors are the left singular vectors of L.
    tall = np.empty((len(scaled), rank))
    tall[order - 1] = np.tril(factor[:, :rank])
    vectors, singular, _ = scipy.linalg.svd(tall, full_matrices=False, check_finite=False)
    return singular[::-1] ** 2, vectors[:, ::-1]


def halves_of(
    gram: np.ndarray, target: np.ndarray, visible: np.ndarray | None, first: np.ndarray, first_target: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Solutions from each half of the draws, as in `System.halves`.

    Args:
        first: K of the first half of the draws. It is overwritten.
        first_target: b of the first half of the draws.
    """
    unit = units_of(gram)
    first /= unit
    first /= unit[:, None]
    second = gram / unit
    second /= unit[:, None]
    second -= first
    solutions = []
    for k, b in ((first, first_target / unit), (second, (target - first_target) / unit)):
        if visible is not None:
            k, b = visible.T @ k @ visible, visible.T @ b
        factor, info = lapack.dpotrf(k.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return None
        x = scipy.linalg.cho_solve((factor, True), b, check_finite=False)
        solutions.append((x if visible is None else visible @ x) / unit)
    return solutions[0], solutions[1]
