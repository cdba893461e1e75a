"""A function that other software evaluates, with its gradient, as one that JAX maps and differentiates twice."""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records

ValueAndGradient = Callable[[np.ndarray, Records], tuple[np.ndarray, np.ndarray]]
"""`(theta (T, d), one record) -> values (T,), gradients (T, d)`."""

_STEP = 1e-3
"""Step of central differences, in lengths of the direction. The kernel's directions have about a posterior standard
deviation; the relative error is about 1e-7 for a second derivative that varies on this scale."""

_FARTHEST = 1e-3
"""Largest step in a coordinate, as a share of `1 + max |theta|`, for directions in other units."""


def from_callback(value_and_gradient: ValueAndGradient) -> Callable[[Array, Records], jax.Array]:
    """`f(theta (d,), record) -> scalar`, whose second derivatives in theta are differences of gradients.

    Raises:
        BayesreconError: where a derivative in the record, or a third one in theta, is taken.

    >>> f = from_callback(lambda theta, z: ((theta**3).sum(axis=1) * z["x"], 3 * theta**2 * z["x"]))
    >>> with jax.enable_x64(True):
    ...     round(float(jax.hessian(lambda t: f(t, {"x": 5.0}))(jnp.array([2.0]))[0, 0]), 4)
    60.0
    """

    def both_on_host(theta: np.ndarray, record: Records) -> tuple[np.ndarray, np.ndarray]:
        result = _mapped(lambda t, z: np.column_stack(value_and_gradient(t, z)), np.shape(theta)[-1] + 1, theta, record)
        return result[..., 0], result[..., 1:]

    def hessian_product_on_host(theta: np.ndarray, v: np.ndarray, record: Records) -> np.ndarray:
        theta, v = np.broadcast_arrays(np.asarray(theta), np.asarray(v))
        d = theta.shape[-1]

        def hessian_product(points: np.ndarray, z: Records) -> np.ndarray:
            t, w = points[:, :d], points[:, d:]
            largest = np.maximum(np.abs(w).max(axis=1), np.finfo(float).tiny)
            h = np.minimum(_STEP, _FARTHEST * (1 + np.abs(t).max(axis=1)) / largest)[:, None]
            return (value_and_gradient(t + h * w, z)[1] - value_and_gradient(t - h * w, z)[1]) / (2 * h)

        return _mapped(hessian_product, d, np.concatenate([theta, v], axis=-1), record)

    @jax.custom_jvp
    def value(theta: Array, record: Records) -> jax.Array:
        return both(theta, record)[0]

    @jax.custom_jvp
    def both(theta: Array, record: Records) -> tuple[jax.Array, jax.Array]:
        shapes = (jax.ShapeDtypeStruct((), theta.dtype), jax.ShapeDtypeStruct(theta.shape, theta.dtype))
        return jax.pure_callback(both_on_host, shapes, theta, record, vmap_method="expand_dims")

    @jax.custom_jvp
    def hessian_product(theta: Array, v: Array, record: Records) -> jax.Array:
        shapes = jax.ShapeDtypeStruct(theta.shape, theta.dtype)
        return jax.pure_callback(hessian_product_on_host, shapes, theta, v, record, vmap_method="expand_dims")

    def value_jvp(primals: tuple[Array, Mapping[str, Array]], tangents: Any) -> tuple[jax.Array, jax.Array]:
        _check_no_derivative(tangents[1])
        v, slope = both(*primals)
        return v, slope @ _dense(tangents[0], primals[0])

    def both_jvp(
        primals: tuple[Array, Mapping[str, Array]], tangents: Any
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        _check_no_derivative(tangents[1])
        (theta, record), t = primals, _dense(tangents[0], primals[0])
        v, slope = both(theta, record)
        return (v, slope), (slope @ t, hessian_product(theta, t, record))

    def third_derivative(primals: object, tangents: object) -> NoReturn:
        raise BayesreconError("a density evaluated by other software has no third derivatives")

    value.defjvp(value_jvp, symbolic_zeros=True)
    both.defjvp(both_jvp, symbolic_zeros=True)
    hessian_product.defjvp(third_derivative)
    return lambda theta, record: value(jnp.asarray(theta, float), {k: jnp.asarray(v) for k, v in record.items()})


def _dense(tangent: Any, theta: Array) -> jax.Array:
    return jnp.zeros_like(theta) if _no_derivative(tangent) else tangent


def _no_derivative(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero) or tangent.dtype == jax.dtypes.float0


def _check_no_derivative(record: object) -> None:
    if not all(
        _no_derivative(leaf) for leaf in jax.tree_util.tree_leaves(record, is_leaf=lambda x: hasattr(x, "dtype"))
    ):
        raise BayesreconError(
            "this attack needs derivatives of the density with respect to the data, which other software does not "
            "give; write the model with models.from_numpyro"
        )


def _mapped(
    function: Callable[[np.ndarray, Records], np.ndarray], width: int, theta: Array, record: Records
) -> np.ndarray:
    """Map `function(theta (T, d), one record) -> (T, width)` over the leading axes of both, which broadcast.

    All points of a record are passed at once.
    """
    theta, leaves = np.asarray(theta), {k: np.asarray(v) for k, v in record.items()}
    axes = theta.ndim - 1
    record_axes = np.broadcast_shapes((1,) * axes, *(v.shape[:axes] for v in leaves.values()))
    result = np.empty((*np.broadcast_shapes(record_axes, theta.shape[:axes]), width))
    for index in np.ndindex(record_axes):
        # Along axes of length one of the record, all points of theta are taken.
        selection = tuple(slice(None) if n == 1 else slice(i, i + 1) for i, n in zip(index, record_axes, strict=True))
        points = theta[tuple(s if n > 1 else slice(None) for s, n in zip(selection, theta.shape, strict=False))]
        record_at = {
            k: v[tuple(0 if n == 1 else i for i, n in zip(index, v.shape, strict=False))] for k, v in leaves.items()
        }
        result[selection] = function(points.reshape(-1, theta.shape[-1]), record_at).reshape(*points.shape[:-1], width)
    return result
