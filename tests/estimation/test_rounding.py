"""Digits that were cut are seen, whatever they were cut to, and matter where they move totals by more than errors."""

from dataclasses import replace

import conjugate
import numpy as np
import pytest

import bayesrecon
from bayesrecon.digits import round_to
from bayesrecon.estimation.rounding import cells, rounding_failure, rounding_of
from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64


@pytest.fixture(autouse=True)
def _as_verbs_do():
    with x64():
        yield


def steps(values):
    low, high = cells(values)
    assert (low <= values).all()
    assert (values <= high).all()
    return np.unique(np.round(high - low, 12))


@pytest.mark.parametrize("digits", [2, 4, 6])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("size", [26.0, 0.6])
def test_significant_digits_are_counted(digits, single, size):
    values = round_to(np.random.default_rng(0).normal(size, 0.06 * size, 400), digits)
    values = values.astype(np.float32).astype(float) if single else values
    low, high = cells(values)
    np.testing.assert_allclose(high - low, 10.0 ** (np.floor(np.log10(size)) - digits + 1))


@pytest.mark.parametrize("decimals", [0, 1, 2, 4])
@pytest.mark.parametrize("single", [False, True])
def test_decimals_are_counted_over_decades_and_at_zero(decimals, single):
    values = np.round(np.random.default_rng(0).standard_t(3, 1000) * 3, decimals)
    values = np.r_[values, 0.0]
    values = values.astype(np.float32).astype(float) if single else values
    np.testing.assert_allclose(steps(values), 10.0**-decimals)


@pytest.mark.parametrize("step", [0.25, 0.05, 20.0])
def test_rounding_to_any_decimal_step_is_detected(step):
    values = np.round(np.random.default_rng(0).normal(3, 40 * step, 500) / step) * step
    np.testing.assert_allclose(steps(values), step)


def test_values_far_from_zero_keep_their_step():
    values = np.round(np.random.default_rng(0).normal(123456, 0.02, 500), 2)
    np.testing.assert_allclose(steps(values), 0.01)


def test_cells_hold_what_was_rounded():
    exact = np.random.default_rng(0).normal(0, 10, 4000)
    low, high = cells(round_to(exact, 2))
    assert (low - 1e-12 <= exact).all()
    assert (exact <= high + 1e-12).all()


@pytest.mark.parametrize("single", [False, True])
def test_full_precision_has_no_step(single):
    values = np.random.default_rng(0).normal(size=200)
    assert not steps(values.astype(np.float32).astype(float) if single else values).any()


def regression(values):
    """A release of a regression from draws `{name: (T, ...)}`."""
    return from_draws({k: np.asarray(v)[None] for k, v in values.items()}, conjugate.regression_model())


@pytest.fixture(scope="module")
def exact():
    """Draws of a regression far from its covariate's origin: intercept and slope vary together."""
    rng = np.random.default_rng(7)
    x = rng.normal(100, 15, (434, 1))
    y = 26 + 0.6 * x[:, 0] + 18 * rng.normal(size=434)
    drawn = conjugate.sample_regression(x, y, 2000, rng)
    return {"x": x[:, 0], "y": y}, {k: v[0] for k, v in drawn.items()}


def test_parameters_that_vary_together_feel_finer_steps(exact):
    beta = np.round(exact[1]["beta"] / [2.0, 1e-3]) * [2.0, 1e-3]
    found = rounding_of(regression({**exact[1], "beta": beta}), 2000)
    by_itself = 2.0**2 / 12 / beta[:, 0].var()
    assert found.share > 20 * by_itself
    assert found.summary.startswith("beta[1] is rounded to steps of ")
    assert found.constrained == (False, True)
    np.testing.assert_allclose((found.high - found.low)[:, 1:], [[2.0, 1e-3]] * 2000)


def test_values_are_rounded_where_they_were_printed(exact):
    printed = regression({**exact[1], "variance": np.round(exact[1]["variance"], -1)})
    log = regression({**exact[1], "variance": np.exp(np.round(np.log(exact[1]["variance"]), 1))})
    for release, constrained, step in ((printed, True, 10.0), (log, False, 0.1)):
        found = rounding_of(release, 2000)
        assert found.constrained[0] is constrained
        np.testing.assert_allclose((found.high - found.low)[:, 0], step)
        assert found.correctable


@pytest.mark.slow
def test_exact_draws_take_the_path_they_took(exact, monkeypatch):
    release = regression(exact[1])
    assert rounding_of(release, 2000) is None
    plain = bayesrecon.recover(release)
    monkeypatch.setattr("bayesrecon.estimation.kinds.draws.rounding_of", lambda *_: None)
    for one, other in zip(plain, bayesrecon.recover(release), strict=True):
        assert one == other


def test_what_is_gone_is_not_mended(exact):
    coarse = regression({k: round_to(v, 1) for k, v in exact[1].items()})
    found = bayesrecon.recover(coarse)
    assert not found.consistent
    assert found["n"].estimate is None
    assert "cannot be corrected, since the loss of precision is too large" in found.failures[0]


def test_draws_rounded_onto_a_bound_are_missed(exact):
    tau = np.abs(np.random.default_rng(0).normal(0, 30, 2000)).round(0)
    drawn = {**exact[1], "variance": np.where(tau > 0, tau, 1.0)}
    assert "onto its bound" in rounding_of(regression(drawn), 2000).uncorrectable


def test_coordinates_made_of_published_ones_are_not_mended(exact):
    release = regression({k: round_to(v, 2) for k, v in exact[1].items()})
    assert rounding_failure(release, 2000) is not None
    prepared = replace(release, model=replace(release.model, prepare=lambda values: values))
    assert "computed from the published ones" in rounding_failure(prepared, 2000)


def test_entries_that_depend_on_each_other_are_not_mended():
    rng = np.random.default_rng(0)
    model = from_numpyro(_mixture, {"y": ()})
    share = np.round(rng.dirichlet([20, 30, 50], 500), 2)
    share[:, 2] = 1 - share[:, 0] - share[:, 1]
    found = rounding_of(from_draws({"share": share[None]}, model), 500)
    assert found.uncorrectable == "the elements of share are constrained jointly"
    assert found.share > 0.001


def _mixture(y):
    import jax.numpy as jnp
    import numpyro
    from numpyro import distributions as dist

    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(share), dist.Normal(jnp.arange(3.0), 1.0)), obs=y)


@pytest.mark.slow
def test_known_designs_are_not_mended(logistic_case):
    """Single records share the check, and are not treated."""
    true, release, _ = logistic_case
    theta = np.asarray(release.theta)
    step = [0.1, 0.001]
    release = replace(release, theta=np.round(theta / step) * step)
    found = bayesrecon.reconstruct(release, known={"dist": true["dist"]}, unit="dist", force=True)
    assert any("is rounded to steps" in failure for failure in found.failures)
