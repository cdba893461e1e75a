"""Two tables of one data set: what they tell together, and the records between them."""

import json

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed.footers import cell

sm = pytest.importorskip("statsmodels.api")

RNG = np.random.default_rng(1)
LEVEL = np.repeat([0, 1, 2], (12, 7, 4))
X = RNG.normal(50, 10, 23) + 3 * LEVEL
Y = 1 + 0.5 * X + LEVEL + RNG.normal(size=23)
DUMMIES = np.eye(3)[LEVEL][:, 1:]
GONE = 14  # a record of the second level
KEPT = np.arange(23) != GONE


def table(columns, y, names, digits=5):
    fit = sm.OLS(y, sm.add_constant(columns)).fit()
    rows = [[cell(b, digits), cell(e, digits)] for b, e in zip(fit.params, fit.bse, strict=True)]
    return pd.DataFrame([*rows, [cell(fit.scale**0.5, digits), ""]], ["const", *names, "sigma"], ["coef", "se"])


NAMES = ["g[T.b]", "g[T.c]"]
SMALL = table(DUMMIES, Y, NAMES)
LARGE = table(np.column_stack([DUMMIES, X]), Y, [*NAMES, "x"])
LATER = table(DUMMIES[KEPT], Y[KEPT], NAMES)


def test_a_covariate_more_tells_its_mean_in_every_cell():
    releases = [from_table(SMALL, "ols", name="small"), from_table(LARGE, "ols", name="large")]
    assert all(row.estimate is None for row in bayesrecon.recover(releases[1]) if "x" in row.name)
    for pair in (releases, releases[::-1]):
        found = bayesrecon.recover(pair)
        assert not found.failures
        truth = {f"mean(x)[g={v}]": X[k == LEVEL].mean() for k, v in enumerate(("baseline", "b", "c"))}
        truth |= {"mean(x)": X.mean(), "var(x)": X.var(), "n[g=c]": 4, "var(y)": Y.var()}
        for name, true in truth.items():
            row = found[name]
            assert row.lower - 1e-9 <= true <= row.upper + 1e-9
            assert row.estimate == pytest.approx(true, rel=1e-3)


def test_tables_of_other_records_are_not_pooled():
    found = bayesrecon.recover([from_table(SMALL, "ols", name="a"), from_table(LATER, "ols", name="b")])
    assert "not of the same records: n is 23 by one of them and 22 by b" in found.failures[0]
    assert all(row.estimate is None for row in found)


def test_the_record_between_two_tables_is_found():
    found = bayesrecon.audit([SMALL, LATER], "ols", remedies=False)
    (one,) = (f for f in found if f.title.startswith("two tables differ"))
    assert (one.severity, one.title) == ("high", "two tables differ by one record with g=b")
    assert "7 in table 1 less 6 in table 2" in one.summary
    item = one.evidence[1]
    assert item.lower <= Y[GONE] <= item.upper
    assert item.upper - item.lower < 0.02


def test_on_the_command_line(tmp_path, run):
    SMALL.to_csv(tmp_path / "small.csv")
    LARGE.to_csv(tmp_path / "large.csv")
    code, out, _ = run("recover", tmp_path / "small.csv", tmp_path / "large.csv", "--model", "ols", "--json")
    rows = {row["name"]: row["estimate"] for row in json.loads(out)["statistics"]}
    assert code == 0
    assert rows["mean(x)[g=c]"] == pytest.approx(X[LEVEL == 2].mean(), rel=1e-3)
    code, out, _ = run(
        "audit", tmp_path / "small.csv", tmp_path / "large.csv", "--model", "ols", "--no-remedies", "--json"
    )
    (together,) = (f for f in json.loads(out)["findings"] if f["kind"] == "outputs together")
    assert "mean(x)[g=c]" in {item["name"] for item in together["evidence"]}
    assert code == 3
