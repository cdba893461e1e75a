"""The closed-form decoder against regression, simulation and the law of the risk."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from bayesrecon.attacks.outputs.decoding import fitted_decoder, linear_decoder
from bayesrecon.disclosure.output_numbers import rounding_noise
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate import linear_risk, reconstruction_risk

RNG = np.random.default_rng(0)
FACTOR = RNG.normal(size=(12, 12))
COVARIANCE = FACTOR @ FACTOR.T
MEAN, WEIGHTS = RNG.normal(size=12), RNG.normal(size=(12, 4))
X = RNG.multivariate_normal(MEAN, COVARIANCE, 40_000)


def test_from_moments_it_is_a_regression_of_many_records():
    decoder = linear_decoder(MEAN, COVARIANCE, WEIGHTS, centre=np.arange(4.0))
    z = (X - MEAN) @ WEIGHTS + np.arange(4.0)
    np.testing.assert_allclose(decoder(z[:5]), LinearRegression().fit(z, X).predict(z[:5]), atol=0.2)
    errors = ((decoder(z) - X) ** 2).mean(axis=0)
    np.testing.assert_allclose(decoder.unexplained, errors, rtol=0.05)
    np.testing.assert_allclose(decoder.visibility, 1 - errors / np.diag(COVARIANCE), atol=0.03)


def test_from_public_records_it_is_least_squares():
    x, z = X[:300], np.tanh(X[:300] @ WEIGHTS)
    decoder, regression = fitted_decoder(x, z), LinearRegression().fit(z, x)
    np.testing.assert_allclose(decoder(z), regression.predict(z), atol=1e-8)
    free = ((x - regression.predict(z)) ** 2).sum(axis=0) / (300 - 5)
    np.testing.assert_allclose(decoder.unexplained, np.minimum(free * 299 / 300, x.var(axis=0)), rtol=1e-6)


def test_only_the_span_counts_without_noise():
    turned = WEIGHTS @ RNG.normal(size=(4, 4))
    plain, other = (linear_decoder(MEAN, COVARIANCE, w) for w in (WEIGHTS, np.hstack([turned, WEIGHTS[:, :1]])))
    np.testing.assert_allclose(plain.unexplained, other.unexplained, rtol=1e-6)
    assert other((X[:2] - MEAN) @ np.hstack([turned, WEIGHTS[:, :1]])) == pytest.approx(
        plain((X[:2] - MEAN) @ WEIGHTS), rel=1e-6
    )


@pytest.mark.parametrize("decimals", [0, -1])
def test_noise_and_rounding_leave_what_is_said(decimals):
    noise = rounding_noise(decimals)
    decoder = linear_decoder(MEAN, COVARIANCE, WEIGHTS, noise=noise)
    exact = (X - MEAN) @ WEIGHTS
    for z in (exact + noise * RNG.normal(size=exact.shape), exact.round(decimals)):
        np.testing.assert_allclose(decoder.unexplained, ((decoder(z) - X) ** 2).mean(axis=0), rtol=0.06)
    assert decoder.error > linear_decoder(MEAN, COVARIANCE, WEIGHTS).error


def test_several_models_see_more_than_one():
    one = linear_decoder(MEAN, COVARIANCE, WEIGHTS)
    two = linear_decoder(MEAN, COVARIANCE, np.hstack([WEIGHTS, RNG.normal(size=(12, 4))]))
    assert (two.visibility > one.visibility).all()


@pytest.mark.parametrize("outputs", [1, 4, 8])
def test_every_linear_model_has_one_risk(outputs):
    """Of any outputs of a normal law, whatever they are."""
    for weights in (RNG.normal(size=(12, outputs)), np.eye(12)[:, :outputs]):
        decoder = linear_decoder(MEAN, COVARIANCE, weights)
        risk = reconstruction_risk(X, decoder((X - MEAN) @ weights), X)
        assert risk == pytest.approx(linear_risk(12, outputs), rel=0.02)


def test_a_field_that_does_not_vary_is_not_visible():
    decoder = linear_decoder([0.0, 1.0], [[1.0, 0.0], [0.0, 0.0]], [[1.0], [1.0]])
    np.testing.assert_allclose(decoder.visibility, [1.0, 0.0], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linear_decoder(MEAN, COVARIANCE[:2], WEIGHTS), "sizes differ"),
        (lambda: linear_decoder(MEAN, COVARIANCE, WEIGHTS, noise=-1.0), "noise=-1.0"),
        (
            lambda: linear_decoder(MEAN, COVARIANCE, WEIGHTS)(np.zeros((2, 3))),
            r"expected finite numbers, \(records, 4\)",
        ),
        (lambda: fitted_decoder(X[:3], X[:4]), "as many rows"),
        (lambda: fitted_decoder(X[:5], X[:5, :4]), "more records than outputs"),
        (lambda: linear_risk(5, 4), "expected 0 to 3"),
        (lambda: reconstruction_risk(X[:4], X[4:8], X, rtol=2.0), "rtol=2.0"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(BayesreconError, match=message):
        call()
