"""Which programs are taken for linear regressions, and that those are."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from bayesrecon.models import load
from bayesrecon.models.adapter import adapt
from bayesrecon.models.recognition import gaussian_predictor
from bayesrecon.precision import x64
from bayesrecon.types import GaussianPredictor

REAL = dist.Normal(0, 2)


@pytest.fixture(autouse=True)
def double():
    """As inside a verb."""
    with x64():
        yield


def regression(location, scale, sites, wrap=lambda law: law):
    """The predictor of `y ~ Normal(location, scale)` with functions of sites and fields."""

    def program(x, y):
        values = {name: numpyro.sample(name, law) for name, law in sites.items()}
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", wrap(dist.Normal(location(values, x), scale(values, x))), obs=y)

    return adapt(program, {"x": (), "y": ()}).gaussian


TWO = {"a": REAL, "b": REAL, "s": dist.HalfNormal(1.0)}


def line(v, x):
    return v["a"] + v["b"] * x


@pytest.mark.slow
@pytest.mark.parametrize(
    "location, scale, sites, power",
    [
        (line, lambda v, x: v["s"], TWO, 1.0),
        (lambda v, x: 3 - v["a"] / 2 + x * v["b"] * 1.5, lambda v, x: v["s"], TWO, 1.0),
        (lambda v, x: jnp.where(x > 0, v["a"], v["b"]), lambda v, x: v["s"], TWO, 1.0),
        (lambda v, x: v["a"], lambda v, x: 2 * v["s"], TWO, 1.0),
        (line, lambda v, x: jnp.sqrt(v["s"]), TWO, 0.5),
        (line, lambda v, x: 1 / jnp.sqrt(v["s"]), TWO, -0.5),
        (line, lambda v, x: v["s"] ** 0.75, TWO, 0.75),
        (line, lambda v, x: jnp.exp(v["s"]), {**TWO, "s": REAL}, 1.0),
        (line, lambda v, x: jnp.exp(v["s"]) * jnp.exp(x), {**TWO, "s": REAL}, 1.0),
        (line, lambda v, x: 1.5 + 0 * x, TWO, None),
    ],
)
def test_recognised(location, scale, sites, power):
    found = regression(location, scale, sites)
    assert (found.scale is None) == (power is None)
    assert power is None or found.power == power
    beta, records = np.array([0.3, -1.2])[: len(found.coefficients)], {"x": np.array([0.5, -2.0]), "y": np.ones(2)}
    residual, design, width = found.design(beta, records)
    values = {**dict(zip("ab", beta, strict=False)), "s": 0.0 if sites["s"] is REAL else 1.0}
    np.testing.assert_allclose(residual, 1 - np.broadcast_to(location(values, records["x"]), 2), rtol=1e-14)
    np.testing.assert_allclose(width, np.broadcast_to(scale(values, records["x"]), 2), rtol=1e-14)
    other = found.design(beta + 1, records)[0]
    np.testing.assert_allclose(other, residual - design.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize(
    "location, scale, sites",
    [
        (lambda v, x: v["a"] * v["b"] * x, lambda v, x: v["s"], TWO),
        (lambda v, x: jax.nn.relu(line(v, x)), lambda v, x: v["s"], TWO),
        (lambda v, x: jnp.clip(v["a"], -1e9, 1e9), lambda v, x: v["s"], TWO),
        (lambda v, x: jnp.where(v["a"] > 99, v["a"], v["b"]), lambda v, x: v["s"], TWO),
        (lambda v, x: x / v["a"], lambda v, x: v["s"], TWO),
        (lambda v, x: v["a"] + 0 * jnp.floor(v["b"]), lambda v, x: v["s"], TWO),
        (lambda v, x: v["s"] * x, lambda v, x: v["s"], TWO),
        (lambda v, x: v["c"] * x, lambda v, x: v["s"], {"c": dist.HalfNormal(1.0), "s": dist.HalfNormal(1.0)}),
        (line, lambda v, x: v["s"] + 0.1, TWO),
        (line, lambda v, x: v["s"] ** 0 + 0 * x, TWO),
        (line, lambda v, x: jnp.exp(2 * v["s"]), {**TWO, "s": REAL}),
        (line, lambda v, x: jnp.exp(v["s"] * x), {**TWO, "s": REAL}),
        (line, lambda v, x: v["s"] * v["t"], {**TWO, "t": dist.HalfNormal(1.0)}),
        (line, lambda v, x: v["s"], {**TWO, "s": dist.Uniform(0, 9)}),
        (lambda v, x: v["a"].sum() * x, lambda v, x: v["s"], {**TWO, "a": REAL.expand([129]).to_event(1)}),
    ],
)
def test_not_recognised(location, scale, sites):
    assert regression(location, scale, sites) is None


@pytest.mark.parametrize(
    "wrap",
    [lambda law: law.mask(law.loc < 1e9), lambda law: dist.StudentT(4, law.loc, law.scale)],
)
def test_other_laws_are_not_recognised(wrap):
    assert regression(line, lambda v, x: v["s"], TWO, wrap) is None


def test_weighted_terms_are_not_recognised():
    def program(x, y):
        a = numpyro.sample("a", REAL)
        with numpyro.plate("records", y.shape[0]), numpyro.handlers.scale(scale=2.0):
            numpyro.sample("y", dist.Normal(a * x, 1.0), obs=y)

    assert adapt(program, {"x": (), "y": ()}).gaussian is None


@pytest.mark.parametrize("name", ["kidscore_interaction", "nes", "arK"])
def test_shipped_regressions_are_what_they_state(name):
    """What a family states of a program is what is read off it."""
    model = load(name)
    stated = model.gaussian
    assert isinstance(stated, GaussianPredictor)
    rng = np.random.default_rng(0)
    shapes = {k: (20, *f.shape) for k, f in model.fields.items()}
    records = {k: model.fields[k].domain.draw(rng, shape, 1.0, 2.0) for k, shape in shapes.items()}

    def response(params, batch):
        handlers = numpyro.handlers
        seeded = handlers.substitute(handlers.seed(model.program, 0), data=params)
        sites = handlers.trace(seeded).get_trace(**batch)
        (site,) = (s for s in sites.values() if s["type"] == "sample" and s["is_observed"])
        return site["fn"].loc, jnp.broadcast_to(site["fn"].scale, site["fn"].loc.shape), site["value"]

    read = gaussian_predictor(model, response, model.constrain(np.zeros(model.dimension)), records)
    assert (read.coefficients, read.scale, read.power) == (stated.coefficients, stated.scale, stated.power)
    beta = rng.normal(size=len(read.coefficients))
    for one, other in zip(read.design(beta, records), stated.design(beta, records), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_which_shipped_models_are():
    looked_at = ("kidscore_momiq", "logistic_regression", "nes")
    assert [name for name in looked_at if load(name).gaussian] == ["kidscore_momiq", "nes"]
