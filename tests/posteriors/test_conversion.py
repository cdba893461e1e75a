"""What people hold, and the release that each of it is."""

import jax
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from sklearn.linear_model import Ridge

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import from_sklearn, from_statsmodels, from_table, release_of

X, Y = np.random.default_rng(0).normal(size=(2, 60, 1)) + [[[0.0]], [[1.0]]]


@pytest.fixture
def fit():
    return sm.OLS(Y[:, 0], sm.add_constant(X)).fit()


def table_of(fit):
    sigma = pd.DataFrame({"estimate": [np.sqrt(fit.scale)], "std. error": [np.nan]}, index=["sigma"])
    found = pd.DataFrame({"estimate": fit.params, "std. error": fit.bse})
    found.index = ["const", "x"]
    return pd.concat([found, sigma])


def test_fits_are_read_as_their_readers_read_them(fit, tmp_path):
    ridge = Ridge(2.0).fit(X, Y[:, 0])
    table_of(fit).to_csv(tmp_path / "fit.csv")
    for source, model, reader in (
        (ridge, None, from_sklearn(ridge)),
        (fit, None, from_statsmodels(fit)),
        (table_of(fit), "ols", from_table(table_of(fit), "ols")),
        (tmp_path / "fit.csv", "ols", from_table(tmp_path / "fit.csv", "ols")),
    ):
        found = release_of(source, model)
        assert found.model.name == reader.model.name
        np.testing.assert_array_equal(found.theta, reader.theta)


def test_a_pair_of_fits_is_a_deletion(fit):
    without = Ridge(2.0).fit(X[1:], Y[1:, 0])
    pair = bayesrecon.deletion(Ridge(2.0).fit(X, Y[:, 0]), without)
    np.testing.assert_array_equal(pair.after.theta, from_sklearn(without).theta)


def test_a_pair_of_draws_shares_the_model_that_is_given(regression):
    _, release = regression
    params = {n: np.asarray(v)[None] for n, v in jax.vmap(release.model.constrain)(release.theta).items()}
    halves = ({n: v[:, part] for n, v in params.items()} for part in (slice(200), slice(200, 400)))
    pair = bayesrecon.deletion(*halves, model=release.model)
    assert pair.before.model is pair.after.model is release.model
    assert pair.before.size == 200


@pytest.mark.parametrize(
    ("source", "model", "message"),
    [
        (Ridge(2.0).fit(X, Y[:, 0]), "kidscore_momiq", "omit model="),
        (pd.DataFrame({"mean": [1.0], "sd": [0.1]}, index=["mu"]), "kidscore_momiq", "posteriors.from_table"),
        (pd.DataFrame({"mean": [1.0], "sd": [0.1]}, index=["mu"]), None, "ols, logit, poisson"),
        (3.0, None, "expected a release"),
    ],
)
def test_what_the_door_refuses(source, model, message):
    with pytest.raises(BayesreconError, match=message) as error:
        release_of(source, model)
    assert "\n" not in str(error.value)
