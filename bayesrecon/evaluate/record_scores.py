"""Recovered records against the true ones: accuracy, calibration, and the naive guess beside them."""

import numpy as np

from bayesrecon.diagnostics import calibration_table
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records
from bayesrecon.results.records import RecordTable


def score_records(table: RecordTable, truth: Records) -> dict[str, dict[str, float]]:
    """How many records are right, by field.

    Args:
        truth: `{field: (N,)}` the private values, in the order of the table's rows.

    Returns:
        for every recovered field `rmse` of the estimates, `z_sd` the spread of (estimate - truth) / se, `coverage` of
        the 95 % intervals, `exact` share of values that are right (most probable ones, or rounded estimates),
        `calibration` the expected calibration error of the stated probabilities, `naive_exact` and `naive_rmse`, and
        `chance`, the probability that values come out right this much more often than by the naive guess though
        neither is better: the exact one-sided test of McNemar (Psychometrika 12, 1947).

    Raises:
        BayesreconError: a recovered field without one true value for each record.

    >>> import numpy as np
    >>> from bayesrecon.results.records import Column, RecordTable
    >>> estimate, one, seen = np.array([7.1, 2.2]), np.ones(2), np.array(["determined"] * 2)
    >>> column = Column(estimate, 0.1 * one, 0.1 * one, estimate - 0.2, estimate + 0.2, one, seen)
    >>> table = RecordTable({"coin": np.array([1, 2])}, ("coin",), {"k": column}, "coins", "rate", 800, 800.0, 2, 1, 0)
    >>> found = score_records(table, {"k": [7, 2]})["k"]
    >>> round(found["rmse"], 2), found["exact"]
    (0.16, 1.0)
    """
    return {name: _score(table, name, truth) for name in table}


def _score(table: RecordTable, name: str, truth: Records) -> dict[str, float]:
    column = table[name]
    if name not in truth or np.shape(truth[name]) != column.estimate.shape:
        raise BayesreconError(f"truth: field {name!r} needs one value for each of the {len(table)} records")
    true = np.asarray(truth[name], float)
    seen = np.isfinite(column.estimate)
    error = column.estimate[seen] - true[seen]
    found: dict[str, float] = {"determined": float(seen.mean())}
    if seen.any():
        found["rmse"] = float(np.sqrt(np.mean(error**2)))
        found["z_sd"] = float(np.sqrt(np.mean((error / column.se[seen]) ** 2)))
        inside = (column.lower[seen] <= true[seen]) & (true[seen] <= column.upper[seen])
        found["coverage"] = float(inside.mean())
    whole = np.array_equal(true, np.round(true))
    right = None
    if column.value is not None and column.probability is not None:
        right = np.asarray(column.value, float) == true
        found["calibration"] = calibration_error(column.probability, right)
    elif whole and seen.any():
        right = np.round(column.estimate) == true
    if right is not None:
        found["exact"] = float(right.mean())
    if column.naive is not None:
        naive = np.asarray(column.naive, float)
        found["naive_rmse"] = float(np.sqrt(np.mean((naive - true) ** 2)))
        if whole:
            guessed = np.round(naive) == true
            found["naive_exact"] = float(guessed.mean())
            if right is not None:
                better, worse = int((right & ~guessed).sum()), int((guessed & ~right).sum())
                import scipy.stats  # which takes long to load

                found["chance"] = float(scipy.stats.binom.sf(better - 1, better + worse, 0.5))
    return found


def calibration_error(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error: mean distance of stated probability and share right over ten equal bins.

    >>> calibration_error(np.array([0.9, 0.9]), np.array([True, True]))
    0.09999999999999998
    """
    table = calibration_table(probability, right)
    return float(sum(n * abs(p - share) for p, share, n in table) / len(probability)) if len(probability) else 0.0
