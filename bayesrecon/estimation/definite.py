"""Systems with a positive definite matrix, by Cholesky's factor where that keeps their digits."""

from collections.abc import Callable

import numpy as np
import scipy.linalg

_LEAST = 1e-6  # of the largest entry of the factor's diagonal: a smaller one says that half of the digits are lost


def solver(matrix: np.ndarray) -> Callable[[np.ndarray], np.ndarray] | None:
    """`b -> matrix^-1 b`; None where the matrix `(r, r)` is not clearly positive definite.

    >>> solve = solver(np.array([[2.0, 0.0], [0.0, 4.0]]))
    >>> solve(np.array([2.0, 2.0])).tolist()
    [1.0, 0.5]
    >>> solver(np.ones((2, 2))) is None
    True
    """
    try:
        factor, lower = scipy.linalg.cho_factor(matrix, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    size = np.diag(factor)
    if not size.min(initial=1.0) > _LEAST * size.max(initial=1.0):
        return None
    return lambda b: np.asarray(scipy.linalg.cho_solve((factor, lower), b, check_finite=False))
