"""Models from losses."""

from collections import OrderedDict

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from estimators import LINE, X, network
from sklearn.linear_model import Ridge

import bayesrecon
from bayesrecon.errors import BayesreconError
from bayesrecon.models import from_loss, load
from bayesrecon.posteriors import dirac, from_sklearn
from bayesrecon.precision import x64


def squared(output, y):
    return (output - y) ** 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": "hinge"}, "expected squared"),
        ({"features": 0}, "positive whole number"),
        ({"loss": "logistic", "outputs": 2}, "one output"),
        ({"loss": "softmax"}, "one per class"),
        ({"penalty": -1.0}, "non-negative"),
    ],
)
def test_settings_of_linear_predictor(settings, message):
    with pytest.raises(BayesreconError, match=message):
        load("linear_predictor", **settings)


def test_a_network_from_its_loss():
    params, model = network()
    assert [p.name for p in model.parameters] == ["hidden/0/b", "hidden/0/w", "out"]
    moved = jax.tree_util.tree_map(lambda v: v + 0.3, params)
    release = dirac(model, moved)
    with x64():
        h = np.tanh(X[0] @ moved["hidden"][0]["w"] + moved["hidden"][0]["b"])
        expected = -0.5 * (h @ moved["out"] - 2.0) ** 2
        found = model.log_lik(release.theta[0], {"x": X[0], "y": 2.0})
        assert float(found) == pytest.approx(expected, rel=1e-12)
        assert float(model.log_prior(release.theta[0])) == pytest.approx(-0.05 * 0.09 * 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": lambda out, y: jnp.stack([out, y])}, "it must be one number"),
        ({"regulariser": lambda p: p["w"]}, "regulariser has shape"),
        ({"apply": lambda p, x: x @ p["w"][:2]}, "loss of one record cannot be evaluated"),
        ({"response": "z"}, "not a field"),
        ({"params": {}}, "no arrays"),
        ({"domain": {"u": "real"}}, "'u' is not a field"),
    ],
)
def test_losses_that_cannot_be_used(change, message):
    given = {"apply": lambda p, x: x @ p["w"], "loss": lambda out, y: (out - y) ** 2, "params": {"w": np.zeros(3)}}
    with pytest.raises(BayesreconError, match=message):
        from_loss(**({**given, "record": {"x": (3,), "y": ()}} | change))


@pytest.mark.slow
def test_what_a_trained_parameter_determines():
    """The normal equations `X'y - X'X b = penalty b`: as many features as parameters, and the totals they fix."""
    release = from_sklearn(Ridge(3.0).fit(X, LINE))
    assert bayesrecon.diagnose(release).rank == 4


def test_labels_reach_the_loss_as_integers():
    model = from_loss(
        lambda p, x: x * p["w"],
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        params={"w": np.zeros(3)},
        record={"x": (), "y": ()},
        domain={"y": [0, 1, 2]},
    )
    assert float(model.log_lik(np.arange(3.0), {"x": 0.0, "y": 2.0})) == pytest.approx(-np.log(3))


@jax.tree_util.register_pytree_node_class
class Module:
    """As Equinox has them: a tree that also holds functions and sizes."""

    def __init__(self, weight, activation, width):
        self.weight, self.activation, self.width = weight, activation, width

    def tree_flatten(self):
        return (self.weight, self.activation, self.width), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    def __call__(self, x):
        return self.activation(x @ self.weight).sum()


def test_modules_hold_more_than_arrays():
    module = Module(np.arange(6.0).reshape(3, 2), jnp.tanh, None)
    model = from_loss(lambda m, x: m(x), squared, params=module, record={"x": (3,), "y": ()})
    release = dirac(model, module)
    assert release.theta.tolist() == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]
    one = {"x": np.ones(3), "y": 2.0}
    with x64():
        assert float(model.log_lik(release.theta[0], one)) == pytest.approx(-((module(one["x"]) - 2) ** 2))


def test_a_state_dict_is_as_good():
    """Tensors of another library are arrays to NumPy."""

    class Tensor:
        def __init__(self, values):
            self.values, self.shape, self.dtype = np.asarray(values), np.shape(values), "torch.float32"

        def __array__(self, dtype=None, copy=None):
            return np.asarray(self.values, dtype)

    state = OrderedDict({"0.weight": Tensor([[1.0, 2.0]]), "0.bias": Tensor([3.0])})
    model = from_loss(
        lambda p, x: (p["0.weight"] @ x + p["0.bias"])[0], squared, params=state, record={"x": (2,), "y": ()}
    )
    assert dirac(model, state).theta.tolist() == [[1.0, 2.0, 3.0]]
    assert model.coordinates == ("0.weight[1,1]", "0.weight[1,2]", "0.bias[1]")
