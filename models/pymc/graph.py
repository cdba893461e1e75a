"""The graph of a PyMC model, rewritten for one record: arrays with an entry per record become inputs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon import errors
from bayesrecon.errors import BayesreconError

Variable = Any
"""A variable of PyTensor's graph. PyTensor is an optional dependency."""


def library(name: str) -> Any:
    """A module of PyMC or PyTensor."""
    oldest = (5, 28) if name.startswith("pymc") else (0, 0)
    return errors.library(name, "reading PyMC models", "pymc", least=oldest)


@dataclass(frozen=True)
class RecordArray:
    """An array of the model with an entry per record.

    Attributes:
        leaves: variables of the graph that contain it. Their shapes may differ by axes of length one.
        values: `(N, *shape)`. They are only used for names and for checking the rewritten graph.
        levels: number of possible values if the graph uses it as an index; otherwise None.
        dimension: name of the dimension that it indexes; None if the model has no name for it.
    """

    leaves: tuple[Variable, ...]
    values: np.ndarray
    levels: int | None = None
    dimension: str | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape[1:]

    @property
    def name(self) -> str | None:
        """Name of a `pm.Data`."""
        return next((leaf.name for leaf in self.leaves if leaf.name and hasattr(leaf, "get_value")), None)

    def holds(self, values: np.ndarray) -> bool:
        """Whether these are the same numbers, except for axes of length one."""
        values = _squeezed(values)
        return self.values.shape == values.shape and np.array_equal(self.values, values)


def content(leaf: Variable) -> Any:
    """The array of a leaf of the graph; None for an input."""
    if hasattr(leaf, "get_value"):
        return np.asarray(leaf.get_value(borrow=True)) if hasattr(leaf.type, "ndim") else None
    data = getattr(leaf, "data", None)
    return np.asarray(data) if isinstance(data, np.ndarray | np.generic) else None


def _squeezed(values: np.ndarray) -> np.ndarray:
    return values.reshape(*values.shape[:1], *(d for d in values.shape[1:] if d != 1))


def leaves_of(graphs: Sequence[Variable], count: int) -> list[Variable]:
    """Leaves of the graphs with `count` entries along their first axis."""
    result = []
    for leaf in library("pytensor.graph.traversal").ancestors(graphs):
        values = content(leaf) if leaf.owner is None else None
        if values is not None and values.ndim and len(values) == count:
            result.append(leaf)
    return result


def columns_of(
    graphs: Sequence[Variable],
    leaves: Sequence[Variable],
    sizes: Callable[[Variable], tuple[int, ...]],
    dims: Mapping[Variable, Sequence[str | None] | None],
) -> list[RecordArray]:
    """The leaves as columns. Leaves with the same array are one column.

    Args:
        sizes: function that returns the shape of a variable.
        dims: names of the dimensions of free variables.
    """
    indexed = _indexed(graphs)
    result: list[RecordArray] = []
    for leaf in leaves:
        values = _squeezed(np.asarray(content(leaf)))
        levels = dimension = None
        if leaf in indexed and values.dtype.kind in "iu":
            target, axis = indexed[leaf]
            levels = sizes(target)[axis]
            names = dims.get(target)
            dimension = str(names[axis]) if names and names[axis] else None
        for i, column in enumerate(result):
            if column.holds(values):
                result[i] = RecordArray(
                    (*column.leaves, leaf),
                    values,
                    max(levels or 0, column.levels or 0) or None,
                    dimension or column.dimension,
                )
                break
        else:
            result.append(RecordArray((leaf,), values, levels, dimension))
    return result


def _indexed(graphs: Sequence[Variable]) -> dict[Variable, tuple[Variable, int]]:
    """Variables that are used as an index, with the indexed variable and the axis."""
    result: dict[Variable, tuple[Variable, int]] = {}
    for node in library("pytensor.graph.traversal").toposort(graphs):
        kind = type(node.op).__name__
        if kind == "AdvancedSubtensor1":
            result[_without_views(node.inputs[1])] = (node.inputs[0], 0)
        elif kind == "AdvancedSubtensor":
            for axis, index in enumerate(node.inputs[1:]):
                if hasattr(index.type, "ndim") and index.type.ndim:
                    result[_without_views(index)] = (node.inputs[0], axis)
    return result


def _without_views(index: Variable) -> Variable:
    """The variable of which an index is a view with other axes."""
    while index.owner is not None and type(index.owner.op).__name__ == "DimShuffle":
        index = index.owner.inputs[0]
    return index


class NotOneRecordError(BayesreconError):
    """An operation that cannot be made for one record."""


def for_one_record(graphs: Sequence[Variable], replaced: Mapping[Variable, Variable], count: int) -> list[Variable]:
    """The graphs for one record. Leaves are replaced by inputs, and all operations are rebuilt for their shapes.

    Args:
        replaced: the input of every leaf, with a first axis of length one.
        count: number of records in the graphs, which may be part of a shape.
    """
    ancestors = library("pytensor.graph.traversal").ancestors
    new: dict[Variable, Variable] = dict(replaced)

    def length(dim: Variable) -> Variable:
        constant = all(v.owner is not None or content(v) is not None for v in ancestors([dim]))
        return 1 if constant and int(dim.eval()) == count else new.get(dim, dim)

    for node in library("pytensor.graph.traversal").toposort(graphs):
        kind = type(node.op).__name__
        inputs = [new.get(i, i) for i in node.inputs]
        if kind in ("SpecifyShape", "CheckParameterValue", "CheckAndRaise", "Assert"):
            new[node.outputs[0]] = inputs[
                0
            ]  # JAX omits checks of values, and the rewritten graph needs no checks of shapes
            continue
        if kind == "Alloc":
            inputs = [inputs[0], length(node.inputs[1]) if len(inputs) > 1 else [], *inputs[2:]][: len(node.inputs)]
        elif kind == "ARange":
            inputs = [inputs[0], length(node.inputs[1]), inputs[2]]
        elif (replacement := _replacement(node, inputs)) is not None:
            new[node.outputs[0]] = replacement
            continue
        elif all(after is before for after, before in zip(inputs, node.inputs, strict=True)):
            continue
        elif isinstance(node.op, library("pytensor.compile.builders").OpFromGraph):
            # An operation that is a graph requires the original shapes, so its inner graph is inlined.
            inner = dict(zip(node.op.inner_inputs, inputs, strict=True))
            new.update(zip(node.outputs, for_one_record(node.op.inner_outputs, inner, count), strict=True))
            continue
        try:
            rebuilt = node.op.make_node(*inputs)
        except Exception as error:
            text = str(error).strip().splitlines()
            raise NotOneRecordError(f"{kind}: {text[0] if text else type(error).__name__}") from None
        new.update(zip(node.outputs, rebuilt.outputs, strict=True))
    return [new.get(g, g) for g in graphs]


def jaxified(inputs: Sequence[Variable], graphs: Sequence[Variable], title: str) -> Callable[..., list[jax.Array]]:
    """The graphs as one JAX function of the inputs."""
    try:
        return library("pymc.sampling.jax").get_jaxified_graph(list(inputs), for_one_record(graphs, {}, 0))
    except NotImplementedError as error:
        raise BayesreconError(f"{title}: {str(error).strip().splitlines()[0]}") from None


def _erfcx(x: jax.Array) -> tuple[jax.Array]:
    """`exp(x^2) erfc(x)`, by the logarithm of the normal distribution function."""
    return (2 * jnp.exp(x * x + jax.scipy.special.log_ndtr(-math.sqrt(2) * x)),)


_REPLACEMENTS: dict[str, Callable[[jax.Array], tuple[jax.Array]]] = {
    "Erfcx": _erfcx,
    "I0": lambda x: (jax.scipy.special.i0(x),),
    "I1": lambda x: (jax.scipy.special.i1(x),),
}
"""Functions for which PyTensor needs TensorFlow Probability in JAX, by the name of their operation."""


def _replacement(node: Any, inputs: Sequence[Variable]) -> Variable | None:
    function = _REPLACEMENTS.get(type(getattr(node.op, "scalar_op", None)).__name__)
    if function is None:
        return None
    input_type = inputs[0].type
    returned = library("pytensor.tensor").TensorType(input_type.dtype, input_type.shape)
    return library("pytensor.link.jax.ops").JAXOp([input_type], [returned], function)(inputs[0])
