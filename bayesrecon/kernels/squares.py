"""Sums of products of blocks of rows with themselves, one triangle of which is worked on, in one place of memory."""

import numpy as np
import scipy.linalg

_ROWS = 256  # mirrored at once: small beside what is kept


class Squares:
    """`sum a' a` over blocks of rows `a (C, F)`.

    >>> sums = Squares(2)
    >>> sums.add(np.array([[1.0, 2.0], [0.0, 3.0]]))
    >>> sums.whole().tolist()
    [[1.0, 2.0], [2.0, 13.0]]
    """

    def __init__(self, width: int) -> None:
        self._lower = np.zeros((width, width), order="F")

    @classmethod
    def of(cls, whole: np.ndarray) -> "Squares":
        """Those that another summed, `(F, F)`."""
        found = cls(len(whole))
        found._lower += whole
        return found

    def add(self, rows: np.ndarray) -> None:
        """One more block `(C, F)`."""
        self._lower = scipy.linalg.blas.dsyrk(
            1.0, np.ascontiguousarray(rows).T, beta=1.0, c=self._lower, overwrite_c=1, lower=1
        )

    def plus(self, other: "Squares") -> None:
        """Those of other blocks as well."""
        self._lower += other._lower

    def whole(self) -> np.ndarray:
        """`(F, F)`, in the place of the triangle."""
        found = self._lower
        for start in range(0, len(found), _ROWS):
            end = start + _ROWS
            found[start:end, end:] = found[end:, start:end].T
            corner = found[start:end, start:end]
            corner += np.tril(corner, -1).T - np.triu(corner, 1)
        return found
