"""Small networks, trained."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.attacks.matching.equations import Equations
from bayesrecon.knowledge import check_knowledge
from bayesrecon.models import from_loss
from bayesrecon.posteriors import train_network

WIDTH, CLASSES = 6, 3


def output(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] + params["c"]


def softmax(out, y):
    """The loss of a class."""
    return jax.nn.logsumexp(out) - out[y]


def decay_of(params, strength):
    return 0.5 * strength * sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(params))


def start(rng, outputs=()):
    return {
        k: rng.normal(size=s) for k, s in {"w": (2, WIDTH), "b": WIDTH, "v": (WIDTH, *outputs), "c": outputs}.items()
    }


@functools.cache
def events(strength=0.05):
    """Log intensity of events on a square: every record has the gradient one in the last bias, so n is determined."""
    middle = (np.arange(12) + 0.5) / 6 - 1
    grid = np.stack(np.meshgrid(middle, middle), -1).reshape(-1, 2)

    def regulariser(params):
        return 4 * jnp.mean(jnp.exp(jax.vmap(lambda z: output(params, z))(grid))) + decay_of(params, strength)

    return from_loss(
        lambda params: params,
        lambda params, x: -output(params, x),
        regulariser,
        params=start(np.random.default_rng(0)),
        record={"x": (2,)},
        response="x",
        domain={"x": (-1.0, 1.0)},
        name="events",
    )


@functools.cache
def classifier():
    """Softmax, whose scores have mean zero under the model itself: n is not determined."""
    return from_loss(
        output,
        softmax,
        lambda params: decay_of(params, 0.1),
        params=start(np.random.default_rng(0), (CLASSES,)),
        record={"x": (2,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": list(range(CLASSES))},
        name="<softmax>",
    )


@functools.cache
def trained(kind, count, seed=0):
    rng = np.random.default_rng(seed)
    data = {"x": np.clip(rng.normal([0.2, -0.3], 0.35, (count, 2)), -0.95, 0.95)}
    if kind == "events":
        found = train_network(events(), start(rng), data)
    else:
        data["y"] = (data["x"][:, 0] > 0.2).astype(int) + (data["x"][:, 1] > -0.3)
        found = train_network(classifier(), start(rng, (CLASSES,)), data)
    assert found.gradient <= 1e-10
    return found.release, data


def problem_of(release, one=False, total=None, strength_known=True):
    return Equations.of(release, check_knowledge(release.model, total=total), one, strength_known)
