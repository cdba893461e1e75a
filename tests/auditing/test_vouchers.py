"""Values of unknown place: statistics are what they are, rows are at least medium, in every container alike."""

import collections
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.auditing.vouchers import Item, voucher_of
from bayesrecon.results.findings import DRAWS_OR_RECORDS

OTHERS = Path(__file__).parents[1] / "fixtures" / "r_others"
RNG = np.random.default_rng(3)
COUNT = 60
TABLE = pd.DataFrame(
    {
        "age": np.round(RNG.uniform(18, 90, COUNT), 3),
        "bmi": np.round(RNG.normal(26, 4, COUNT), 4),
        "ward": RNG.choice(["north", "south", "west"], COUNT),
    }
)
AGES = TABLE["age"].to_numpy()
GRID = np.arange(20.0, 81.0, 5.0)

CLEAN = {
    "a correlation": TABLE[["age", "bmi"]].corr(),
    "a covariance without names": np.cov(RNG.normal(size=(9, 50))),
    "means of levels": TABLE.groupby("ward")["age"].mean(),
    "a table of counts": pd.crosstab(TABLE["ward"], TABLE["age"] > 50),
    "predictions on a grid": pd.DataFrame({"age": GRID, "risk": 1 / (1 + np.exp(-0.07 * GRID + 3.1))}),
    "coefficients": pd.Series(RNG.normal(size=30), index=["Intercept", *(f"ward[T.{k}]" for k in range(29))]),
    "a grid of doses": np.logspace(-3, 2, 26),
    "seasons": ["1990/91", "1991/92", "1992/93"],
    "dates of months": pd.date_range("2024-01-01", periods=12, freq="MS"),
    "the state of a generator": np.random.RandomState(3).get_state(),
    "shares": np.full((3, 4), 1 / 12) + np.outer([0.01, -0.02, 0.01], [1, 1, -1, -1]),
}
ROWS = {
    "an array": AGES,
    "a matrix": TABLE[["age", "bmi"]].to_numpy(),
    "lists of one": [[v] for v in AGES.tolist()],
    "a deque": collections.deque(AGES.tolist()),
    "a dictionary": {f"p{k}x": v for k, v in enumerate(AGES.tolist())},
    "sorted values beside a grid": {"share": np.linspace(0, 1, COUNT), "age": np.sort(AGES)},
    "groups of unequal size": [g.to_numpy() for _, g in TABLE.groupby("ward")["age"]] * 2,
    "a table": TABLE,
    "a column beside a correlation": {"r": np.corrcoef(RNG.normal(size=(3, 9))), "train": AGES},
}


def audited(value, folder, **options):
    (path := folder / "object.pkl").write_bytes(pickle.dumps(value))
    return bayesrecon.audit(path, remedies=False, **options)


@pytest.mark.parametrize("name", CLEAN)
def test_statistics_raise_no_alarm(name, tmp_path):
    assert audited(CLEAN[name], tmp_path).severity in ("info", "low")


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_medium_without_the_private_table_and_high_with_it(name, tmp_path):
    found = audited(ROWS[name], tmp_path)
    assert found.severity in ("medium", "high") or found.not_run[0].attack == DRAWS_OR_RECORDS
    data = {column: TABLE[column].to_numpy() for column in TABLE}
    assert audited(ROWS[name], tmp_path, data=data).severity == "high"


@pytest.mark.parametrize("name", ["cor", "nnet-stripped", "quote_fn"])
def test_objects_of_r_without_records_raise_no_alarm(name):
    """A correlation, a network without its data, a quoted function with the positions of its source."""
    assert bayesrecon.audit(OTHERS / f"{name}.rds", remedies=False).severity in ("info", "low")


def test_a_forest_is_one_finding_on_the_responses_in_its_leaves():
    """Of ranger, which keeps no counts: a response recurs in many trees."""
    found = bayesrecon.audit(OTHERS / "ranger.rds", remedies=False)
    (leaves,) = (f for f in found if f.kind != "unrecognised")
    assert (leaves.kind, leaves.severity) == ("leaves", "high")
    assert "leaves of the 50 trees hold responses of single records" in leaves.title


def test_absence_from_the_private_table_clears_nothing(tmp_path):
    assert audited(AGES, tmp_path, data={"weight": np.arange(40) ** 1.5}).severity == "medium"


def test_a_grid_between_private_ends_is_a_finding(tmp_path):
    found = audited({"grid": {"x": np.linspace(AGES.min(), AGES.max(), 50)}}, tmp_path)
    assert any("smallest and the largest record" in f.title for f in found)


def test_connections_of_a_network_are_no_sparse_design():
    first, links = np.array([0, 0, 0, 2, 4]), np.array([0, 1, 0, 1])
    weights = np.array([0.31, -1.27, 2.2, 0.74])
    assert voucher_of(Item("w", weights, beside=[first, links, weights]))
    rows = np.array([3, 1, 2, 0])
    assert not voucher_of(Item("w", weights, beside=[first, rows, weights]))
