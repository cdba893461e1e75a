"""Densities that other software evaluates: here NumPy, written out by hand as Stan would evaluate its program."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parts import slow_then_large

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_density, load
from bayesrecon.models.density import from_callback
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64

pytestmark = pytest.mark.usefixtures("hardly_optimised")

SHAPES = {"beta": (2,), "sigma": ()}
RECORD = {"mom_iq": (), "kid_score": ()}
POSITIVE = {"sigma": "positive"}
THETA, RECORD_AT = np.array([1.0, 0.5, 0.3]), {"mom_iq": 100.0, "kid_score": 80.0}


def kidscore(theta, data):
    """posteriordb's regression with its half-Cauchy scale, and the Jacobian of the logarithm."""
    x, y = data["mom_iq"], data["kid_score"]
    scale = np.exp(theta[2])
    e, u = (y - theta[0] - theta[1] * x) / scale, (scale / 2.5) ** 2
    value = theta[2] - np.log1p(u) - 0.5 * e @ e - len(y) * theta[2]
    return value, np.array([e.sum() / scale, (e * x).sum() / scale, 1 - 2 * u / (1 + u) + e @ e - len(y)])


def plain(records):
    return records


def never_empty(records):
    if not len(records["mom_iq"]):
        raise ValueError("N is 0, but must be greater than or equal to 1")
    return records


def written_twice(with_records):
    return from_density(kidscore, SHAPES, RECORD, with_records, support=POSITIVE), load("kidscore_momiq")


@pytest.fixture(scope="module", params=[plain, never_empty])
def both(request):
    return written_twice(request.param)


def test_record_terms_and_the_prior_are_those_of_the_program(both):
    def derivatives(model):
        def term(t):
            return model.log_lik(t, RECORD_AT)

        def prior(t):
            return model.log_prior(t) + model.log_det(t)

        at = jnp.asarray(THETA)
        found = jax.jit(lambda t: (term(t) - term(0 * t), jax.grad(term)(t), jax.grad(prior)(t), jax.hessian(term)(t)))
        return found(at)

    with x64():
        mine, twin = map(derivatives, both)
    for one, other, precision in zip(mine, twin, (1e-11, 1e-11, 1e-11, 1e-6), strict=True):
        # Second derivatives are differences, of steps of 1e-3 in a logarithm.
        np.testing.assert_allclose(one, other, rtol=precision, atol=1e-11)


@pytest.mark.parametrize("with_records", slow_then_large(never_empty, plain))
def test_recovered_as_from_the_program_written_in_numpyro(with_records, kidiq):
    """From 100 draws: the density is evaluated for each record at each of them."""
    at = np.asarray(kidiq.theta)[::40]
    draws = {"beta": at[None, :, :2], "sigma": np.exp(at[None, :, 2])}
    # A density does not say that its errors are normal, nor draw responses: then no likelihoods next to it are tried.
    both = (replace(model, simulate=None, gaussian=None) for model in written_twice(with_records))
    mine, twin = (bayesrecon.recover(from_draws(draws, model)).to_dataframe() for model in both)
    assert list(mine.index) == list(twin.index)
    columns = ["estimate", "se", "lower", "upper", "visibility"]
    np.testing.assert_allclose(mine[columns].astype(float), twin[columns].astype(float), rtol=1e-6)
    assert list(mine["verdict"]) == list(twin["verdict"]) == ["determined"] * 6


def test_whole_numbers_arrive_as_integers():
    seen = []

    def rates(theta, y):
        seen.append(y.dtype)
        rate = np.exp(theta[0])
        return y.sum() * theta[0] - len(y) * rate - 0.5 * theta[0] ** 2, [y.sum() - len(y) * rate - theta[0]]

    from_density(rates, {"log_rate": ()}, {"y": ()}, lambda records: records["y"], domain={"y": "count"})
    assert set(seen) == {np.dtype(int)}


def test_nothing_is_differentiated_in_the_data(both):
    density = both[0]
    with x64(), pytest.raises(BayesreconError, match="needs derivatives of the density"):
        jax.grad(lambda y: density.log_lik(jnp.asarray(THETA), {"mom_iq": 100.0, "kid_score": y}))(80.0)


def test_there_are_no_third_derivatives():
    f = from_callback(lambda theta, z: ((theta**3).sum(axis=1), 3 * theta**2))

    def second(t):
        return jax.jvp(jax.grad(lambda s: f(s, {})), (t,), (jnp.ones(1),))[1][0]

    with x64():
        assert float(second(jnp.array([2.0]))) == pytest.approx(12, rel=1e-6)
        with pytest.raises(BayesreconError, match="third derivatives"):
            jax.jvp(second, (jnp.array([2.0]),), (jnp.ones(1),))


def centred(theta, data):
    y = data["kid_score"] - (data["kid_score"].mean() if len(data["kid_score"]) else 0)
    return kidscore(theta, {**data, "kid_score": y})


def without_jacobian(theta, data):
    value, slope = kidscore(theta, data)
    return value - theta[2], slope


def refusing(theta, data):
    raise RuntimeError("Error calling log_prob: location is nan\nand more")


@pytest.mark.parametrize(
    ("log_density", "changed", "message"),
    [
        (centred, {}, "not a product over records"),
        (without_jacobian, {}, "gradient of the log density in coordinate 3"),
        (refusing, {}, "cannot be used: RuntimeError: Error calling log_prob: location is nan$"),
        (lambda t, d: kidscore(t, d)[0], {}, "log density of one record cannot be used"),
        (lambda t, d: (0.0, np.zeros(2)), {}, r"a gradient of shape \(2,\), expected \(\) and \(3,\)"),
        (kidscore, {"dataset": lambda records: records["iq"]}, "dataset fails: KeyError: 'iq'"),
        (kidscore, {"support": {"sigma": "simplex"}}, "supply prepare="),
        (kidscore, {"support": {"sgima": "positive"}}, "did you mean sigma"),
        (kidscore, {"domain": {"kid_scores": "positive"}}, "did you mean kid_score"),
        (kidscore, {"parameters": {}}, "no posterior"),
        (kidscore, {"record": {}}, "nothing to recover"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(log_density, changed, message):
    given = {"parameters": SHAPES, "record": RECORD, "dataset": plain, "support": POSITIVE}
    with pytest.raises(BayesreconError, match=message) as error:
        from_density(log_density, **{**given, **changed})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("support", "value", "theta"),
    [
        ("real", 2.0, 2.0),
        ("positive", 2.0, np.log(2)),
        ((0.0, 1.0), 0.25, np.log(1 / 3)),
        ((1.0, np.inf), 3.0, np.log(2)),
        ((-np.inf, 1.0), -1.0, np.log(2)),
    ],
)
def test_coordinates_are_stans(support, value, theta):
    def flat(t, data):
        return -0.5 * t @ t, -t

    model = from_density(flat, {"a": ()}, {"y": ()}, lambda records: records, support={"a": support})
    with x64():
        assert float(model.unconstrain({"a": value})[0]) == pytest.approx(theta)
