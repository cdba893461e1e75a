"""The graph of a PyMC model, rewritten for one record: arrays with an entry per record become inputs."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon import errors
from bayesrecon.arrays import Array
from bayesrecon.domains import BINARY, COUNT, POSITIVE, REAL, Domain
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from numpyro.distributions.constraints import Constraint


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


# Supports of the variables of a PyMC model: parameters by their transforms, fields by their distributions.


READ = "Log, LogOdds, Interval, Simplex, Ordered, CholeskyCovPacked, ZeroSum, Circular"


class PackedCholesky:
    """The lower triangle of a Cholesky factor, row by row, from reals: its diagonal is an exponential.

    >>> PackedCholesky(2)(jnp.zeros(3)).tolist()
    [1.0, 0.0, 1.0]
    """

    def __init__(self, rows: int):
        self.diagonal = np.cumsum(np.arange(1, rows + 1)) - 1

    def __call__(self, x: Array) -> jax.Array:
        x = jnp.asarray(x)
        return x.at[..., self.diagonal].set(jnp.exp(x[..., self.diagonal]))

    def _inverse(self, y: Array) -> jax.Array:
        y = jnp.asarray(y)
        return y.at[..., self.diagonal].set(jnp.log(y[..., self.diagonal]))

    def log_abs_det_jacobian(self, x: Array, y: Array) -> jax.Array:
        return jnp.sum(x[..., self.diagonal], axis=-1)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


def support_of(variable: Variable, transform: Any, title: str) -> "Constraint[Any]":
    """NumPyro's constraint for the support of a free variable."""
    from numpyro.distributions import constraints

    kind, name = type(transform).__name__.removesuffix("Transform"), str(variable.name)
    if transform is None:
        return constraints.real
    if kind == "Log":
        return constraints.positive
    if kind == "LogOdds":
        return constraints.unit_interval
    if kind in ("Interval", "MultivariateInterval"):
        low, high = _bounds(transform, variable, title)
        if math.isfinite(low) and math.isfinite(high):
            return constraints.interval(low, high)
        return constraints.greater_than(low) if math.isfinite(low) else constraints.less_than(high)
    if kind == "Simplex":
        return constraints.simplex
    if kind == "Ordered":
        if not transform.ascending:
            raise BayesreconError(f"{title}: {name} is in descending order; use ascending order")
        return constraints.positive_ordered_vector if transform.positive else constraints.ordered_vector
    if kind == "ZeroSum":
        return constraints.zero_sum(len(transform.zerosum_axes))
    if kind == "Circular":
        return constraints.interval(-math.pi, math.pi)
    raise BayesreconError(f"{title}: the transform {kind} of {name} is not supported; expected {READ}")


def packed(transform: object, shape: tuple[int, ...]) -> PackedCholesky | None:
    """The transform of a packed Cholesky factor, None for anything else."""
    if type(transform).__name__ != "CholeskyCovPacked":
        return None
    return PackedCholesky(round((math.sqrt(8 * shape[-1] + 1) - 1) / 2))


def domain_of(variable: Variable, shape: tuple[int, ...]) -> Domain:
    """The domain of an observed field, from its distribution.

    Args:
        shape: shape of one record's value.
    """
    op = variable.owner.op
    kind = type(op).__name__.removesuffix("RV").removesuffix("rv")
    if kind == "Censored":
        base, lower, upper = variable.owner.inputs[:3]
        inner = domain_of(base, shape)
        low, high = _number(lower), _number(upper)
        low, high = (
            max(inner.low, -math.inf if low is None else low),
            min(inner.high, math.inf if high is None else high),
        )
        if inner.discrete:
            return Domain("integer", low, high)
        return Domain("interval", low, high, closed=True) if math.isfinite(low) or math.isfinite(high) else inner
    if kind == "Bernoulli":
        return BINARY
    if kind == "Categorical":
        levels = variable.owner.inputs[-1].type.shape[-1]
        return COUNT if levels is None else Domain("levels", levels=tuple(map(float, range(levels))))
    if kind in ("Binomial", "BetaBinomial", "Multinomial", "DirichletMultinomial"):
        size = _number(variable.owner.inputs[2])
        if size is None:
            return COUNT
        return Domain("integer", 0.0, size, total=int(size) if shape else None)
    if variable.type.dtype.startswith(("int", "uint", "bool")):
        return COUNT
    transform = _default_transform(variable.owner.op, variable)
    if kind == "Truncated":
        positive = type(_default_transform(op.base_rv_op, variable)).__name__ == "LogTransform"
        low, high = _bounds(transform, variable, "")
        return Domain("interval", max(low, 0.0) if positive else low, high)
    kind = type(transform).__name__.removesuffix("Transform")
    if kind == "Log":
        return POSITIVE
    if kind == "LogOdds":
        return Domain("interval", 0.0, 1.0)
    if kind == "Circular":
        return Domain("interval", -math.pi, math.pi)
    if kind == "Interval":
        try:
            low, high = _bounds(transform, variable, "")
        except BayesreconError:  # bounds that are computed
            return REAL
        return Domain("interval", low, high)
    return REAL


def _default_transform(op: object, variable: object) -> Any:
    try:
        return library("pymc.distributions.transforms")._default_transform(op, variable)
    except NotImplementedError:
        return None


def _bounds(transform: Any, variable: Variable, title: str) -> tuple[float, float]:
    """Bounds of an interval; infinite if it has none."""
    low, high, *bounded = transform.get_a_and_b(variable.owner.inputs)
    lower, upper = (
        _number(bound) if finite else sign * math.inf
        for bound, finite, sign in zip((low, high), bounded, (-1, 1), strict=True)
    )
    if lower is None or upper is None:
        raise BayesreconError(
            f"{title}: the bounds of {variable.name} must be plain numbers, not computed in the model"
        )
    return lower, upper


def _number(value: Variable) -> float | None:
    """A bound as a number; None if the model computes it."""
    if not hasattr(value, "owner"):
        return float(value)
    if any(v.owner is None and not hasattr(v, "data") for v in library("pytensor.graph.traversal").ancestors([value])):
        return None
    values = np.unique(np.asarray(value.eval(), float))
    return float(values[0]) if values.size == 1 else None
