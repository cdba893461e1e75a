"""The embedding of a release in the features of pseudo-records: Stein's identity, and copies of records."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from families import model_of

import bayesrecon
from bayesrecon.divergence.adaptive import AdaptiveEmbedding
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.models import from_numpyro
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws


def _exposed(exposure, y=None):
    rate = numpyro.sample("rate", dist.Normal(0, 5))
    with numpyro.plate("records", len(exposure)):
        numpyro.sample("y", dist.Poisson(jnp.exp(rate + exposure)), obs=y)


def test_the_embedding_of_the_data_is_the_target(regression):
    """mu(z) = sum_n k(x_n, z) in expectation over the draws (Stein); 5 standard errors, 40 records."""
    data, release = regression
    with x64():
        metric = metric_factor(release, None)
        rng = np.random.default_rng(1)
        probes = {"x": rng.normal(3, 2, (40, 1)), "y": rng.normal(2, 2, 40)}
        basis = Basis(probes, np.eye(40))
        embedding = AdaptiveEmbedding(release, metric)
        target = embedding.moments(basis).target
        both = {k: np.concatenate([probes[k], data[k]]) for k in data}
        whole = embedding.moments(Basis(both, np.eye(100))).gram
        truth = whole[:40, 40:].sum(axis=1)
        # The residual at the truth has the noise that the embedding states for it.
        noise = embedding.noise(Basis(both, np.eye(100)), np.r_[np.zeros(40), np.ones(60)])[:40, :40]
    error = np.sqrt(np.diag(noise) / release.size)
    assert (np.abs(target - truth) < 5 * error).all()
    assert (error < 0.2 * np.abs(truth).max()).all()


def test_splitting_a_record_changes_nothing(regression):
    """Two half-weight copies of the pseudo-records carry the same score at every draw."""
    _, release = regression
    pseudo = bayesrecon.recover(release).pseudo
    with x64():
        embedding = AdaptiveEmbedding(release, metric_factor(release, None))
        weights = np.asarray(pseudo.weights)
        once = Basis(pseudo.records, np.eye(len(weights)))
        twice = Basis({k: np.concatenate([v, v]) for k, v in pseudo.records.items()}, np.eye(2 * len(weights)))
        one = embedding.influence(once, weights, np.eye(len(weights)))[1]
        two = embedding.influence(twice, np.tile(weights / 2, 2), np.eye(2 * len(weights)))[1]
    np.testing.assert_allclose(one, two, atol=1e-8 * np.abs(one).max())


@pytest.mark.slow
def test_records_whose_scores_overflow_are_told():
    """Where one draw in hundreds puts a record where its density, or a derivative of it, is no number."""
    for name, wild in (("beta", 40.0), ("truncated normal", -60.0)):
        model = model_of(name)
        theta = np.zeros((200, model.dimension))
        theta[:, 0] = np.linspace(-0.1, 0.1, 200)
        theta[:, 1] = 0.5 + np.linspace(0.1, -0.1, 200) ** 3
        theta[77, 1] = 2.0
        release = PosteriorDraws(theta, model, np.full(200, 1 / 200), np.zeros(200, int))
        with x64():
            embedding = AdaptiveEmbedding(release, np.eye(model.dimension))
            tame = embedding.tame({"x": np.array([0.0, wild, 1.0]), "y": np.array([0.5, 0.5, 0.2])})
        assert tame.tolist() == [True, False, True], name


def test_a_record_whose_squared_scores_overflow_is_told():
    """The rate of a count with an exposure that nobody knows: `exp(200)` is finite, errors of squares are not."""
    model = from_numpyro(_exposed, {"exposure": (), "y": ()}, name="exposed")
    release = PosteriorDraws(np.linspace(-0.1, 0.1, 50)[:, None], model, np.full(50, 1 / 50), np.zeros(50, int))
    records = {"exposure": np.array([0.0, 200.0, 5.0]), "y": np.array([1, 1, 90])}
    with x64():
        assert AdaptiveEmbedding(release, np.eye(1)).tame(records).tolist() == [True, False, True]


@pytest.mark.slow
def test_a_record_that_overflows_at_a_draw_in_the_middle_is_told_on_demand():
    """The slope is the largest where the scale is not the least: the worst draw is at no end of a coordinate."""
    model = model_of("truncated normal")
    theta = np.zeros((200, model.dimension))
    theta[0, 1], theta[1, 2], theta[77] = 0.9, -1.2, [0.0, 0.85, -1.1]
    release = PosteriorDraws(theta, model, np.full(200, 1 / 200), np.zeros(200, int))
    record = {"x": np.array([-15.0, 0.0]), "y": np.array([0.5, 0.5])}
    with x64():
        embedding = AdaptiveEmbedding(release, np.eye(model.dimension))
        assert embedding.tame(record).tolist() == [True, True]
        assert embedding.tame(record, everywhere=True).tolist() == [False, True]
