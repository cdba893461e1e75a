"""Likelihoods whose score jumps are refused by name, and smooth ones that branch are not."""

from dataclasses import replace

import families
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from numpyro import distributions as dist
from quick import quick

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.checks.kinks import kink
from bayesrecon.models import from_numpyro
from bayesrecon.models.registry import load, shipped
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws

pytestmark = pytest.mark.usefixtures("hardly_optimised")


def with_draws(model, centre=None):
    """Two hundred draws of some law: the check looks at where they lie alone."""
    centre = np.full(model.dimension, 0.1) if centre is None else np.array(centre)
    theta = np.random.default_rng(0).normal(centre, 0.2, (200, model.dimension))
    return PosteriorDraws(theta, model, np.full(200, 1 / 200), np.ones(200, int))


def parameters():
    line = numpyro.sample("line", dist.Normal(0, 5).expand((2,)).to_event(1))
    return line, numpyro.sample("scale", dist.HalfNormal(5))


def observed(law):
    def program(x, y=None):
        line, scale = parameters()
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", law(line[0] + line[1] * x, scale), obs=y)

    return from_numpyro(program, {"x": (), "y": ()})


def factored(term, **domain):
    def program(x, y):
        line, scale = parameters()
        numpyro.factor("records", term(line[0] + line[1] * x, scale, x, y, line))

    return from_numpyro(program, {"x": (), "y": ()}, domain=domain)


def quantile(mean, scale, x, y, line):
    return -jnp.where(y > mean, 0.3 * (y - mean), 0.7 * (mean - y)) / scale - jnp.log(scale)


def hinge(mean, scale, x, y, line):
    return -jnp.maximum(0, 1 - (2 * y - 1) * mean) / scale - jnp.log(scale)


def change(mean, scale, x, y, line):
    return dist.Normal(jnp.where(x > line[1], line[0], 0.0), scale).log_prob(y)


KINKED = {
    "absolute errors": (lambda: observed(dist.Laplace), "an absolute value"),
    "quantile regression": (lambda: factored(quantile), "a choice"),
    "hinge": (lambda: factored(hinge, y="binary"), "a maximum"),
    "rectifier": (lambda: observed(lambda mean, scale: dist.Normal(jax.nn.relu(mean), scale)), "a maximum"),
    "a point of change": (lambda: factored(change), "a choice"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", quick(KINKED, ["rectifier"]))
def test_a_score_that_jumps_is_refused_by_name(name):
    made, what = KINKED[name]
    with x64():
        release = with_draws(made(), [0.4, 1.2, -0.3])
    with pytest.raises(BayesreconError, match=f"{what} makes the score of a record jump") as raised:
        bayesrecon.recover(release)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_single_records_are_refused_as_well():
    made, _ = KINKED["absolute errors"]
    x = np.linspace(-1, 1, 30)
    with x64():
        release = with_draws(made(), [0.4, 1.2, -0.3])
    with pytest.raises(BayesreconError, match="makes the score of a record jump"):
        bayesrecon.reconstruct(release, known={"x": x}, unit="x")


def huber(mean, scale, x, y, line):
    off = jnp.abs((y - mean) / scale)
    return -jnp.where(off < 1, 0.5 * off**2, off - 0.5) - jnp.log(scale)


def squared_hinge(mean, scale, x, y, line):
    return -(jnp.maximum(0, 1 - (2 * y - 1) * mean) ** 2) / scale - jnp.log(scale)


def clipped(mean, scale, x, y, line):
    chance = jnp.clip(jax.nn.sigmoid(mean), 1e-7, 1 - 1e-7)
    return jnp.log(jnp.where(y == 1, chance, 1 - chance)) - scale**2


def own_sum(mean, scale, x, y, line):
    one, other = dist.Normal(mean, scale).log_prob(y), dist.Normal(-mean, 2 * scale).log_prob(y)
    return jnp.maximum(one, other) + jnp.log1p(jnp.exp(-jnp.abs(one - other)))


SMOOTH = {
    "Huber's loss": lambda: factored(huber),
    "squared hinge": lambda: factored(squared_hinge, y="binary"),
    "clipped probabilities": lambda: factored(clipped, y="binary"),
    "a sum of exponentials by hand": lambda: factored(own_sum),
    "a rate kept from overflow": lambda: observed(lambda mean, scale: dist.Poisson(jnp.exp(jnp.clip(mean, -20, 20)))),
    "softplus": lambda: observed(lambda mean, scale: dist.Normal(jax.nn.softplus(mean), scale)),
}


@pytest.mark.parametrize("name", quick(SMOOTH, ["Huber's loss", "softplus"]))
def test_branches_that_join_smoothly_are_let_pass(name):
    with x64():
        assert kink(with_draws(SMOOTH[name](), [0.4, 1.2, -0.3])) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", families.FAMILIES)
def test_no_family_that_people_use_is_refused(name):
    with x64():
        assert kink(with_draws(families.model_of(name))) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(shipped()))
def test_shipped_programs_are_smooth(name):
    """So that those that are made by `adapt` need not be looked at."""
    with x64():
        model = load(name)
        assert kink(with_draws(replace(model, smooth=False))) is None


def test_a_prior_may_have_a_kink():
    def program(y):
        mean = numpyro.sample("mean", dist.Laplace(0, 1))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.StudentT(4.0, mean, 1.0), obs=y)

    with x64():
        assert kink(with_draws(from_numpyro(program, {"y": ()}))) is None
