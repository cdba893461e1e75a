"""Simulation of records from a PyMC model: its distributions, with their random generators as inputs."""

from collections.abc import Callable, Sequence

import jax
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.models.pymc.graph import Variable, library


class NotDrawnError(BayesreconError):
    """A distribution that cannot be simulated."""


def drawn(
    variable: Variable,
    shape: tuple[int, ...],
    rebuilt: Callable[[Sequence[Variable]], list[Variable]],
    sizes: Callable[[Variable], tuple[int, ...]],
) -> tuple[Variable, list[Variable]]:
    """A graph that draws the variable for one record, `(1, *shape)`, and the generators that are its inputs.

    Args:
        rebuilt: function that rebuilds graphs for one record.
        sizes: function that returns the shape of a variable, for all records.

    Raises:
        NotDrawnError: the distribution is neither one of PyTensor's, nor a mixture of these, nor censored.
    """
    pt, generators_of = library("pytensor.tensor"), library("pytensor.tensor.random.type").random_generator_type
    op, inputs = variable.owner.op, variable.owner.inputs
    kind = type(op).__name__
    if kind == "CategoricalRV":  # in JAX, PyTensor takes its log odds for probabilities
        return _chosen(rebuilt(inputs[-1:])[0], shape)
    if isinstance(op, library("pytensor.tensor.random.op").RandomVariable):
        generator = generators_of()
        size = np.array((1, *shape)[: 1 + len(shape) - op.ndim_supp], np.int64)
        return op.make_node(generator, pt.constant(size), *rebuilt(inputs[2:])).outputs[1], [generator]
    if kind == "CensoredRV":
        result, generators = drawn(inputs[0], shape, rebuilt, sizes)
        return pt.clip(result, *rebuilt(inputs[1:])), generators
    if kind == "MixtureRV" and not inputs[-1].owner.op.ndim_supp:
        _, weights, *components = inputs
        parts = [drawn(c, sizes(c)[1:], rebuilt, sizes) for c in components]
        parameters = parts[0][0] if len(parts) == 1 else pt.stack([d for d, _ in parts], axis=-1)
        chosen, generators = _chosen(rebuilt([weights])[0], shape)
        result = pt.take_along_axis(parameters, chosen[..., None], axis=-1)[..., 0]
        return result, [*generators, *(g for _, new_generators in parts for g in new_generators)]
    raise NotDrawnError(f"{kind} cannot be simulated")


def _chosen(probabilities: Variable, shape: tuple[int, ...]) -> tuple[Variable, list[Variable]]:
    """A graph that draws a category, and its generator. Probabilities are along the last axis."""
    pt, generator = library("pytensor.tensor"), library("pytensor.tensor.random.type").random_generator_type()
    size = pt.constant(np.array((1, *shape), np.int64))
    # Called as a function, it hides the generator's next state, which newer PyTensor warns of.
    uniform = library("pytensor.tensor.random.basic").uniform.make_node(generator, size, 0.0, 1.0).outputs[1]
    cumulative = pt.cumsum(probabilities, axis=-1)[..., :-1]
    return (uniform[..., None] > cumulative).sum(axis=-1), [generator]


def state(key: jax.Array) -> dict[str, int | jax.Array]:
    """A random generator in the form that PyTensor's JAX functions accept."""
    return {"bit_generator": 1, "jax_state": jax.random.key_data(key)}
