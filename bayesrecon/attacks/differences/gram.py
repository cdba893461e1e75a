"""Gram matrices of Gaussian regressions: the totals of records `(1, x, y)` behind estimates, with their errors.

With coefficients b `(p,)` and their covariance V, residual standard error s and n records, the design Z = (1, x) has

    Z'Z = s^2 V^-1,    Z'y = Z'Z b,    y'y = (n - p) s^2 + b' Z'Z b

so estimates, standard errors, correlations and s are the Gram matrix `sum_i (1, x_i, y_i) (1, x_i, y_i)'` in other
coordinates. Rounding of each printed number is uniform within half a unit of its last digit, and its effect on the
matrix is linear. That the first entry is the whole number n constrains these errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayesrecon.errors import BayesreconError

Number = tuple[float, float]
"""A printed number with half the unit of its last digit."""

_ARITHMETIC = 1e-13  # relative error of numbers with all digits
_STEP = 1e-7  # relative, of finite differences for such numbers
_WHOLE = 0.5


@dataclass(frozen=True, eq=False)
class Gram:
    """Totals of records `(1, x, y)`.

    Attributes:
        name: of the release.
        fields: `(m - 1,)`, names of the covariates and of the response.
        matrix: `(m, m)`.
        columns: `(b, m, m)`, effects of rounding errors: the true matrix is `matrix + sum_b delta_b columns_b` with
            delta uniform in [-1, 1].
        n: number of records; None if rounding leaves more than one whole number.
    """

    name: str
    fields: tuple[str, ...]
    matrix: np.ndarray
    columns: np.ndarray
    n: int | None

    @property
    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of the fields, `(m - 1,)` each."""
        mean = self.matrix[0, 1:] / self.matrix[0, 0]
        variance = np.diag(self.matrix)[1:] / self.matrix[0, 0] - mean**2
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def standardised(self, fields: Sequence[str], mean: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Totals of the standardised fields `(m, m)`, given n, and the covariance of their errors `(q, q)`.

        The q entries are those of the upper triangle, row by row.
        """
        change = np.eye(len(fields) + 1)
        change[1:, 1:] /= sd
        change[1:, 0] = -mean / sd
        at = [0, *(1 + self.fields.index(f) for f in fields)]
        matrix = change @ self.matrix[np.ix_(at, at)] @ change.T
        columns = change @ self.columns[:, at][:, :, at] @ change.T
        rows = np.triu_indices(len(at))
        effects = columns[:, *rows]
        covariance = effects.T @ effects / 3
        values = matrix[rows]
        if self.n is not None and covariance[0, 0] > 0:
            gain = covariance[0] / covariance[0, 0]
            values = values + gain * (self.n - values[0])
            covariance = covariance - np.outer(gain, covariance[0])
        full = np.zeros_like(matrix)
        full[rows] = values
        return full + np.triu(full, 1).T, covariance


def gram_of(
    name: str,
    fields: Sequence[str],
    coefficients: Sequence[Number],
    errors: Sequence[Number],
    scale: Number,
    correlations: Sequence[Number] | None = None,
    n: float | None = None,
    sign: float = 1.0,
) -> Gram | None:
    """The Gram matrix of a regression with an intercept; None if the numbers leave part of it open.

    Args:
        name: of the release.
        fields: covariates and response.
        coefficients, errors: of all, the intercept's first.
        scale: residual standard error.
        correlations: of the estimates, below the diagonal row by row. Without them, one covariate at most has a
            determined matrix, up to the sign of its mean.
        n: number of records, if it is known.
        sign: of the covariate's mean, without correlations.

    >>> estimates, errors = ((20.1852, 5e-5), (0.490695, 5e-7)), ((3.44215, 5e-6), (0.0671696, 5e-8))
    >>> gram = gram_of("women", ("age", "income"), estimates, errors, (6.66755, 5e-6), n=111)
    >>> gram.moments[0].round(3).tolist()
    [50.372, 44.903]
    """
    p = len(coefficients)
    if correlations is None and (p > 2 or (p == 2 and n is None)):
        return None
    related = () if correlations is None else correlations
    numbers = np.array([*coefficients, *errors, scale, *related])
    values = numbers[:, 0]
    half = np.maximum(numbers[:, 1], _ARITHMETIC * np.abs(values))
    step = np.maximum(half, _STEP * np.abs(values))
    step[step == 0] = _STEP
    moved = values + np.concatenate([np.zeros((1, len(values))), np.diag(step), -np.diag(step)])
    with np.errstate(invalid="ignore", divide="ignore"):
        try:
            matrices = _matrices(moved, p, n, sign, closed=correlations is None and p == 2)
        except np.linalg.LinAlgError:
            return None
    if not np.isfinite(matrices).all():
        return None
    up, down = np.split(matrices[1:], 2)
    columns = (up - down) * (half / (2 * step))[:, None, None]
    return with_count(Gram(name, tuple(fields), matrices[0], columns, None), n)


def with_count(gram: Gram, n: float | None) -> Gram | None:
    """The totals with the number of records that was stated, or else the only whole number within rounding errors.

    None if the stated number contradicts the others.
    """
    count, open_ = gram.matrix[0, 0], float(np.abs(gram.columns[:, 0, 0]).sum())
    if n is not None:
        possible = abs(count - n) <= 1.5 * open_ + _WHOLE * (open_ > 0) + 1e-6
        return Gram(gram.name, gram.fields, gram.matrix, gram.columns, round(n)) if possible else None
    whole = round(count) if open_ < _WHOLE and abs(count - round(count)) <= 1.5 * open_ + 1e-6 else None
    return Gram(gram.name, gram.fields, gram.matrix, gram.columns, whole)


def _matrices(numbers: np.ndarray, p: int, n: float | None, sign: float, closed: bool) -> np.ndarray:
    """Gram matrices `(B, p + 1, p + 1)` of printed numbers `(B, ...)`."""
    b, se, s = numbers[:, :p], numbers[:, p : 2 * p], numbers[:, 2 * p]
    if closed:
        assert n is not None
        inner = (se / s[:, None]) ** 2
        determinant, squares = n / inner[:, 1], n * inner[:, 0] / inner[:, 1]
        total = sign * np.sqrt(n * squares - determinant)
        design = np.stack([np.stack([np.full_like(total, n), total], 1), np.stack([total, squares], 1)], 1)
    else:
        lower = np.tril_indices(p, -1)
        correlation = np.tile(np.eye(p), (len(numbers), 1, 1))
        correlation[:, *lower] = numbers[:, 2 * p + 1 :]
        correlation.transpose(0, 2, 1)[:, *lower] = numbers[:, 2 * p + 1 :]
        np.linalg.cholesky(correlation[0])
        design = np.linalg.inv(correlation) * (s[:, None, None] ** 2 / (se[:, :, None] * se[:, None, :]))
    products = np.einsum("kij,kj->ki", design, b)
    count = design[:, 0, 0] if n is None else n
    squares = (count - p) * s**2 + np.einsum("ki,ki->k", b, products)
    top = np.concatenate([design, products[:, :, None]], axis=2)
    bottom = np.concatenate([products, squares[:, None]], axis=1)
    return np.concatenate([top, bottom[:, None]], axis=1)
