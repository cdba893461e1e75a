"""One record that is more than half of a sum, where a table tells sum and sum of squares."""

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.auditing.dominance import KIND, Sum, largest, shares
from bayesrecon.posteriors.printed.numbers import cell

sm = pytest.importorskip("statsmodels.api")


def table(groups, digits=5):
    """Least squares of a response on the levels of a factor, as it is printed; `groups` are its values by level."""
    y = np.concatenate(groups)
    level = np.repeat(np.arange(len(groups)), [len(g) for g in groups])
    fit = sm.OLS(y, np.column_stack([np.ones(len(y)), np.eye(len(groups))[level][:, 1:]])).fit()
    rows = [[cell(b, digits), cell(e, digits)] for b, e in zip(fit.params, fit.bse, strict=True)]
    names = ["const", *(f"g[T.{name}]" for name in "bcd"[: len(groups) - 1])]
    return pd.DataFrame([*rows, [cell(fit.scale**0.5, digits), ""]], [*names, "sigma"], ["coef", "se"])


def dominating(frame, **knows):
    return [f for f in bayesrecon.audit(frame, "ols", remedies=False, **knows) if f.kind == KIND]


def test_shares_and_the_largest_hold_for_any_numbers():
    rng = np.random.default_rng(0)
    for _ in range(2000):
        y = rng.gamma(rng.uniform(0.05, 2), 1, int(rng.integers(2, 12))) + 1e-9
        one = Sum("", len(y), (y.mean(), y.mean()), (((y - y.mean()) ** 2).sum(),) * 2)
        low, high = shares(one)
        assert low - 1e-9 <= y.max() / y.sum() <= high + 1e-9
        low, high = largest(one)
        assert low * (1 - 1e-9) <= y.max() <= high * (1 + 1e-9)


def test_a_record_that_is_most_of_a_cell_is_found():
    """Other cells cannot have the scatter that the table tells."""
    groups = [np.array([4.0, 5, 6, 5, 4, 6]), np.array([900.0, 20, 30, 25]), np.array([7.0, 8, 6, 9, 7])]
    found = dominating(table(groups))
    (one,) = (f for f in found if "with g=b" in f.title)
    share, value = one.evidence
    assert share.name == "largest share of sum(y)[g=b]"
    assert 0.5 < share.lower <= 900 / 975 <= share.upper
    assert value.lower <= 900 <= value.upper
    assert one.title.endswith(", if y is not negative")
    stated = dominating(table(groups), domain={"y": "positive"})
    assert any(f.title.endswith("of the sum of y with g=b") for f in stated)
    (whole,) = (f for f in found if "with" not in f.title)
    assert whole.evidence[0].lower <= 900 / np.concatenate(groups).sum() <= whole.evidence[0].upper


def test_even_cells_and_negative_means_have_no_finding():
    even = [np.array([4.0, 5, 6, 5]), np.array([20.0, 22, 21, 24]), np.array([7.0, 8, 6, 9, 7])]
    assert not dominating(table(even))
    assert not dominating(table([np.array([-4.0, -5, -6, -5]), np.array([900.0, 20, 30, 25])]))


def test_intervals_hold_over_many_tables():
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(25):
        groups = [np.exp(rng.normal(1, rng.choice([0.3, 2.5]), int(rng.integers(2, 7)))) for _ in range(3)]
        truth = {
            f"largest share of sum(y)[g={name}]": g.max() / g.sum()
            for name, g in zip(("baseline", *"bc"), groups, strict=True)
        }
        truth["largest share of sum(y)"] = np.concatenate(groups).max() / np.concatenate(groups).sum()
        for finding in dominating(table(groups, 4)):
            item = finding.evidence[0]
            assert item.lower - 1e-9 <= truth[item.name] <= item.upper + 1e-9
            seen += 1
    assert seen > 10
