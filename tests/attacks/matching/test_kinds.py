"""What gradient matching says of every kind of release: equations that do not hold are never taken for some."""

import numpy as np
import pytest

import bayesrecon
from bayesrecon import GradientMatching, reconstruct
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import dirac, from_draws, from_table
from bayesrecon.types import Approximation, PosteriorDraws, StatedLimits, Summary, TrainedParameter

ONE = GradientMatching(n=6, multipliers="one", restarts=2, steps=100)


@pytest.fixture(scope="module")
def six():
    rng = np.random.default_rng(0)
    x = rng.normal(size=6)
    return {"x1": x, "y": 1 + 2 * x + rng.normal(size=6)}


@pytest.fixture(scope="module")
def fitted(six):
    sm = pytest.importorskip("statsmodels.api")
    return bayesrecon.posteriors.from_statsmodels(sm.OLS(six["y"], sm.add_constant(six["x1"])).fit())


@pytest.mark.slow
def test_real_records_of_an_approximation_are_never_certified_away(fitted, six):
    """Estimates and covariance of six records: three of nine directions are no equations."""
    assert type(fitted) is Approximation
    equations = ONE.equations(fitted, {})
    assert equations.size == 6
    assert np.linalg.norm(equations.residual(six, {})) < 1e-6
    found = reconstruct(fitted, attack=ONE)
    assert found.residual_floor == 0
    assert not any("every data set" in line for line in found.warnings)


@pytest.mark.slow
def test_the_bound_holds_along_the_directions_of_an_approximation(fitted, six):
    """The certificate of any records at all lies below what the real ones leave."""
    equations, rng = ONE.equations(fitted, {}), np.random.default_rng(1)
    for scale in (0.3, 3.0):
        some = {k: scale * v for k, v in six.items()}
        least, _, _ = equations.certify(equations.residual(some, {}), np.ones(6), rng)
        assert least <= np.linalg.norm(equations.residual(six, {})) + 1e-9


def printed(fit, correlated=True):
    """The table of a fit at three significant digits, as text."""
    import pandas as pd

    cells = [[f"{v:#.3g}", f"{e:#.3g}"] for v, e in zip(fit.params, fit.bse, strict=True)]
    table = pd.DataFrame(
        [*cells, [f"{np.sqrt(fit.scale):#.3g}", ""]], ["const", "x1", "sigma"], ["estimate", "std. error"]
    )
    covariance = np.asarray(fit.cov_params())
    r = f"{covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1]):#.3g}"
    names = ["const", "x1"]
    return from_table(
        table, "ols", correlations=pd.DataFrame([["1", r], [r, "1"]], names, names) if correlated else None
    )


def test_what_has_no_exact_equations_is_refused_by_name(six):
    """A rounded table would be certified against the records that it was made of, and limits solved by anything."""
    sm = pytest.importorskip("statsmodels.api")
    fit = sm.OLS(six["y"], sm.add_constant(six["x1"])).fit()
    for correlated, kind, other in ((True, Summary, "WeightedRecords"), (False, StatedLimits, "`recover`")):
        release = printed(fit, correlated)
        assert type(release) is kind
        with pytest.raises(BayesreconError, match="GradientMatching takes a trained parameter or") as refused:
            reconstruct(release, attack=ONE)
        assert other in str(refused.value)
        assert "\n" not in str(refused.value)


def test_draws_are_refused_by_name():
    rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    values = {"coef": rng.normal(2, 0.1, (2, 40, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 40, 1))}
    release = from_draws(values, model)
    assert type(release) is PosteriorDraws
    with pytest.raises(BayesreconError, match="this is posterior draws; use "):
        reconstruct(release, attack=ONE)


def test_a_trained_parameter_says_what_it_is():
    model = bayesrecon.models.load("linear_predictor", penalty=1.0)
    release = dirac(model, {"coef": [[0.5]], "intercept": [0.3]})
    assert type(release) is TrainedParameter
    assert "a trained parameter with 2 coordinates" in repr(release)


def test_kinds_say_what_they_are(fitted, six):
    assert "an approximation of a posterior with" in repr(fitted)
    with pytest.raises(
        BayesreconError, match="plan takes posterior draws, and this is an approximation of a posterior"
    ):
        bayesrecon.plan(fitted)
