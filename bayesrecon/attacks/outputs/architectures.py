"""Networks of classifiers and decoders."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError

Tree = Any
"""A tree of arrays of JAX: nested dictionaries, lists and tuples."""


@dataclass(frozen=True)
class Network:
    """The functions of a network, without its parameters.

    Attributes:
        init: function `key -> (params, state)`, two trees of arrays. The state has no gradient (running means).
        apply: function `(params, state, x, training) -> (outputs, state)` for records x `(M, p)`.
        name: name with the sizes, which identifies the network in a checkpoint.
    """

    init: Callable[[jax.Array], tuple[Tree, Tree]]
    apply: Callable[[Tree, Tree, Array, bool], tuple[Array, Tree]]
    name: str


def perceptron(widths: Sequence[int], *, sigmoid: bool = False) -> Network:
    """Dense layers with rectifiers between them, in single precision. Weights are initialised as in He et al. (2015).

    Args:
        widths: widths of the input, the layers and the output.
        sigmoid: whether the output goes through a sigmoid, as for pixels.
    """
    widths = tuple(int(w) for w in widths)
    if len(widths) < 2 or min(widths) < 1:
        raise BayesreconError(f"widths {widths}: expected at least those of the input and the output, each 1 or more")

    def init(key: jax.Array) -> tuple[Tree, Tree]:
        layers = []
        for key_of_layer, inputs, outputs in zip(
            jax.random.split(key, len(widths) - 1), widths[:-1], widths[1:], strict=True
        ):
            weights = jax.random.normal(key_of_layer, (inputs, outputs), jnp.float32) * (2 / inputs) ** 0.5
            layers.append({"weights": weights, "bias": jnp.zeros(outputs, jnp.float32)})
        return layers, ()

    def apply(params: Tree, state: Tree, x: Array, training: bool) -> tuple[Array, Tree]:
        for i, layer in enumerate(params):
            x = x @ layer["weights"] + layer["bias"]
            if i < len(params) - 1:
                x = jax.nn.relu(x)
        return (jax.nn.sigmoid(x) if sigmoid else x), state

    return Network(init, apply, f"perceptron {'-'.join(map(str, widths))}{' sigmoid' if sigmoid else ''}")
