"""Constrained parameters: maps from free coordinates with their Jacobians, in the coordinates of the Stan reference."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.models.stan.linear_algebra import cholesky
from bayesrecon.models.stan.values import StanError


@dataclass(frozen=True, eq=False)
class ElementBounds:
    """Numbers between bounds, elementwise; None if there is none."""

    low: Array | None = None
    high: Array | None = None

    def __call__(self, x: Array) -> jax.Array:
        if self.low is not None and self.high is not None:
            return jnp.asarray(self.low + (self.high - self.low) * jax.nn.sigmoid(x))
        if self.low is not None:
            return jnp.asarray(self.low + jnp.exp(x))
        return jnp.asarray(x if self.high is None else self.high - jnp.exp(x))

    def _inverse(self, y: Array) -> jax.Array:
        if self.low is not None and self.high is not None:
            share = (y - self.low) / (self.high - self.low)
            return jnp.log(share) - jnp.log1p(-share)
        if self.low is not None:
            return jnp.log(y - self.low)
        return jnp.asarray(y) if self.high is None else jnp.log(self.high - y)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> jax.Array:
        if self.low is not None and self.high is not None:
            return jnp.log(self.high - self.low) + jax.nn.log_sigmoid(x) + jax.nn.log_sigmoid(-x)
        return jnp.zeros_like(x) if self.low is None and self.high is None else jnp.asarray(x)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


def bounded(low: Array | float | None, high: Array | float | None) -> ElementBounds:
    """Transform between bounds; known infinite bounds are ignored."""

    def finite(value: Array | float | None, sign: float) -> Array | None:
        if value is None or isinstance(value, jax.Array):
            return value
        infinite = np.isinf(value)
        if infinite.all() and (np.sign(value) == sign).all():
            return None
        if infinite.any():
            raise StanError("bounds with some infinite elements are not supported")
        return np.asarray(value, float)

    low, high = finite(low, -1.0), finite(high, 1.0)
    known = not isinstance(low, jax.Array) and not isinstance(high, jax.Array)
    if low is not None and high is not None and known and not np.all(low < high):
        raise StanError("a lower bound is not below the upper bound")
    return ElementBounds(low, high)


@dataclass(frozen=True, eq=False)
class Affine:
    """`offset + multiplier x`."""

    offset: Array | float = 0.0
    multiplier: Array | float = 1.0

    def __call__(self, x: Array) -> jax.Array:
        return jnp.asarray(self.offset + self.multiplier * x)

    def _inverse(self, y: Array) -> jax.Array:
        return jnp.asarray((y - self.offset) / self.multiplier)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> jax.Array:
        return jnp.broadcast_to(jnp.log(self.multiplier), jnp.shape(x))

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


@dataclass(frozen=True, eq=False)
class Shaped:
    """A map of one vector or matrix, over the arrays of it.

    Args:
        axes: axes of one constrained value.
        free: its shape -> number of free coordinates.
        forward: free coordinates and shape -> value and log Jacobian.
        backward: value -> free coordinates.
    """

    axes: int
    free: Callable[[tuple[int, ...]], int]
    forward: Callable[[jax.Array, tuple[int, ...]], tuple[jax.Array, jax.Array]]
    backward: Callable[[jax.Array], jax.Array]
    shape: tuple[int, ...]

    def _mapped(self, f: Callable[[jax.Array], jax.Array], x: Array, axes: int) -> jax.Array:
        array = jnp.asarray(x, float)
        for _ in range(array.ndim - axes):
            f = jax.vmap(f)
        return f(array)

    def __call__(self, x: Array) -> jax.Array:
        return self._mapped(lambda free: self.forward(free, self.shape)[0], x, 1)

    def _inverse(self, y: Array) -> jax.Array:
        return self._mapped(self.backward, y, self.axes)

    def log_abs_det_jacobian(self, x: Array, y: Array) -> jax.Array:
        return jnp.sum(self._mapped(lambda free: self.forward(free, self.shape)[1], x, 1))

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return (*shape[: len(shape) - self.axes], self.free(shape[len(shape) - self.axes :]))


def _ordered(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    steps = jnp.concatenate([x[:1], jnp.exp(x[1:])])
    return jnp.cumsum(steps), jnp.sum(x[1:])


def _ordered_back(y: jax.Array) -> jax.Array:
    return jnp.concatenate([y[:1], jnp.log(jnp.diff(y))])


def _positive_ordered(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    return jnp.cumsum(jnp.exp(x)), jnp.sum(x)


def _positive_ordered_back(y: jax.Array) -> jax.Array:
    return jnp.log(jnp.diff(y, prepend=0.0))


def _basis(size: int) -> np.ndarray:
    """Orthonormal columns `(size, size - 1)` of vectors whose elements sum to zero."""
    columns = np.zeros((size, size - 1))
    for i in range(1, size):
        weight = 1 / math.sqrt(i * (i + 1))
        columns[:i, i - 1] = weight
        columns[i, i - 1] = -i * weight
    return columns


def _zero_sum(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    return jnp.asarray(_basis(shape[0])) @ x, jnp.zeros(())


def _zero_sum_back(y: jax.Array) -> jax.Array:
    return jnp.asarray(_basis(y.shape[0]).T) @ y


def _simplex(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    z = _basis(shape[0]) @ x
    logs = jax.nn.log_softmax(z)
    return jnp.exp(logs), jnp.sum(logs) + 0.5 * math.log(shape[0])


def _simplex_back(y: jax.Array) -> jax.Array:
    return jnp.asarray(_basis(y.shape[0]).T) @ jnp.log(y)


def _unit(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """A point of the sphere from its stereographic projection, which misses the pole `(0, ..., 0, -1)` alone. Stan has
    one coordinate more, the length, which no record and no draw tells."""
    square = jnp.sum(x * x)
    point = jnp.concatenate([2 * x, 1 - square[None]]) / (1 + square)
    return point, (shape[0] - 1) * (math.log(2) - jnp.log1p(square))


def _unit_back(y: jax.Array) -> jax.Array:
    return y[:-1] / (1 + y[-1])


def _corr_factor(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """A Cholesky factor of a correlation matrix, row by row from partial correlations `tanh(x)`."""
    size = shape[0]
    below = np.tril_indices(size, -1)
    z = jnp.zeros((size, size)).at[below].set(jnp.tanh(x))
    logs = jnp.zeros((size, size)).at[below].set(2 * (math.log(2) - x - jax.nn.softplus(-2 * x)))  # log(1 - tanh^2)
    remaining = jnp.cumsum(logs, axis=1) - logs  # squared length that the elements before leave of the row
    lower = np.tri(size, k=-1)
    return (z + np.eye(size)) * jnp.exp(0.5 * remaining), jnp.sum(logs) + 0.5 * jnp.sum(remaining * lower)


def _corr_factor_back(y: jax.Array) -> jax.Array:
    squares = y * y
    remaining = 1 - (jnp.cumsum(squares, axis=1) - squares)
    below = np.tril_indices(y.shape[0], -1)
    return jnp.arctanh(y[below] / jnp.sqrt(remaining[below]))


def _corr(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """A correlation matrix: its factor, with the Jacobian of `L L'` below the diagonal."""
    size = shape[0]
    factor, total = _corr_factor(x[_by_columns(size)], shape)
    powers = np.arange(size - 1, -1, -1.0)
    return factor @ factor.T, total + jnp.sum(powers * jnp.log(jnp.diagonal(factor)))


def _corr_back(y: jax.Array) -> jax.Array:
    back = np.argsort(_by_columns(y.shape[0]))
    return _corr_factor_back(cholesky(jnp.asarray(y)))[back]


def _by_columns(size: int) -> np.ndarray:
    """Where elements below the diagonal, row by row, are in an order of column by column, which is Stan's of matrices;
    of their factors it is row by row."""
    place = np.zeros((size, size), int)
    place.T[np.triu_indices(size, 1)] = np.arange(size * (size - 1) // 2)
    return place[np.tril_indices(size, -1)]


def _cov_factor(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """A lower factor with a positive diagonal, `(M, N)`."""
    size, columns = shape
    rows, below = np.tril_indices(size, 0, columns)
    full = jnp.zeros(shape).at[rows, below].set(x)
    n = np.arange(columns)
    logs = full[n, n]
    return full.at[n, n].set(jnp.exp(logs)), jnp.sum(logs)


def _cov_factor_back(y: jax.Array) -> jax.Array:
    rows, columns = np.tril_indices(y.shape[0], 0, y.shape[1])
    n = np.arange(y.shape[1])
    return y.at[n, n].set(jnp.log(y[n, n]))[rows, columns]


def _cov(x: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    size = shape[0]
    factor, total = _cov_factor(x, shape)
    powers = np.arange(size, 0, -1.0)
    return factor @ factor.T, total + size * math.log(2) + jnp.sum(powers * jnp.log(jnp.diagonal(factor)))


def _lower(size: int) -> int:
    return size * (size - 1) // 2


_SHAPED: dict[
    str,
    tuple[
        int,
        Callable[[tuple[int, ...]], int],
        Callable[[jax.Array, tuple[int, ...]], tuple[jax.Array, jax.Array]],
        Callable[[jax.Array], jax.Array],
    ],
] = {
    "ordered": (1, lambda s: s[0], _ordered, _ordered_back),
    "positive_ordered": (1, lambda s: s[0], _positive_ordered, _positive_ordered_back),
    "simplex": (1, lambda s: s[0] - 1, _simplex, _simplex_back),
    "unit_vector": (1, lambda s: s[0] - 1, _unit, _unit_back),
    "sum_to_zero_vector": (1, lambda s: s[0] - 1, _zero_sum, _zero_sum_back),
    "cholesky_factor_corr": (2, lambda s: _lower(s[0]), _corr_factor, _corr_factor_back),
    "corr_matrix": (2, lambda s: _lower(s[0]), _corr, _corr_back),
    "cholesky_factor_cov": (2, lambda s: len(np.tril_indices(s[0], 0, s[1])[0]), _cov_factor, _cov_factor_back),
    "cov_matrix": (2, lambda s: _lower(s[0] + 1), _cov, lambda y: _cov_factor_back(cholesky(jnp.asarray(y)))),
}


def shaped(base: str, shape: tuple[int, ...]) -> Shaped:
    """The map of a constrained type.

    Args:
        shape: shape of one value, without the array around it.
    """
    if base not in _SHAPED:
        raise StanError(f"parameters of type {base} are not supported")
    axes, free, forward, backward = _SHAPED[base]
    if not shape[-1]:
        raise StanError(f"a parameter of type {base} is empty")
    return Shaped(axes, free, forward, backward, shape)
