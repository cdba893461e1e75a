"""`K s = b` with K as one dense array: exact whatever the rows share, in the cube of their number."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

lapack: Any = scipy.linalg.lapack

_SINGULAR = 1e-11  # eigenvalues of K below this share of the largest are rounding
_REST = 1e-13  # diagonal entries, of ones, that are rounding once the columns before them are taken out
_LOW = 0.5  # rank as a share of the size up to which a factor of few columns is cheaper than all eigenvectors
_STILL = 1e-20  # diagonal entries of K below this share of the largest: the feature does not move with the parameters


def units_of(gram: np.ndarray) -> Float[np.ndarray, " M"]:
    """Scales `(M,)` in which K has a diagonal of ones, less where a feature moves by rounding alone."""
    diagonal = np.diag(gram)
    return np.sqrt(np.maximum(diagonal, max(_STILL * diagonal.max(), 1e-300)))


def solved(
    gram: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, Callable[[np.ndarray], np.ndarray]]:
    """Least-norm solution in units that give K a diagonal of ones, and a solver for further right-hand sides."""
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
    kept = values > _SINGULAR * values[-1]
    basis = vectors[:, kept]

    def solve_kept(right: np.ndarray) -> np.ndarray:
        return in_units(lambda x: basis @ ((basis.T @ x).T / values[kept]).T, right)

    return solve_kept(target), (None if basis.shape[1] == len(basis) else basis), solve_kept


def _spectrum(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, ascending, and eigenvectors; of a matrix of low rank those that are not rounding only."""
    factor, order, rank, _ = lapack.dpstrf(scaled, lower=1, tol=_REST)
    if not 0 < rank <= _LOW * len(scaled):
        return scipy.linalg.eigh(scaled, check_finite=False)
    # K = L L' with few columns: its eigenvectors are the left singular vectors of L.
    tall = np.empty((len(scaled), rank))
    tall[order - 1] = np.tril(factor[:, :rank])
    vectors, singular, _ = scipy.linalg.svd(tall, full_matrices=False, check_finite=False)
    return singular[::-1] ** 2, vectors[:, ::-1]


def halves_of(
    gram: np.ndarray, target: np.ndarray, visible: np.ndarray | None, first: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Solutions from either half of the draws, see `System`.

    `first` and `at` are the first half's part of K, which is used up, and of b.
    """
    unit = units_of(gram)
    first /= unit
    first /= unit[:, None]
    second = gram / unit
    second /= unit[:, None]
    second -= first
    solutions = []
    for k, b in ((first, at / unit), (second, (target - at) / unit)):
        if visible is not None:
            k, b = visible.T @ k @ visible, visible.T @ b
        factor, info = lapack.dpotrf(k.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return None
        x = scipy.linalg.cho_solve((factor, True), b, check_finite=False)
        solutions.append((x if visible is None else visible @ x) / unit)
    return solutions[0], solutions[1]
