"""Programs of one's own: what `from_numpyro` accepts, and what it makes of the fields."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import pytest
from families import FAMILIES
from numpyro import distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.distributions import constraints, transforms
from programs import XY, agrees_with_numpyro, observe, plain, slope
from scipy import stats

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_numpyro
from bayesrecon.models.adapter import adapt
from bayesrecon.precision import x64

pytestmark = pytest.mark.small


def units_by_a_field(unit, y, units):
    b = slope(dist.Normal(0, 1).expand([units]).to_event(1))
    observe(b[unit - 1], y)


def units_in_a_plate(unit, y):
    with numpyro.plate("units", 3):
        b = slope()
    observe(b[unit], y)


def factor_per_record(x, y):
    b = slope()
    with numpyro.plate("records", x.shape[0]):
        numpyro.factor("fit", -((y - b * x) ** 4))


def soft_constraint(x, y):
    b = slope(dist.Normal(0, 1).expand([3]).to_event(1))
    numpyro.sample("zero", dist.Normal(b.sum(), 0.01), obs=0.0)
    observe(b[0] + b[1] * x + b[2] * x**2, y)


def scaled_and_masked(x, y):
    b = slope()
    with handlers.scale(scale=0.5), handlers.mask(mask=x > 1):
        observe(b * x, y)


def two_observed_fields(x, y):
    b = slope()
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("x", dist.Normal(b, 2), obs=x)
        numpyro.sample("y", dist.Poisson(jnp.exp(b * x)), obs=y)


def binomial(trials, y):
    b = slope()
    with numpyro.plate("records", trials.shape[0]):
        numpyro.sample("y", dist.Binomial(trials, logits=b), obs=y)


def vector_field(x, y):
    b = slope(dist.Normal(0, 1).expand([2, 3]).to_event(2))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ b, 1).to_event(1), obs=y)


def prior_of(law):
    def program(x, y):
        observe(jnp.sum(jnp.arange(1.0, 1 + b.size) * b) * x if jnp.ndim(b := slope(law())) else b * x, y)

    return program


FLAT = dist.ImproperUniform


@pytest.mark.parametrize(
    "program, options, coordinates, bounds",
    [
        (
            units_by_a_field,
            {"record": {"unit": (), "y": ()}, "domain": {"unit": [1, 2, 3, 4]}, "constants": {"units": 4}},
            ("b[1]", "b[2]", "b[3]", "b[4]"),
            (-math.inf, math.inf),
        ),
        (
            units_in_a_plate,
            {"record": {"unit": (), "y": ()}, "domain": {"unit": [0, 1, 2]}},
            ("b[1]", "b[2]", "b[3]"),
            (-math.inf, math.inf),
        ),
        (factor_per_record, {}, ("b",), (-math.inf, math.inf)),
        (soft_constraint, {}, ("b[1]", "b[2]", "b[3]"), (-math.inf, math.inf)),
        (scaled_and_masked, {}, ("b",), (-math.inf, math.inf)),
        (two_observed_fields, {}, ("b",), (-math.inf, math.inf)),
        (
            binomial,
            {"record": {"trials": (), "y": ()}, "domain": {"trials": list(range(9, 13))}},
            ("b",),
            (-math.inf, math.inf),
        ),
        (
            vector_field,
            {"record": {"x": (2,), "y": (3,)}},
            ("b[1,1]", "b[1,2]", "b[1,3]", "b[2,1]", "b[2,2]", "b[2,3]"),
            (-math.inf, math.inf),
        ),
        (prior_of(lambda: FLAT(constraints.real, (), ())), {}, ("b",), (-math.inf, math.inf)),
        (prior_of(lambda: FLAT(constraints.positive, (), ())), {}, ("b",), (0.0, math.inf)),
        (prior_of(lambda: dist.HalfCauchy(1.0)), {}, ("b",), (0.0, math.inf)),
        (prior_of(lambda: dist.Uniform(-2.0, 3.0)), {}, ("b",), (-2.0, 3.0)),
        (prior_of(lambda: dist.TruncatedNormal(0.0, 1.0, high=1.0)), {}, ("b",), (-math.inf, 1.0)),
        (prior_of(lambda: dist.Beta(2.0, 3.0)), {}, ("b",), (0.0, 1.0)),
        (prior_of(lambda: dist.Dirichlet(jnp.array([1.0, 2.0, 3.0]))), {}, ("b[1]", "b[2]"), None),
        (prior_of(lambda: FLAT(constraints.ordered_vector, (), (3,))), {}, ("b[1]", "b[2]", "b[3]"), None),
        (
            prior_of(
                lambda: dist.TransformedDistribution(
                    dist.Normal(0, 1).expand([2]).to_event(1), transforms.OrderedTransform()
                )
            ),
            {},
            ("b[1]", "b[2]"),
            None,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_accepted_programs_agree_with_numpyro(program, options, coordinates, bounds):
    model = from_numpyro(program, **{"record": XY, **options})
    assert model.coordinates == coordinates
    assert model.parameters[0].bounds == bounds
    agrees_with_numpyro(model)
    if bounds is None:
        with pytest.raises(BayesreconError, match="support of b is not a box; use coordinates='unconstrained'"):
            _ = model.in_constrained_coordinates


def family(law):
    def program(x, y):
        b = slope()
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", law(b + 0 * x), obs=y)

    return program


LAWS = {
    "normal": (lambda b: dist.Normal(b, 1), [-3.5, 2.0], [math.inf]),
    "gamma": (lambda b: dist.Gamma(jnp.exp(b), 1), [0.5, 40.0], [-0.1]),
    "beta": (lambda b: dist.Beta(jnp.exp(b), 1), [0.25, 0.75], [-0.1, 1.1]),
    "bernoulli": (lambda b: dist.Bernoulli(logits=b), [0, 1], [0.5, 2, -1]),
    "poisson": (lambda b: dist.Poisson(jnp.exp(b)), [0, 3, 99], [-1, 0.5]),
    "binomial": (lambda b: dist.Binomial(5, logits=b), [0, 5], [-1, 0.5, 6]),
    "categorical": (lambda b: dist.Categorical(logits=b[..., None] * jnp.arange(3)), [0, 1, 2], [-1, 0.5, 3]),
}


@pytest.mark.parametrize("law", LAWS)
def test_observed_fields_default_to_the_support(law):
    make, inside, outside = LAWS[law]
    model = adapt(family(make), XY)
    assert model.fields["y"].domain.contains(np.array(inside, float)).all()
    assert not model.fields["y"].domain.contains(np.array(outside, float)).any()
    assert model.fields["x"].domain.contains(np.array([-7.5, 7.5])).all()


def test_counts_with_a_total_are_drawn_so():
    """And a density that vanishes at the ends of its interval can be checked."""

    def program(y):
        share = numpyro.sample("share", dist.Dirichlet(jnp.ones(3)))
        with numpyro.plate("records", y.shape[0]):
            numpyro.sample("y", dist.Multinomial(total_count=4, probs=share), obs=y)

    domain = from_numpyro(program, {"y": (3,)}).fields["y"].domain
    assert (domain.kind, domain.high, domain.total) == ("integer", 4.0, 4)
    assert from_numpyro(FAMILIES["beta"].program, XY).fields["y"].domain.high == 1.0


@pytest.mark.parametrize(
    "law", [law if law in ("beta", "categorical") else pytest.param(law, marks=pytest.mark.slow) for law in LAWS]
)
def test_densities_of_observed_fields_are_numpyros(law):
    agrees_with_numpyro(from_numpyro(family(LAWS[law][0]), XY))


def test_from_numpyro_leaves_the_users_precision():
    before = jax.config.jax_enable_x64
    model = from_numpyro(plain, XY)
    assert jax.config.jax_enable_x64 is before
    assert model.name == "plain"
    assert from_numpyro(plain, XY, name="other").name == "other"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [float, np.int64, np.float32])
def test_index_fields_reach_the_program_as_integers(kind):
    """Known designs and candidates come as floating-point numbers; `b[unit]` takes them without `.astype(int)`."""
    model = from_numpyro(units_in_a_plate, {"unit": (), "y": ()}, domain={"unit": [0, 1, 2]})
    theta = np.arange(3.0)
    found = [model.log_lik(theta, {"unit": np.asarray(unit, kind), "y": 0.5}) for unit in range(3)]
    np.testing.assert_allclose(found, dist.Normal(theta, 1.0).log_prob(0.5), rtol=1e-6)
    batch = {"unit": np.arange(3).astype(kind), "y": np.zeros(3)}
    drawn = model.simulate(model.constrain(theta), batch, jax.random.key(0))
    assert drawn["y"].shape == (3,)
    handlers.seed(model.program, 0)(**batch)


def scanned_autoregression(y):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]))

    def step(before, value):
        numpyro.sample("y", dist.Normal(b[0] * before[0] + b[1] * before[1], 1), obs=value)
        return (value, before[0]), None

    scan(step, (y[1], y[0]), y[2:])


def autoregression_with_inputs(y, x):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([3]))
    numpyro.sample("y", dist.Normal(b[0] * y[2:-1] + b[1] * y[:-3] + b[2] * x[3:], 1), obs=y[3:])


def stationary_start(y):
    b = numpyro.sample("b", dist.Uniform(-1, 1).expand([1]))
    numpyro.sample("first", dist.Normal(0, 1 / jnp.sqrt(1 - b[0] ** 2)), obs=y[0])
    numpyro.sample("y", dist.Normal(b[0] * y[:-1], 1), obs=y[1:])


SERIES = {
    scanned_autoregression: (["y", "y_lag1", "y_lag2"], lambda b, y, x: (y[2:], b[0] * y[1:-1] + b[1] * y[:-2])),
    autoregression_with_inputs: (
        ["y", "x", "y_lag1", "y_lag3"],
        lambda b, y, x: (y[3:], b[0] * y[2:-1] + b[1] * y[:-3] + b[2] * x[3:]),
    ),
    stationary_start: (["kind", "y_first", "y", "y_lag1"], lambda b, y, x: (y[1:], b[0] * y[:-1])),
}


@pytest.mark.slow
@pytest.mark.parametrize("program", SERIES)
def test_series_are_records_of_windows(program):
    """The terms of windows are the normal densities of SciPy, whatever the window holds."""
    fields, regression = SERIES[program]
    names = {"y": (), "x": ()} if program is autoregression_with_inputs else {"y": ()}
    model = from_numpyro(program, names)
    assert list(model.fields) == fields
    y, x = np.random.default_rng(0).normal(size=(2, 9))
    series = {"y": y, "x": x}
    lag = max((int(k.split("lag")[1]) for k in fields if "lag" in k), default=0)
    places = {k: (k.split("_lag")[0], int(k.split("lag")[1]) if "lag" in k else 0) for k in fields}
    records = {k: series[n][lag - back : 9 - back] for k, (n, back) in places.items() if n in series}
    if program is stationary_start:
        records |= {"kind": np.full(8, 2.0), "y_first": np.full((8, 1), 0.3)}
    with x64():
        b = np.linspace(0.2, 0.5, model.dimension)
        params = {"b": jnp.asarray(b)}
        value, location = regression(b, y, x)
        terms = jax.vmap(model.log_lik_at, (None, 0))(params, {k: jnp.asarray(v) for k, v in records.items()})
        np.testing.assert_allclose(terms, stats.norm.logpdf(value, location), atol=1e-9)
        if program is stationary_start:
            first = {"kind": 1.0, "y_first": y[:1], "y": 0.0, "y_lag1": 0.0}
            scale = 1 / np.sqrt(1 - b[0] ** 2)
            np.testing.assert_allclose(model.log_lik_at(params, first), stats.norm.logpdf(y[0], 0, scale), atol=1e-9)


@pytest.mark.slow
def test_lagged_products_of_a_series_are_recovered():
    """NUTS draws of an autoregression give the totals of the regression on the value before."""
    rng, y = np.random.default_rng(2), np.zeros(120)
    for n in range(1, 120):
        y[n] = 0.5 * y[n - 1] + rng.normal()

    def program(y):
        a, b, s = (numpyro.sample(n, dist.Normal(0, 5)) for n in "abs")
        numpyro.sample("y", dist.Normal(a + b * y[:-1], jnp.exp(s)), obs=y[1:])

    model = from_numpyro(program, {"y": ()})
    records = {"y": y[1:], "y_lag1": y[:-1]}
    found = bayesrecon.recover(bayesrecon.posteriors.nuts(model, records), total=119)
    product = np.cov(y[1:], y[:-1], ddof=0)[0, 1]
    assert found["cov(y,y_lag1)"].verdict != "undetermined"
    assert abs(found["cov(y,y_lag1)"].estimate - product) < 4 * found["cov(y,y_lag1)"].se + 1e-6
