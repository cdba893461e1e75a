"""The kernel of the monomials of a regression (`divergence.monomials`), from sums over the draws.

Sums of products of rows with themselves have one triangle worked on, in one place of memory.

With scores `phi = c q' + E` and `E = sum of b_i g_a` over the pairs (i, a) of a monomial, `g = (1, -d) p`: (i, 0) of
`e x_i`, (i, j) and (j, i) of `x_i x_j`, its products are

    |c|^2 q q'  +  q (c b_k g_a)' and its transpose  +  b_i b_k' g_a g_c',

where b and the direction of c belong to the metric. Of the last two only sums over g are kept, (F, p + 1) numbers of
each metric and (p + 1, p + 1), and written out for the monomials once for all metrics.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import scipy.linalg

Array = np.ndarray | jax.Array

_ENTRIES = 2**22  # numbers that a few rows of the kernel are written out from
_ROWS = 256  # of a triangle, mirrored at once: small beside what is kept


class Squares:
    """`sum a' a` over blocks of rows `a (C, F)`.

    >>> sums = Squares(2)
    >>> sums.add(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> sums.matrix().tolist()
    [[1.0, 2.0], [2.0, 13.0]]
    """

    def __init__(self, width: int) -> None:
        self._lower = np.zeros((width, width), order="F")

    @classmethod
    def of(cls, matrix: np.ndarray) -> "Squares":
        """The sums in a matrix `(F, F)`."""
        squares = cls(len(matrix))
        squares._lower += matrix
        return squares

    def add(self, rows: np.ndarray) -> None:
        """Add a block of rows `(C, F)`."""
        blas: Any = scipy.linalg.blas
        self._lower = blas.dsyrk(1.0, np.ascontiguousarray(rows).T, beta=1.0, c=self._lower, overwrite_c=1, lower=1)

    def plus(self, other: "Squares") -> None:
        """Add the sums over other blocks."""
        self._lower += other._lower

    def matrix(self) -> np.ndarray:
        """The sums `(F, F)`, in the memory of the triangle."""
        matrix = self._lower
        for start in range(0, len(matrix), _ROWS):
            end = start + _ROWS
            matrix[start:end, end:] = matrix[end:, start:end].T
            corner = matrix[start:end, start:end]
            corner += np.tril(corner, -1).T - np.triu(corner, 1)
        return matrix


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fold:
    """Sums over the atoms that share a metric.

    Attributes:
        directions: `(p, p)`, inner products of the directions b of the coefficients.
        along: `(p,)`, their inner products with the direction of the scale.
        mixed: `(F, p + 1)`, sums of the products of q and g.
        inner: `(p + 1, p + 1)`, sums of the products of g and g.
    """

    directions: Array
    along: Array
    mixed: Array
    inner: Array

    def plus(self, other: "Fold") -> "Fold":
        return Fold(self.directions, self.along, self.mixed + other.mixed, self.inner + other.inner)


@dataclass(frozen=True)
class Products:
    """Sums over atoms.

    Attributes:
        squares: sums of the products of q with itself.
        folds: the other sums, by the `id` of the metric.
    """

    squares: Squares
    folds: dict[int, Fold]

    @classmethod
    def none(cls, features: int) -> "Products":
        return cls(Squares(features), {})

    def add(self, metric: int, q: np.ndarray, fold: Fold) -> None:
        """Add atoms: `q (C, F)`, scaled by their weights, and their other sums."""
        self.squares.add(q)
        self._add_fold(metric, fold)

    def plus(self, metric: int, other: "Products") -> None:
        """Add the sums over a part, all of it in one metric."""
        self.squares.plus(other.squares)
        for fold in other.folds.values():
            self._add_fold(metric, fold)

    def _add_fold(self, metric: int, fold: Fold) -> None:
        self.folds[metric] = self.folds[metric].plus(fold) if metric in self.folds else fold

    def gram(self) -> np.ndarray:
        """Kernel of the monomials, `(F, F)`. It overwrites the sums."""
        folds = list(self.folds.values())
        directions, along, mixed, inner = (
            np.stack([getattr(one, name) for one in folds]) for name in ("directions", "along", "mixed", "inner")
        )
        features, width = mixed.shape[1], directions.shape[1]
        pairs = np.triu_indices(width)
        kernel = np.zeros((features, features))
        for rows in _blocks(features, width):
            # (k, a) of every row: sum over the metrics of along_k mixed_a.
            pair_sums = np.einsum("mk,mra->rka", along, mixed[:, rows], optimize=True)
            kernel[rows, 2:] = _by_monomial(pair_sums, *pairs)
        kernel += kernel.T
        # A monomial has one pair or two; e x_i has g_0, x_i x_j has g_j and, with another i, g_i.
        first = np.concatenate([np.arange(width), pairs[0]])
        second = np.concatenate([np.zeros(width, int), 1 + pairs[1]])
        third = np.concatenate([np.zeros(width, int), pairs[1]])
        fourth = np.concatenate([np.zeros(width, int), 1 + pairs[0]])
        twice = np.concatenate([np.zeros(width), np.where(pairs[0] == pairs[1], 0.0, 1.0)])
        for rows in _blocks(features - 2, width):
            left = np.concatenate([directions[:, first[rows]], directions[:, third[rows]] * twice[rows, None]])
            right = np.concatenate([inner[:, second[rows]], inner[:, fourth[rows]]])
            pair_sums = np.matmul(left.transpose(1, 2, 0), right.transpose(1, 0, 2))
            kernel[2:][rows, 2:] += _by_monomial(pair_sums, *pairs)
        kernel += self.squares.matrix().T  # it is symmetric, and its transpose is stored row by row
        return kernel


def _blocks(count: int, width: int) -> Iterable[slice]:
    step = max(1, _ENTRIES // max(1, width * (width + 1)))
    return (slice(start, min(count, start + step)) for start in range(0, count, step))


def _by_monomial(pair_sums: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """Sums over the pairs of each monomial `e x_i` and `x_i x_j`, `(n, F - 2)`, from sums of pairs `(n, p, p + 1)`."""
    square = pair_sums[:, :, 1:]
    both = square[:, i, j] + np.where(i == j, 0.0, 1.0) * square[:, j, i]
    return np.concatenate([pair_sums[:, :, 0], both], axis=1)
