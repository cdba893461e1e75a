"""Sums over the parts of a pass: as NumPy's arrays, or on the devices that work on the parts and read back once."""

from collections.abc import Callable, Iterable
from functools import wraps
from itertools import groupby
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.running.engine import on_host, placed


def either_way(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays as it is where they are NumPy's in this process, and compiled elsewhere."""
    compiled = jax.jit(f)

    @wraps(f)
    def chosen(*arguments: Any) -> Any:
        return (f if on_host() else compiled)(*arguments)

    return chosen


def numbers(arrays: Any) -> Any:
    """Where they are summed: on the devices in use, or as NumPy's."""
    return jax.tree.map(np.asarray, arrays) if on_host() else placed(arrays)


def plus(total: Any, more: Any) -> Any:
    """Sums of several arrays, the first of which is None."""
    if total is None:
        return more
    if isinstance(jax.tree.leaves(total)[0], np.ndarray):
        return jax.tree.map(np.add, total, more)
    return _added(total, more)


def kernels(passed: Iterable[tuple[Any, Any]]) -> tuple[list[tuple[float, Any]], np.ndarray]:
    """Weight, kernel and target of every stretch, and the covariance of values over all.

    Args:
        passed: parts and, of each, kernel and target; its weight, the values that sums are taken about, and the mean
            and products of values about these.
    """
    found: list[tuple[float, Any]] = []
    values: Any = None
    for _, stretch in groupby(passed, key=lambda one: one[0].stretch):
        kernel: Any = None
        share = 0.0
        for part, (products, value) in stretch:
            kernel = plus(kernel, products)
            values = value if values is None else _merged(values, value)
            share += part.weights.sum()
        found.append((share, kernel))
    found, (_, _, mean, square) = jax.device_get((found, values))  # the only one of a pass
    return found, square - np.outer(mean, mean)


def covariance(passed: Iterable[tuple[Any, Any]]) -> np.ndarray:
    """Of terms, whose weighted mean and products every part has."""
    total: Any = None
    for _, terms in passed:
        total = plus(total, terms)
    mean, square = jax.device_get(total)
    return square - np.outer(mean, mean)


@jax.jit
def _added(total: Any, more: Any) -> Any:
    return jax.tree.map(jnp.add, total, more)


def _merged(total: Any, own: Any) -> Any:
    """Sums of values, each about their own shift, about that of the first."""
    return (_merged_on_host if isinstance(total[2], np.ndarray) else _merged_on_devices)(total, own)


def _merged_on_host(total: Any, own: Any) -> Any:
    (weight, shift, mean, square), (more, other, first, second) = total, own
    shift_change = other - shift
    mixed, stack = first + more / 2 * shift_change, np.stack if isinstance(shift_change, np.ndarray) else jnp.stack
    second = second + stack([mixed, shift_change], 1) @ stack([shift_change, mixed], 0)
    return weight + more, shift, mean + first + more * shift_change, square + second


_merged_on_devices = jax.jit(_merged_on_host)
