"""Is a column an exact function of others, up to the digits that it was written with?

A linear model is fitted on half of the draws and tested on the rest. What a noise-free relation leaves there is
rounding: of the column, of the features, and of the arithmetic that made it. More than that is no relation.
"""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float

from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.diagnostics import evenly

_FITTED, _SPARE, _TESTED = 4, 200, 1000  # rows of a fit: so many for each feature and more; rows of a test
_SLACK = 6.0  # standard deviations of rounding that residuals may be
_CLOSE = 0.02  # of a column's spread: where rounding is coarser nothing is exact
_RELATIVE = 1e-9  # of a column's spread that arithmetic in double precision may leave
_CONDITION = 1e-12  # of features, relative to the largest: smaller ones are rounding of others


@dataclass(frozen=True, eq=False)
class Exact:
    """Which of N columns are exact, and how.

    Attributes:
        exact: `(N,)`.
        constant: `(N,)`.
        loadings: `(N, m)` of the features.
        residual: `(N,)` root mean squared residual of the test, as a share of the column's spread.
    """

    exact: Bool[np.ndarray, " N"]
    constant: Float[np.ndarray, " N"]
    loadings: Float[np.ndarray, "N m"]
    residual: Float[np.ndarray, " N"]


def steps_of(columns: np.ndarray) -> np.ndarray:
    """The unit of the last digit of each column `(T, N)`, whether all rows have as many digits or decimals, `(N,)`."""
    return np.array([_step_of(column[np.isfinite(column)]) for column in columns[evenly(len(columns), 200)].T])


def _step_of(values: np.ndarray) -> float:
    written = resolution(values)
    varying = float(np.sqrt(np.mean(written.step**2))) if len(values) else 0.0
    if written.digits is None:
        return varying
    decimals = max((-int(Decimal(repr(float(v))).normalize().as_tuple().exponent) for v in values), default=0)
    return max(varying, 10.0**-decimals)


def arithmetic_of(columns: np.ndarray) -> float:
    """The relative error of one operation in the precision that the values `(T, N)` were computed in."""
    sample = columns[evenly(len(columns), 100)]
    with np.errstate(over="ignore"):
        single = np.array_equal(sample.astype(np.float32).astype(float), sample)
    return float(np.finfo(np.float32 if single else float).eps)


@dataclass(frozen=True, eq=False)
class Halves:
    """Features `(T, m)` made ready for columns: fitted on one half of the draws, tested on the other.

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


def halves(features: np.ndarray, rng: np.random.Generator, steps: np.ndarray | None = None) -> Halves | None:
    """Two halves of the draws; None if draws are fewer than twice the features, when everything would be exact."""
    count, size = features.shape
    if count < 2 * (size + 1) + 4:
        return None
    order = rng.permutation(count)
    fit = order[: min(count // 2, _FITTED * (size + 1) + _SPARE)]
    with np.errstate(over="ignore", invalid="ignore"):
        usable = np.isfinite(features).all(axis=0) & np.isfinite(features.std(axis=0))
    features = np.where(usable, features, 0.0)  # what overflows explains nothing
    centre, scale = features[fit].mean(axis=0), features[fit].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    inverse: np.ndarray = scipy.linalg.pinv((features[fit] - centre) / scale, rtol=_CONDITION)  # type: ignore[assignment]
    units = steps_of(features) if steps is None else steps
    return Halves(features, units, fit, order[count // 2 :][:_TESTED], centre, scale, inverse)


def exact_in(
    features: np.ndarray | Halves, columns: np.ndarray, rng: np.random.Generator, column_steps: np.ndarray | None = None
) -> Exact | None:
    """Fit columns `(T, N)` by features `(T, m)` and a constant; None if draws are fewer than twice the features.

    Args:
        column_steps: units of last digits `(N,)`; found from the values unless given.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(100, 2))
    >>> found = exact_in(x, np.column_stack([3 * x[:, 0] - 2, x[:, 0] * x[:, 1]]), rng)
    >>> found.exact.tolist(), found.loadings[0].round(6).tolist(), found.constant[0].round(6)
    ([True, False], [3.0, 0.0], np.float64(-2.0))
    """
    ready = features if isinstance(features, Halves) else halves(features, rng)
    if ready is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # values near the largest numbers are exact functions of nothing
        return _tested(ready, columns, column_steps)


def _tested(ready: Halves, columns: np.ndarray, column_steps: np.ndarray | None) -> Exact:
    fit, test = ready.fit, ready.test
    middle = columns[fit].mean(axis=0)
    slopes = ready.inverse @ (columns[fit] - middle)
    loadings = (slopes / ready.scale[:, None]).T
    shift = middle + (columns[fit] - middle - (ready.features[fit] - ready.centre) @ loadings.T).mean(axis=0)
    given = ready.features[test]
    rest = columns[test] - shift - (given - ready.centre) @ loadings.T
    spread = columns.std(axis=0)
    residual = np.sqrt(np.mean(rest**2, axis=0))
    own = steps_of(columns) if column_steps is None else column_steps
    summed = np.abs(given) @ np.abs(loadings.T) + np.abs(columns[test])
    arithmetic = max(arithmetic_of(columns), 4 * np.finfo(float).eps) * np.sqrt(np.mean(summed**2, axis=0))
    rounding = np.sqrt((own**2 + (loadings**2) @ ready.steps**2) / 12)
    allowed = _SLACK * (rounding + arithmetic) + _RELATIVE * spread
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(spread > 0, residual / spread, np.inf)
    exact = (residual <= allowed) & (share <= _CLOSE) & np.isfinite(residual)
    return Exact(exact, shift - loadings @ ready.centre, loadings, share)
