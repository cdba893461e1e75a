"""Models of the largest margin, and the ReLU that is solved for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesrecon
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_loss, from_margin, smoothed_relu
from bayesrecon.posteriors import dirac, train_network
from bayesrecon.precision import x64

RECORD, DOMAIN = {"x": (2,), "y": ()}, {"x": (-1.0, 1.0)}


def output(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"]


def start(rng, width=6):
    return {"w": rng.normal(size=(2, width)), "b": rng.normal(size=width), "v": rng.normal(size=width)}


@pytest.fixture(scope="module")
def decayed():
    """Trained with a logistic loss and weight decay, neither of which the margin's model knows."""
    rng = np.random.default_rng(0)
    begin = start(rng)
    model = from_loss(
        output,
        lambda out, y: jax.nn.softplus(out) - y * out,
        lambda p: 0.05 * sum(jnp.sum(v**2) for v in p.values()),
        params=begin,
        record=RECORD,
        domain=DOMAIN | {"y": [0, 1]},
    )
    data = {"x": rng.uniform(-1, 1, (4, 2)), "y": np.array([0, 1, 0, 1])}
    params = {k: np.asarray(v) for k, v in _params(train_network(model, begin, data).release).items()}
    return params, data


def _params(release):
    return release.model.constrain(release.theta[0])


@pytest.mark.slow
def test_a_network_with_weight_decay_satisfies_the_conditions_of_the_margin(decayed):
    """With the multipliers `sigmoid(-s f) / decay`, from the loss's own slope."""
    params, data = decayed
    model = from_margin(output, params=params, record=RECORD, domain=DOMAIN)
    with x64():
        release = dirac(model, params)
        margins = [(2 * y - 1) * output(params, x) for x, y in zip(data["x"], data["y"], strict=True)]
        weights = 1 / (1 + np.exp(np.array(margins))) / 0.1
        left = np.asarray(total_score(model, release.theta[0], data, weights))
    assert np.linalg.norm(left) < 1e-7 * np.linalg.norm(release.theta[0])


@pytest.mark.slow
def test_records_with_the_wrong_label_would_need_negative_multipliers(decayed):
    """The constraint bites: with labels turned around nothing cancels, and the best multipliers are zero."""
    params, data = decayed
    model = from_margin(output, params=params, record=RECORD, domain=DOMAIN)
    release = dirac(model, params)
    import scipy.optimize

    with x64():
        right, wrong = (
            scipy.optimize.nnls(
                np.asarray(gradients(model, release.theta[0], data | {"y": y})).T, np.asarray(release.theta[0])
            )
            for y in (data["y"], 1 - data["y"])
        )
    size = np.linalg.norm(release.theta[0])
    assert right[1] < 1e-6 * size
    assert right[0].min() > 0
    assert wrong[1] == pytest.approx(size)
    found = bayesrecon.reconstruct(release, attack=bayesrecon.GradientMatching(n=6, restarts=2, steps=60))
    assert found.pseudo.weights.min() >= 0


def test_the_smoothed_slope_is_differentiated_itself():
    relu, step = smoothed_relu(5.0), smoothed_relu(float("inf"))
    z = np.linspace(-2, 2, 9)
    with x64():
        np.testing.assert_allclose(jax.vmap(relu)(z), np.maximum(z, 0))
        s = 1 / (1 + np.exp(-5 * z))
        np.testing.assert_allclose(jax.vmap(jax.grad(relu))(z), s, rtol=1e-6)
        np.testing.assert_allclose(jax.vmap(jax.grad(jax.grad(relu)))(z), 5 * s * (1 - s), rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(jax.vmap(jax.grad(step))(z), (np.sign(z) + 1) / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: smoothed_relu(0.0), "sharpness=0.0"),
        (
            lambda: from_margin(output, params=start(np.random.default_rng(0)), record=RECORD, domain={"y": [0, 1, 2]}),
            "two classes",
        ),
        (
            lambda: from_margin(output, params=start(np.random.default_rng(0)), record={"x": (2,), "y": (2,)}),
            "two classes",
        ),
    ],
)
def test_what_is_no_margin_is_refused(call, message):
    with pytest.raises(BayesreconError, match=message):
        call()
