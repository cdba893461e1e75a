"""Scores, kernel, embedding and metric, each against its formula and against what recovers data."""

import jax
import numpy as np
import pytest

import bayesrecon
from bayesrecon.divergence import embedding, kernel, metric, phi
from bayesrecon.errors import BayesreconError
from bayesrecon.precision import x64

RNG = np.random.default_rng(0)
ANYBODY = {"x": RNG.normal(2, 2, (6, 1)), "y": RNG.normal(2, 2, 6)}


@pytest.fixture(scope="module")
def gradients(small):
    """`grad l(theta_t, z)`, `(T, M, d)`."""
    model = small[1].model
    with x64():
        over_records = jax.vmap(jax.grad(model.log_lik), in_axes=(None, 0))
        return np.asarray(jax.vmap(over_records, in_axes=(0, None))(np.asarray(small[1].theta), ANYBODY))


@pytest.mark.slow
def test_scores_are_gradients_in_the_metric(small, gradients):
    _, release = small
    assert phi(release, ANYBODY, metric="identity") == pytest.approx(gradients, rel=1e-10)
    whitened = phi(release, ANYBODY)
    expected = np.einsum("tmd,de,tne->tmn", gradients, np.cov(np.asarray(release.theta).T, bias=True), gradients)
    assert np.einsum("tmk,tnk->tmn", whitened, whitened) == pytest.approx(expected, rel=1e-8)


def test_the_kernel_is_the_mean_inner_product_of_scores(small):
    _, release = small
    scores, others = phi(release, ANYBODY), {name: values[:2] + 1 for name, values in ANYBODY.items()}
    assert kernel(release, ANYBODY) == pytest.approx(np.einsum("tmk,tnk->mn", scores, scores) / 400, rel=1e-10)
    expected = np.einsum("tmk,tnk->mn", scores, phi(release, others)) / 400
    assert kernel(release, ANYBODY, others) == pytest.approx(expected, rel=1e-10)


def test_the_metric_is_the_covariance_of_the_draws(small):
    assert metric(small[1]) == pytest.approx(np.cov(np.asarray(small[1].theta).T, bias=True))
    assert np.array_equal(metric(small[1], "identity"), np.eye(3))


def test_the_embedding_of_private_data_needs_the_release_alone(small):
    """It differs from the sum of the kernel over the records by sampling noise of known size."""
    truth, release = small
    model, theta = release.model, np.asarray(release.theta)

    def log_posterior(t):
        return jax.vmap(model.log_lik, in_axes=(None, 0))(t, truth).sum() + model.log_prior(t) + model.log_det(t)

    def terms(t):
        traces = jax.vmap(lambda z: (jax.hessian(model.log_lik)(t, z) * sigma).sum())(ANYBODY)
        return traces, jax.grad(log_posterior)(t)

    with x64():
        sigma = metric(release)
        traces, total = map(np.asarray, jax.jit(jax.vmap(terms))(theta))
    factor = phi(release, ANYBODY, metric="identity")
    residuals = traces + np.einsum("tmd,de,te->tm", factor, sigma, total)
    found, known = embedding(release, ANYBODY), embedding(release, ANYBODY, of=truth)
    assert known == pytest.approx(kernel(release, truth, ANYBODY).sum(axis=0), rel=1e-10)
    assert known - found == pytest.approx(residuals.mean(axis=0), rel=1e-7)
    assert (np.abs(known - found) < 5 * residuals.std(axis=0) / 20).all()


def test_weights_with_the_same_embedding_have_the_recovered_totals(small):
    _, release = small
    weights = np.linalg.solve(kernel(release, ANYBODY), embedding(release, ANYBODY))
    result = bayesrecon.recover(release)
    assert weights.sum() == pytest.approx(result["n"].estimate, rel=1e-6)
    assert weights @ ANYBODY["y"] / weights.sum() == pytest.approx(result["mean(y)"].estimate, rel=1e-6)


def test_many_records_are_taken_in_parts(small):
    many = {name: np.concatenate([values] * 50) for name, values in ANYBODY.items()}
    assert embedding(small[1], many) == pytest.approx(np.tile(embedding(small[1], ANYBODY), 50), rel=1e-12)


def test_what_is_refused(small):
    _, release = small
    with pytest.raises(BayesreconError, match="the records lack field y"):
        kernel(release, {"x": ANYBODY["x"]})
    with pytest.raises(BayesreconError, match="the measure: x has shape"):
        embedding(release, ANYBODY, of={"x": ANYBODY["y"], "y": ANYBODY["y"]})
    with pytest.raises(BayesreconError, match="metric='euclid'"):
        metric(release, "euclid")
    with pytest.raises(BayesreconError, match="draws are too few for the covariance"):
        phi(release.take(slice(2)), ANYBODY)
    with pytest.raises(BayesreconError, match="divergence takes any release"):
        metric(bayesrecon.deletion(release, release.take(slice(200))))
