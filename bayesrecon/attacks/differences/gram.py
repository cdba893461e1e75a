"""Gram matrices: the totals of records `(1, x, y)` that a release determines, with their errors.

Every release with equations of its data determines totals (`released.grams_of`). For least squares they are its numbers
in other coordinates. With coefficients b `(p,)` and their covariance V, residual standard error s and n records, the
design Z = (1, x) has

    Z'Z = s^2 V^-1,    Z'y = Z'Z b,    y'y = (n - p) s^2 + b' Z'Z b.

Rounding of each printed number is uniform within half a unit of its last digit, and its effect on the
matrix is linear. That the first entry is the whole number n constrains these errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

Number = tuple[float, float]
"""A printed number with half the unit of its last digit."""

ARITHMETIC = 1e-13
"""Relative error of numbers with all digits."""
STEP = 1e-7
"""Relative step of finite differences for such numbers."""
_SINGLE = 6e-8  # largest relative rounding error in single precision
_WHOLE = 0.5  # error of n, below which one whole number is left
_BENT = 0.01  # curvature relative to the effect of rounding, above which it is an error of its own
_ROUNDED = 1e-9  # relative error of n, by arithmetic


@dataclass(frozen=True, eq=False)
class Gram:
    """Totals of records `(1, x, y)`.

    Attributes:
        name: of the release.
        fields: `(m - 1,)`, names of the covariates and of the response.
        matrix: `(m, m)`.
        columns: `(b, m, m)`, effects of rounding errors: the true matrix is `matrix + sum_b delta_b columns_b` with
            delta uniform in [-1, 1].
        n: number of records; None if its errors leave more than one whole number.
        noise: `(g, m, m)`, effects of errors with standard normal coefficients, such as those of draws; None if there
            are none.
    """

    name: str
    fields: tuple[str, ...]
    matrix: np.ndarray
    columns: np.ndarray
    n: int | None
    noise: np.ndarray | None = None

    @property
    def open(self) -> float:
        """Largest error of the number of records; with noise, of two standard errors."""
        noise = 0.0 if self.noise is None else 2 * float(np.linalg.norm(self.noise[:, 0, 0]))
        return float(np.abs(self.columns[:, 0, 0]).sum()) + noise

    @property
    def protected(self) -> bool:
        """Whether noise hides how many records there are, and so every single one."""
        return self.n is None and self.noise is not None

    def counted(self, n: float | None) -> "Gram | None":
        """With its number of records: n, or the only possible whole number; None if it cannot be n."""
        count, possible = self.matrix[0, 0], 1.5 * self.open + _ROUNDED * self.matrix[0, 0]
        whole = round(count) if n is None else round(n)
        off = abs(count - whole) > possible
        if n is not None:
            return None if off else replace(self, n=whole)
        return self if off or self.open >= _WHOLE else replace(self, n=whole)

    def noisier(self, factor: float) -> "Gram":
        """With errors of the draws that are larger by this factor."""
        return self if self.noise is None else replace(self, noise=factor * self.noise)

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
        rows = np.triu_indices(len(at))
        every = self.columns if self.noise is None else np.concatenate([self.columns, math.sqrt(3) * self.noise])
        # Data in single precision: each total is a sum of numbers that may have been rounded.
        single = np.zeros((len(rows[0]), *matrix.shape))
        each = np.arange(len(single))
        rounded = _SINGLE * np.abs(self.matrix[np.ix_(at, at)][rows]) / math.sqrt(self.matrix[0, 0])
        single[each, *rows] = single[each, *rows[::-1]] = rounded
        effects = (change @ np.concatenate([every[:, at][:, :, at], single]) @ change.T)[:, *rows]
        covariance = effects.T @ effects / 3
        values = matrix[rows]
        if self.n is not None and covariance[0, 0] > (_ROUNDED * self.n) ** 2:
            gain = covariance[0] / covariance[0, 0]
            values = values + gain * (self.n - values[0])
            covariance = covariance - np.outer(gain, covariance[0])
        if self.n is not None:
            covariance[0], covariance[:, 0] = 0.0, 0.0
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
    """The Gram matrix of a printed regression with an intercept; None if the numbers leave part of it open.

    Args:
        name: of the release.
        fields: covariates and response.
        coefficients, errors: of all, the intercept's first.
        scale: residual standard error.
        correlations: of the estimates, below the diagonal row by row. Without them, only one covariate at most has a
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
    numbers = np.array([*coefficients, *errors, scale, *(correlations or ())])
    values = numbers[:, 0]
    half = np.maximum(numbers[:, 1], ARITHMETIC * np.abs(values))
    step = np.maximum(half, STEP * np.abs(values))
    step[step == 0] = STEP
    moved = values + np.concatenate([np.zeros((1, len(values))), np.diag(step), -np.diag(step)])
    b, se, s, related = np.split(moved, [p, 2 * p, 2 * p + 1], axis=1)
    s = s[:, 0]
    correlation = np.tile(np.eye(p), (len(moved), 1, 1))
    if correlations is None and p == 2:
        # n x_sq = se_0^2 / se_1^2 n, and the determinant of Z'Z is n s^2 / se_1^2
        assert n is not None
        rest = 1 - (s / se[:, 0]) ** 2 / n
        if not (rest >= 0).all():
            return None
        correlation[:, 0, 1] = correlation[:, 1, 0] = -sign * np.sqrt(rest)
    else:
        i, j = np.tril_indices(p, -1)
        correlation[:, i, j] = correlation[:, j, i] = related
    covariance = correlation * se[:, :, None] * se[:, None, :]
    return moved_gram(name, tuple(fields), b, covariance, s, n, 2 * step / half)


def moved_gram(
    name: str,
    fields: tuple[str, ...],
    b: np.ndarray,
    covariance: np.ndarray,
    s: np.ndarray,
    n: float | None,
    stretch: np.ndarray,
) -> Gram | None:
    """The matrix of estimates and of those moved up and down by each error, `1 + 2 B` of them.

    The curvature of an effect counts as an error of its own where it matters.

    Args:
        b, covariance, s: `(1 + 2 B, p)`, `(1 + 2 B, p, p)` and `(1 + 2 B,)`.
        stretch: `(B,)`, the distance of the two moved ones in units of the error.
    """
    try:
        np.linalg.cholesky(covariance[0])
        design = np.linalg.inv(covariance) * s[:, None, None] ** 2
    except np.linalg.LinAlgError:
        return None
    products = np.einsum("kij,kj->ki", design, b)
    count = design[:, 0, 0] if n is None else n
    squares = (count - b.shape[1]) * s**2 + np.einsum("ki,ki->k", b, products)
    top = np.concatenate([design, products[:, :, None]], axis=2)
    bottom = np.concatenate([products, squares[:, None]], axis=1)
    matrices = np.concatenate([top, bottom[:, None]], axis=1)
    if not np.isfinite(matrices).all():
        return None
    up, down = np.split(matrices[1:], 2)
    columns = (up - down) / stretch[:, None, None]
    bent = 2 * (up + down - 2 * matrices[0]) / stretch[:, None, None] ** 2
    size = np.sqrt(np.outer(*2 * [np.abs(np.diag(matrices[0]))])) + 1e-300
    if (np.abs(bent) / size).sum() > _BENT * (np.abs(columns) / size).sum():
        columns = np.concatenate([columns, math.sqrt(3) * bent])
    return Gram(name, fields, matrices[0], columns, None).counted(n)
