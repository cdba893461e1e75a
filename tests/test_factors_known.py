"""Factors that an attacker knows, in every verb that takes knowledge."""

import numpy as np
import pandas as pd
import pytest

import bayesrecon
from bayesrecon.errors import BayesreconError

smf = pytest.importorskip("statsmodels.formula.api")
RNG = np.random.default_rng(5)
GROUPS = pd.DataFrame({"g": np.repeat(["a", "b", "c"], [8, 5, 2]), "y": RNG.normal(size=15)})
FIT = bayesrecon.posteriors.from_statsmodels(smf.ols("y ~ C(g)", GROUPS).fit())
FACTORS = {"g": ["C_g__T_b_", "C_g__T_c_"]}


@pytest.mark.slow
def test_bounds_hold_and_need_no_domain_of_the_columns():
    found = bayesrecon.bound(FIT, domain={"y": (-4.0, 4.0)}, factors=FACTORS, variances=False)
    truth = {"n": 15.0, "mean(C_g__T_b_)": 5 / 15, "mean(C_g__T_c_)": 2 / 15, "mean(y)": GROUPS.y.mean()}
    for name, true in truth.items():
        assert found[name].lower - 1e-9 <= true <= found[name].upper + 1e-9
        assert found[name].upper - found[name].lower < 0.01 * max(1.0, abs(true))
    with pytest.raises(BayesreconError, match="need the domain of field 'C_g__T_b_'"):
        bayesrecon.bound(FIT, domain={"y": (-4.0, 4.0)})


@pytest.mark.slow
def test_records_stand_at_one_level():
    found = bayesrecon.reconstruct(FIT, total=15, domain={"y": (-4.0, 4.0)}, factors=FACTORS)
    weights, (b, c) = found.pseudo.weights, (found.pseudo.records[name] for name in FACTORS["g"])
    assert set(np.unique(np.concatenate([b, c]))) <= {0.0, 1.0}
    assert weights @ (b * c) == pytest.approx(0, abs=1e-6)
    assert [weights @ ((1 - b) * (1 - c)), weights @ b, weights @ c] == pytest.approx([8, 5, 2], rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["recover", "diagnose"])
def test_levels_are_the_only_values(verb):
    """Squares of dummies are the dummies: fewer features are left."""
    plain, coded = (getattr(bayesrecon, verb)(FIT, factors=factors) for factors in (None, FACTORS))
    assert coded.rank < plain.rank


@pytest.mark.slow
def test_a_plan_takes_them():
    """Squares of dummies are the dummies, so that fewer features are left to be told apart."""
    rng, design = np.random.default_rng(0), pd.get_dummies(GROUPS.g).to_numpy(float)
    whole = np.column_stack([np.ones(15), design[:, 1:]])
    best, rest, *_ = np.linalg.lstsq(whole, GROUPS.y.to_numpy(), rcond=None)
    sigma = np.sqrt(rest / rng.chisquare(12, size=(2, 1500)))
    spread = rng.normal(size=(2, 1500, 3)) @ np.linalg.cholesky(np.linalg.inv(whole.T @ whole)).T
    drawn = best + sigma[..., None] * spread
    values = {"alpha": drawn[..., 0], "beta": drawn[..., 1:], "sigma": sigma}
    model = bayesrecon.models.load("linear_regression", covariates=["gb", "gc"])
    options = {"draws": (500,), "digits": (4,), "summaries": False}
    plain, coded = (bayesrecon.plan(values, model=model, factors=f, **options) for f in (None, {"g": ["gb", "gc"]}))
    assert repr(coded) != repr(plain)
    with pytest.raises(BayesreconError, match="'h'"):
        bayesrecon.plan(values, model=model, factors={"g": ["h"]}, **options)
