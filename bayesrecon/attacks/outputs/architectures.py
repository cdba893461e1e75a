"""Networks that classifiers and decoders are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from bayesrecon.errors import BayesreconError


@dataclass(frozen=True)
class Network:
    """What a network computes, without its numbers.

    Attributes:
        init: `key -> (params, state)`, trees of arrays; state is what training sets without a gradient (running means).
        apply: `(params, state, x, training) -> (outputs, state)` of records `(M, p)`.
        name: with the sizes, so that a checkpoint knows its network.
    """

    init: Callable[[Any], tuple[Any, Any]]
    apply: Callable[[Any, Any, Any, bool], tuple[Any, Any]]
    name: str


def perceptron(widths: Sequence[int], *, sigmoid: bool = False) -> Network:
    """Dense layers with rectifiers between them, in single precision; weights begin as He et al. (2015) have them.

    Args:
        widths: widths of the input, the layers and the output.
        sigmoid: of the output, for pixels.

    Raises:
        BayesreconError: fewer than two widths, or one below 1.

    >>> net = perceptron((4, 8, 3))
    >>> params, state = net.init(jax.random.key(0))
    >>> net.apply(params, state, jnp.ones((2, 4)), False)[0].shape
    (2, 3)
    """
    widths = tuple(int(w) for w in widths)
    if len(widths) < 2 or min(widths) < 1:
        raise BayesreconError(f"widths {widths}: expected those of the input and the output at least, 1 or more")

    def init(key: Any) -> tuple[Any, Any]:
        layers = []
        for one, below, above in zip(jax.random.split(key, len(widths) - 1), widths[:-1], widths[1:], strict=True):
            weights = jax.random.normal(one, (below, above), jnp.float32) * (2 / below) ** 0.5
            layers.append({"weights": weights, "bias": jnp.zeros(above, jnp.float32)})
        return layers, ()

    def apply(params: Any, state: Any, x: Any, training: bool) -> tuple[Any, Any]:
        for i, layer in enumerate(params):
            x = x @ layer["weights"] + layer["bias"]
            if i < len(params) - 1:
                x = jax.nn.relu(x)
        return (jax.nn.sigmoid(x) if sigmoid else x), state

    return Network(init, apply, f"perceptron {'-'.join(map(str, widths))}{' sigmoid' if sigmoid else ''}")
