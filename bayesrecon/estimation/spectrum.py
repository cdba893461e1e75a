"""The number of features of a record that the release distinguishes: rank, gap, and independent anchors."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from bayesrecon.running.threads import on_one_thread

# A gap is a drop of at least this factor between neighbouring singular values of the score matrix (its
# square in the kernel), onto a flat floor of rounding errors. A decaying spectrum keeps falling instead: QR
# resolves graded columns far below the largest one.
_GAP = 1e3
_ROUNDING = 1e-9  # singular values above it are features, whatever falls behind them
_FLAT = 30.0  # a floor of rounding varies by less from its first value to its middle; a decay falls on
_SQUARED = 1e-10  # of the largest eigenvalue of a Gram matrix, above which one has five digits
_NOTHING = 1e-15  # rounding of the largest singular value


@dataclass(frozen=True)
class Spectrum:
    """Spectrum of the score kernel on generic records.

    Attributes:
        values: `(M,)` eigenvalues of the equilibrated Gram matrix, largest first, largest scaled to one.
        rank: number of features kept.
        gap: True if the spectrum ends in a clear gap (finitely many features), False if it decays. At temperature 0
            there are always finitely many features, and those that training cannot resolve are left out.
    """

    values: Float[np.ndarray, " M"]
    rank: int
    gap: bool

    @property
    def full(self) -> bool:
        """True when even the last value stands above rounding: more records are needed to see the end."""
        return self.rank == len(self.values)

    @property
    def decays(self) -> bool:
        """True when features of some size were left out: no gap follows those that were kept."""
        rest = self.values[self.rank : self.rank + 1]
        return bool(rest.size and rest[0] * _GAP**2 > self.values[self.rank - 1])


class Ends(Protocol):
    """How the spectrum of equations ends (`error_laws.ErrorLaw`)."""

    smallest: ClassVar[float]
    ends: ClassVar[bool]


@on_one_thread
def decompose(scores: np.ndarray, finite: bool, law: Ends) -> tuple[Spectrum, np.ndarray, np.ndarray]:
    """Spectrum, pivots and basis of a score matrix `(rows, M)`.

    The columns are equilibrated to unit length, so that the scale of a record does not matter, and reduced by
    QR rather than through the Gram matrix, which would square the condition number. With `finite` False no gap
    is searched for. `law` is the error distribution of the equations.

    Returns:
        The `Spectrum`, the indices `(r,)` of numerically independent records, and `A (r, r)` such that
        `scores[:, pivots] @ A` has orthonormal columns.
    """
    with np.errstate(over="ignore"):  # far from the data, scores or their squares do
        length = np.sqrt(np.einsum("ij,ij->j", scores, scores))
    alive = np.flatnonzero((length > 0) & np.isfinite(length))
    if not alive.size:
        return Spectrum(np.zeros(0), 0, False), alive, np.zeros((0, 0))
    # One copy, in the place of which the triangle is worked out: nothing else of a search takes as much memory.
    whole = len(alive) == scores.shape[1]
    triangle = np.divide(scores if whole else scores[:, alive], length[alive], order="F")
    if len(triangle) > len(alive):
        reduced: Any = scipy.linalg.qr(triangle, mode="raw", overwrite_a=True, check_finite=False)
        triangle = np.asarray(reduced[1])
    singular = _singular(triangle)
    # Fewer rows than records bound the rank as well.
    singular = np.pad(singular, (0, len(alive) - len(singular))) / singular[0]
    drop = singular[:-1] / np.maximum(singular[1:], _NOTHING)
    middle = singular[(np.arange(1, len(singular)) + len(singular)) // 2]
    drop[(singular[1:] > _ROUNDING) | (singular[1:] > np.maximum(_FLAT * middle, _NOTHING))] = 1.0
    gap = bool(finite and drop.size and drop.max() >= _GAP)
    rank = int(drop.argmax()) + 1 if gap else int((singular > law.smallest).sum())
    gap = gap or law.ends
    spectrum = Spectrum(singular**2, rank, gap)
    if rank == len(triangle) < len(alive):  # as many features as there can be
        order, basis = eliminated(triangle)
        pivots = alive[order]
        return spectrum, pivots, basis / length[pivots][:, None]
    pivoted: Any = scipy.linalg.qr(triangle, mode="r", pivoting=True, check_finite=False)
    factor, order = pivoted
    pivots = alive[order[:rank]]
    basis = scipy.linalg.solve_triangular(factor[:rank, :rank], np.eye(rank), check_finite=False)
    return spectrum, pivots, basis / length[pivots][:, None]


def whole_spectrum(columns: Float[np.ndarray, "r M"]) -> Spectrum | None:
    """The spectrum if every row is a feature; None if it is uncertain that the records show all of them.

    >>> whole_spectrum(np.eye(2, 3)).values.tolist()
    [1.0, 1.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt(np.einsum("ij,ij->j", columns, columns))
    alive = (length > 0) & np.isfinite(length)
    scaled = columns if alive.all() else columns[:, alive]
    scaled /= length[alive]
    squares = scipy.linalg.eigvalsh(scaled @ scaled.T, check_finite=False, overwrite_a=True)[::-1]
    if not squares[-1] > _SQUARED * squares[0]:
        return None
    return Spectrum(np.pad(squares / squares[0], (0, scaled.shape[1] - len(squares))), len(squares), True)


def _singular(columns: np.ndarray) -> np.ndarray:
    """Singular values, largest first. Few rows use their Gram matrix, if that resolves the smallest."""
    if len(columns) < columns.shape[1]:
        squares = scipy.linalg.eigvalsh(columns @ columns.T, check_finite=False)
        if squares[0] > _SQUARED * squares[-1]:
            return np.asarray(np.sqrt(squares[::-1]))
    return np.asarray(scipy.linalg.svdvals(columns, check_finite=False))


def eliminated(columns: Float[np.ndarray, "r M"]) -> tuple[Int[np.ndarray, " r"], Float[np.ndarray, "r r"]]:
    """Positions of records that span all rows, and the inverse of their columns, by elimination with row pivots.

    >>> eliminated(np.array([[0.0, 2.0, 0.0], [0.0, 0.0, 4.0]]))[1].tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    rank = len(columns)
    factors, swaps = scipy.linalg.lu_factor(columns.T, check_finite=False)
    order = np.arange(columns.shape[1])
    for i, k in enumerate(swaps.tolist()):
        order[[i, k]] = order[[k, i]]
    # columns[:, order] = (L U)', so that its inverse is (U^-1 L^-1)'.
    square = np.asfortranarray(factors[:rank])
    lapack, blas = scipy.linalg.lapack, scipy.linalg.blas
    upper = np.triu(lapack.dtrtri(square)[0])
    lower = lapack.dtrtri(square, lower=1, unitdiag=1, overwrite_c=1)[0]
    return order[:rank], np.asarray(blas.dtrmm(1.0, lower, upper, side=1, lower=1, diag=1, overwrite_b=1)).T


def spanning(rows: Float[np.ndarray, "Q r"]) -> Int[np.ndarray, " Q"]:
    """Positions of the rows `(Q, r)`, each the one that those before it span least.

    >>> spanning(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])).tolist()
    [2, 1, 0]
    """
    scaled = rows / np.maximum(np.linalg.norm(rows, axis=0), 1e-300)
    pivoted: Any = scipy.linalg.qr(scaled.T, mode="r", pivoting=True, check_finite=False)
    return np.asarray(pivoted[1])
