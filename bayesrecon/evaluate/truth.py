"""The statistics of the private data themselves, and how far a recovery lies from them."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.diagnostics import calibration_table
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.categories import library_of
from bayesrecon.knowledge import Knowledge
from bayesrecon.model import Model, Records
from bayesrecon.precision import in_float64
from bayesrecon.results.records import RecordTable
from bayesrecon.results.recovery import Recovery

if TYPE_CHECKING:
    import pandas as pd


@in_float64
def true_statistics(
    model: Model,
    records: Records,
    *,
    statistics: Mapping[str, Callable[[Records], ArrayLike]] | None = None,
    known: tuple[str, ...] = (),
    unit: str | None = None,
) -> dict[str, float]:
    """What `recover` estimates, computed from the data.

    Args:
        records: `{field: (N, *shape)}`, the private data.
        statistics: the user's functions, as given to `recover`.
        known: names of the fields that the attacker knows.
        unit: the known field that names the unit, or the group field, as given to `recover`.

    Raises:
        BayesreconError: the data lack a field, or a statistic cannot be evaluated.

    >>> from bayesrecon.models import load
    >>> true_statistics(load("linear_predictor"), {"x": [[0.0], [2.0]], "y": [1.0, 5.0]})["cov(x[1],y)"]
    2.0
    """
    missing = [name for name in model.fields if name not in records]
    if missing:
        raise BayesreconError(f"the data lack field {missing[0]} (fields: {', '.join(model.fields)})")
    data = {name: np.asarray(records[name]) for name in model.fields}
    # Standardised by the data themselves: sums of far-off values would lose digits.
    centre = {name: values.mean(axis=0) for name, values in data.items()}
    scale = {name: np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0) for name, values in data.items()}
    knowledge = Knowledge(dict(model.fields), {name: data[name] for name in known}, unit)
    library = library_of(knowledge, centre, scale, statistics, data)
    totals = dict(zip(library.parts, library.evaluate(data).sum(axis=0), strict=True))
    return {statistic.name: float(statistic.value(totals)) for statistic in library.statistics}


def compare(result: Recovery, truth: Mapping[str, float]) -> "pd.DataFrame":
    """The result's table with the truth and the z-score `(estimate - truth) / se` of every statistic.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> table = compare(bayesrecon.recover(release), {"n": 100.0, "mean(y)": 1.0})
    >>> bool(table["z"].abs().max() < 4)
    True
    """
    frame = result.to_dataframe()
    frame["truth"] = [truth.get(name, np.nan) for name in frame.index]
    frame["z"] = (frame["estimate"] - frame["truth"]) / frame["se"].where(frame["se"] > 0)
    return frame


# Accuracy and calibration of recovered records, in comparison with a naive guess.


def score_records(table: RecordTable, truth: Records) -> dict[str, dict[str, float]]:
    """Scores of recovered records against the private ones, by field.

    Args:
        truth: `{field: (N,)}` the private values, in the order of the table's rows.

    Returns:
        Scores by recovered field:

        * `determined`: share of the records with an estimate.
        * `rmse` of the estimates, `z_sd`, the standard deviation of (estimate - truth) / se, and `coverage` of the 95 %
          intervals.
        * `exact`: share of correct values (the most probable ones, or rounded estimates).
        * `calibration`: expected calibration error of the stated probabilities.
        * `naive_exact`, `naive_rmse`: the same for the naive guess.
        * `chance`: p-value of the exact one-sided test of McNemar (Psychometrika 12, 1947): the probability that this
          many more values are correct than by the naive guess if neither is better.

    Raises:
        BayesreconError: the truth has not one value for each record of a recovered field.

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
    determined = np.isfinite(column.estimate)
    error = column.estimate[determined] - true[determined]
    scores: dict[str, float] = {"determined": float(determined.mean())}
    if determined.any():
        scores["rmse"] = float(np.sqrt(np.mean(error**2)))
        scores["z_sd"] = float(np.sqrt(np.mean((error / column.se[determined]) ** 2)))
        inside = (column.lower[determined] <= true[determined]) & (true[determined] <= column.upper[determined])
        scores["coverage"] = float(inside.mean())
    integers = np.array_equal(true, np.round(true))
    correct = None
    if column.value is not None and column.probability is not None:
        correct = np.asarray(column.value, float) == true
        scores["calibration"] = calibration_error(column.probability, correct)
    elif integers and determined.any():
        correct = np.round(column.estimate) == true
    if correct is not None:
        scores["exact"] = float(correct.mean())
    if column.naive is not None:
        naive = np.asarray(column.naive, float)
        scores["naive_rmse"] = float(np.sqrt(np.mean((naive - true) ** 2)))
        if integers:
            guessed = np.round(naive) == true
            scores["naive_exact"] = float(guessed.mean())
            if correct is not None:
                better, worse = int((correct & ~guessed).sum()), int((guessed & ~correct).sum())
                import scipy.stats  # which takes long to load

                scores["chance"] = float(scipy.stats.binom.sf(better - 1, better + worse, 0.5))
    return scores


def calibration_error(probability: np.ndarray, right: np.ndarray) -> float:
    """Expected calibration error: mean distance between stated probability and share of correct values, in ten bins."""
    table = calibration_table(probability, right)
    error = sum(count * abs(stated - observed) for stated, observed, count in table)
    return float(error / len(probability)) if len(probability) else 0.0
