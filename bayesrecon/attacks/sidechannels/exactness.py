"""Whether a column is an exact function of others, up to the digits with which it was written.

A linear model is fitted on half of the draws and tested on the others. The residuals of an exact relation are not
larger than the rounding errors of the column, of the features, and of the arithmetic.
"""

from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float

from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.diagnostics import evenly

_FITTED, _SPARE, _TESTED = 4, 200, 1000  # rows of a fit per feature, further rows, and rows of a test
_SLACK = 6.0  # largest residual, in standard deviations of the rounding
_CLOSE = 0.02  # largest residual, relative to the column's spread
_RELATIVE = 1e-9  # error of arithmetic in double precision, relative to the column's spread
_CONDITION = 1e-12  # relative singular values of the features below this are rounding


@dataclass(frozen=True, eq=False)
class Exact:
    """Fits of N columns.

    Attributes:
        exact: `(N,)` whether the relation is exact.
        constant: `(N,)` constant of the fit.
        loadings: `(N, m)` coefficients of the features.
        residual: `(N,)` root mean squared residual of the test, relative to the column's spread.
    """

    exact: Bool[np.ndarray, " N"]
    constant: Float[np.ndarray, " N"]
    loadings: Float[np.ndarray, "N m"]
    residual: Float[np.ndarray, " N"]


def steps_of(columns: np.ndarray) -> np.ndarray:
    """Unit of the last digit of each column `(T, N)`, for equal numbers of digits or of decimals, `(N,)`."""
    return np.array([_step_of(column[np.isfinite(column)]) for column in columns[evenly(len(columns), 200)].T])


def _step_of(values: np.ndarray) -> float:
    written = resolution(values)
    varying = float(np.sqrt(np.mean(written.step**2))) if len(values) else 0.0
    if written.digits is None:
        return varying
    decimals = max((-int(Decimal(repr(float(v))).normalize().as_tuple().exponent) for v in values), default=0)
    return max(varying, 10.0**-decimals)


def arithmetic_of(columns: np.ndarray) -> float:
    """Relative error of an operation in the precision of the values `(T, N)`."""
    sample = columns[evenly(len(columns), 100)]
    with np.errstate(over="ignore"):
        single = np.array_equal(sample.astype(np.float32).astype(float), sample)
    return float(np.finfo(np.float32 if single else float).eps)


@dataclass(frozen=True, eq=False)
class Halves:
    """Features `(T, m)` with two halves of the draws, one for fits and one for tests.

    Attributes:
        fit, test: rows of the two halves.
        steps: `(m,)` units of the features' last digits.
    """

    features: np.ndarray
    steps: Float[np.ndarray, " m"]
    fit: np.ndarray
    test: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    inverse: np.ndarray  # (m, rows of the fit): from a column's values to its slopes

    def part(self, chosen: list[int]) -> "Halves":
        """The same with some of the features."""
        features, centre, scale = self.features[:, chosen], self.centre[chosen], self.scale[chosen]
        inverse = np.linalg.pinv((features[self.fit] - centre) / scale, rcond=_CONDITION)
        return Halves(features, self.steps[chosen], self.fit, self.test, centre, scale, inverse)


def halves(features: np.ndarray, rng: np.random.Generator, steps: np.ndarray | None = None) -> Halves | None:
    """Split the draws. None if there are fewer than twice as many draws as features, so that any fit would be exact."""
    count, size = features.shape
    if count < 2 * (size + 1) + 4:
        return None
    order = rng.permutation(count)
    fit = order[: min(count // 2, _FITTED * (size + 1) + _SPARE)]
    with np.errstate(over="ignore", invalid="ignore"):
        usable = np.isfinite(features).all(axis=0) & np.isfinite(features.std(axis=0))
    features = np.where(usable, features, 0.0)  # features that overflow are not used
    centre, scale = features[fit].mean(axis=0), features[fit].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    inverse = np.linalg.pinv((features[fit] - centre) / scale, rcond=_CONDITION)
    units = steps_of(features) if steps is None else steps
    return Halves(features, units, fit, order[count // 2 :][:_TESTED], centre, scale, inverse)


def exact_in(
    features: np.ndarray | Halves,
    columns: np.ndarray,
    rng: np.random.Generator | None = None,
    column_steps: np.ndarray | None = None,
) -> Exact | None:
    """Fit columns `(T, N)` by features `(T, m)` and a constant. None if there are too few draws.

    Args:
        rng: generator of random numbers to split features that are not split yet.
        column_steps: `(N,)` units of the last digits, by default inferred from the values.
    """
    prepared = features if isinstance(features, Halves) else halves(features, rng or np.random.default_rng(0))
    if prepared is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # values that overflow are not exact
        return _tested(prepared, columns, column_steps)


_MOST_TERMS, _MOST_COLUMNS = 3, 64  # terms and columns that are tried, since each takes a fit
_MOST_DIGITS, _AS_WELL = 6, 1.05  # digits of plain loadings, and how much larger residuals may be with them


def plainest(found: Exact, features: Halves, columns: np.ndarray, steps: np.ndarray) -> Exact:
    """The same with the fewest terms and the fewest digits that explain a column as well, up to three terms.

    Loadings are known only up to the digits of the columns, and those of nearly collinear features much less: rounded
    draws of `v = s^2` have loadings of s and 1/s, too. Features are added in order of their correlation with what the
    others leave.
    """
    loadings, constant, residual = found.loadings.copy(), found.constant.copy(), found.residual.copy()
    z = (features.features[features.fit] - features.centre) / features.scale
    for n in np.flatnonzero(found.exact)[:_MOST_COLUMNS]:
        column = columns[features.fit, n] - columns[features.fit, n].mean()
        left, tried = column, list[int]()
        for _ in range(_MOST_TERMS):
            last = int(np.abs(left @ z).argmax())
            subsets = (some for size in range(len(tried) + 1) for some in combinations(tried, size))
            fits = ((chosen, features.part(chosen)) for chosen in ([*some, last] for some in subsets))
            tested = ((chosen, part, _tested(part, columns[:, [n]], steps[[n]])) for chosen, part in fits)
            if (plain := next((one for one in tested if one[2].exact[0]), None)) is not None:
                chosen, part, one = plain
                loadings[n], residual[n] = 0.0, one.residual[0]
                loadings[n, chosen], constant[n] = _rounded(one, part, columns[:, n])
                break
            tried.append(last)
            left = column - z[:, tried] @ (features.part(tried).inverse @ column)
    return Exact(found.exact, constant, loadings, residual)


def _rounded(fit: Exact, features: Halves, column: np.ndarray) -> tuple[np.ndarray, float]:
    """Loadings and constant of a column `(T,)` with the fewest digits that explain it as well."""
    tested, values = features.features[features.test], column[features.test]
    largest = _AS_WELL * fit.residual[0] * column.std()
    for digits in range(1, _MOST_DIGITS + 1):
        plain = np.array([float(f"{x:.{digits}g}") for x in fit.loadings[0]])
        left = values - tested @ plain
        for constant in (0.0, float(left.mean())):
            if np.sqrt(np.mean((left - constant) ** 2)) <= largest:
                return plain, constant
    return fit.loadings[0], float(fit.constant[0])


def _tested(prepared: Halves, columns: np.ndarray, column_steps: np.ndarray | None) -> Exact:
    fit, test = prepared.fit, prepared.test
    mean = columns[fit].mean(axis=0)
    slopes = prepared.inverse @ (columns[fit] - mean)
    loadings = (slopes / prepared.scale[:, None]).T
    shift = mean + (columns[fit] - mean - (prepared.features[fit] - prepared.centre) @ loadings.T).mean(axis=0)
    tested_features = prepared.features[test]
    residuals = columns[test] - shift - (tested_features - prepared.centre) @ loadings.T
    spread = columns.std(axis=0)
    residual = np.sqrt(np.mean(residuals**2, axis=0))
    units = steps_of(columns) if column_steps is None else column_steps
    sizes = np.abs(tested_features) @ np.abs(loadings.T) + np.abs(columns[test])
    arithmetic = max(arithmetic_of(columns), 4 * np.finfo(float).eps) * np.sqrt(np.mean(sizes**2, axis=0))
    rounding = np.sqrt((units**2 + (loadings**2) @ prepared.steps**2) / 12)
    allowed = _SLACK * (rounding + arithmetic) + _RELATIVE * spread
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = np.where(spread > 0, residual / spread, np.inf)
    exact = (residual <= allowed) & (relative <= _CLOSE) & np.isfinite(residual)
    return Exact(exact, shift - loadings @ prepared.centre, loadings, relative)
