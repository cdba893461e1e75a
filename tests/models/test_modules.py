"""Networks of Equinox and Flax as they are: a record deleted from one is reconstructed and told among candidates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayesrecon
from bayesrecon import HRec
from bayesrecon.models import from_loss
from bayesrecon.posteriors import train_network

pytestmark = pytest.mark.slow
SIZE, ROW = 120, 3


def equinox_module():
    equinox = pytest.importorskip("equinox", reason="Equinox is not installed")
    module = equinox.nn.MLP(2, 2, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    return module, lambda module, x: module(x), lambda m: equinox.filter(m, equinox.is_array)


def flax_linen():
    linen = pytest.importorskip("flax.linen", reason="Flax is not installed")
    module = linen.Sequential([linen.Dense(4), jnp.tanh, linen.Dense(2)])
    return module.init(jax.random.key(0), jnp.zeros(2)), module.apply, lambda p: p


def flax_nnx():
    nnx = pytest.importorskip("flax.nnx", reason="Flax is not installed")
    rngs = nnx.Rngs(0)
    state = {"one": nnx.Linear(2, 4, rngs=rngs), "two": nnx.Linear(4, 2, rngs=rngs)}
    params = {k: nnx.to_pure_dict(nnx.state(v)) for k, v in state.items()}

    def apply(p, x):
        hidden = jnp.tanh(x @ p["one"]["kernel"] + p["one"]["bias"])
        return hidden @ p["two"]["kernel"] + p["two"]["bias"]

    return params, apply, lambda p: p


def convolution():
    linen = pytest.importorskip("flax.linen", reason="Flax is not installed")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            seen = jnp.tanh(linen.Conv(2, (2, 2))(x.reshape(2, 2, 1)))
            return linen.Dense(2)(seen.reshape(-1))

    module = Net()
    return module.init(jax.random.key(0), jnp.zeros(4)), module.apply, lambda p: p


@pytest.mark.parametrize("build", [equinox_module, flax_linen, flax_nnx, convolution])
def test_a_deletion_is_undone(build):
    params, apply, arrays = build()
    width = 4 if build is convolution else 2
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, (2 * SIZE, width))
    y = (x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=2 * SIZE) > 0).astype(int)
    data, public = ({"x": x[part], "y": y[part]} for part in (slice(SIZE), slice(SIZE, None)))
    model = from_loss(
        apply,
        lambda out, label: jax.nn.logsumexp(out) - out[label],
        lambda p: 0.25 * sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(arrays(p))),
        params=params,
        record={"x": (width,), "y": ()},
        domain={"x": (-2.0, 2.0), "y": [0, 1]},
    )
    before = train_network(model, params, data).release
    held = {k: np.asarray(v) for k, v in model.constrain(before.theta[0]).items()}
    after = train_network(model, held, {k: np.delete(v, ROW, axis=0) for k, v in data.items()}).release
    pair = bayesrecon.deletion(before, after)
    found = bayesrecon.reconstruct(pair, attack=HRec(public=public), total=SIZE)
    assert found.record["y"] == y[ROW]
    assert found.probability > 0.5
    assert np.linalg.norm(found.record["x"] - x[ROW]) < 0.5
    candidates = {k: v[:20] for k, v in data.items()}
    assert bayesrecon.infer_deletion(pair, candidates, public=public, total=SIZE).ranking[0] == ROW
