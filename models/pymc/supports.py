"""Supports of the variables of a PyMC model: parameters by their transforms, fields by their distributions."""

import math
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import BINARY, COUNT, POSITIVE, REAL, Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.models.pymc.graph import Variable, library

if TYPE_CHECKING:
    from numpyro.distributions.constraints import Constraint

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
