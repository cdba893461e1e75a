"""One record that is more than half of a sum, where a table tells sum and sum of squares."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.auditing.dominance import KIND, Sum, dominance_of_draws, largest, shares
from bayesrecon.estimation.recovered import recovered_with_problem
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.posteriors.printed.footers import cell
from bayesrecon.precision import x64
from bayesrecon.results.findings import Thresholds

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


@pytest.mark.slow
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


SHAPE, SCALE, WEIGHT = 1.0, 1.0, 0.01  # of the prior: a normal law of the mean beside an inverse gamma of the variance


def by_cell(g, y=None):
    """Every cell has a mean and a variance of its own, so that the posterior tells its sum and its sum of squares."""
    variance = numpyro.sample("variance", dist.InverseGamma(SHAPE, SCALE).expand([3]).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(0, jnp.sqrt(variance / WEIGHT)).to_event(1))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean[g], jnp.sqrt(variance[g])), obs=y)


def draws_of(groups, rng, count=4000):
    """Independent draws of the posterior, which is of the same form as the prior."""
    variances, means = [], []
    for y in groups:
        weight = WEIGHT + len(y)
        centre = y.sum() / weight
        scale = SCALE + 0.5 * ((y**2).sum() - weight * centre**2)
        variances.append(scale / rng.gamma(SHAPE + len(y) / 2, size=(2, count)))
        means.append(centre + np.sqrt(variances[-1] / weight) * rng.normal(size=(2, count)))
    return {"variance": np.stack(variances, -1), "mean": np.stack(means, -1)}


@pytest.fixture(scope="module")
def of_cells():
    return from_numpyro(by_cell, {"g": (), "y": ()}, domain={"g": [0, 1, 2]})


@pytest.mark.slow
def test_draws_that_tell_sums_of_cells_show_the_record_that_is_most_of_one(of_cells):
    groups = [np.array([4.0, 5, 6, 5, 4, 6]), np.array([90.0, 2, 3, 2.5]), np.array([7.0, 8, 6, 9, 7])]
    found = bayesrecon.audit(draws_of(groups, np.random.default_rng(0)), of_cells, remedies=False)
    (one,) = (f for f in found if f.kind == KIND)
    assert one.title.endswith("of the sum of y with g=1, if y is not negative")
    assert one.summary.endswith("with 95 % confidence")
    share, value = one.evidence
    assert 0.5 < share.lower <= 90 / 97.5 <= share.upper
    assert 80 < value.lower <= 90 <= value.upper
    negative = draws_of([groups[0], groups[1], -groups[2]], np.random.default_rng(1))
    assert KIND not in [f.kind for f in bayesrecon.audit(negative, of_cells, remedies=False)]


@pytest.mark.slow
def test_intervals_of_draws_hold(of_cells):
    rng = np.random.default_rng(2)
    seen = missed = 0
    for _ in range(6):
        groups = [np.exp(rng.normal(1, rng.choice([0.3, 2.0]), int(rng.integers(3, 8)))) for _ in range(3)]
        problem, found = recovered_with_problem(from_draws(draws_of(groups, rng), of_cells))
        with x64():
            findings, _ = dominance_of_draws(problem, found, ("posterior",), Thresholds())
        truth = {f"largest share of sum(y)[g={k}]": y.max() / y.sum() for k, y in enumerate(groups)}
        truth["largest share of sum(y)"] = max(y.max() for y in groups) / sum(y.sum() for y in groups)
        for item in (finding.evidence[0] for finding in findings):
            seen += 1
            missed += not item.lower <= truth[item.name] <= item.upper
    assert seen >= 5
    assert missed <= 1  # of intervals at 95 % or more
