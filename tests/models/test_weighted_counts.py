import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_table
from bayesrecon.posteriors.printed.footers import cell

BINARY = {"domain": {"x": "binary"}}


def table(kind, n, digits, rng, binary=True):
    x = (rng.random(n) < 0.4).astype(float) if binary else rng.normal(1, 2, n)
    eta = 0.3 + 0.4 * x
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float) if kind == "logit" else rng.poisson(np.exp(eta)) * 1.0
    fit = (sm.Logit if kind == "logit" else sm.Poisson)(y, sm.add_constant(x)).fit(disp=0, tol=1e-12)
    lines = {"coef": [cell(v, digits) for v in fit.params], "se": [cell(v, digits) for v in fit.bse]}
    truth = {"n": n, "mean(x)": x.mean(), "mean(y)": y.mean(), "var(x)": x.var()}
    truth["cov(x,y)"] = np.cov(x, y, ddof=0)[0, 1]
    return from_table(pd.DataFrame(lines, index=["const", "x"]), kind), truth


def holds(row, value):
    return (row.lower is None or row.lower <= value) and (row.upper is None or row.upper >= value)


@pytest.mark.parametrize("kind", ["logit", "poisson"])
@pytest.mark.parametrize("binary", [True, False])
def test_bounds_hold(kind, binary):
    rng = np.random.default_rng(0)
    for digits in (3, 4, 6):
        release, truth = table(kind, 240, digits, rng, binary)
        for known in ({}, {"total": 240.0}, *([BINARY] if binary else [])):
            found = bayesrecon.recover(release, **known)
            assert not found.failures
            assert all(holds(found[name], value) for name, value in truth.items())
        if kind == "logit":
            assert 0 < bayesrecon.recover(release)["n"].lower <= 240


@pytest.mark.parametrize("kind", ["logit", "poisson"])
def test_a_covariate_that_is_0_or_1_tells_the_counts(kind):
    release, truth = table(kind, 240, 6, np.random.default_rng(1))
    found = bayesrecon.recover(release, **BINARY)
    for name, value in truth.items():
        assert found[name].verdict == "determined"
        assert found[name].estimate == pytest.approx(value, rel=1e-3, abs=1e-4)
    wrong = bayesrecon.recover(release, total=300.0, **BINARY)
    assert "or fewer" in wrong.failures[0]


def test_tables_that_do_not_give_counts_are_refused():
    lines = {"coef": ["0.3", "0.2"], "se": ["0.1", "0.1"]}
    with pytest.raises(BayesreconError, match="with an intercept; supply correlations="):
        from_table(pd.DataFrame(lines, index=["u", "v"]), "logit")
    frame = pd.DataFrame({k: [*v, "1"] for k, v in lines.items()}, index=["beta[1]", "beta[2]", "sigma"])
    with pytest.raises(BayesreconError, match="moments of draws need their correlations"):
        from_table(frame, bayesrecon.models.load("kidscore_momiq"), draws=100)
