"""Sums over the parts of a pass: as NumPy's arrays, or on the devices that work on the parts and read back once."""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce, wraps
from itertools import groupby
from typing import Any, ParamSpec, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.running.engine import on_host, placed

P = ParamSpec("P")
R = TypeVar("R")
Tree = TypeVar("Tree")


class SummedPart(Protocol):
    """The interface of `metric_view.Part`."""

    @property
    def metric(self) -> np.ndarray: ...
    @property
    def weights(self) -> np.ndarray: ...
    @property
    def stretch(self) -> int: ...
    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int, int]]: ...


KernelSums = tuple[Array, Array]
"""Kernel `(F, F)` and target `(F,)` of a part."""

ValueSums = tuple[Array, Array, Array, Array]
"""Weight of a part, the shift `(r,)` that its values are taken about, and their mean `(r,)` and products `(r, r)`."""


def compiled_on_devices(f: Callable[P, R]) -> Callable[P, R]:
    """A function that is compiled if devices are in use, and called as it is for arrays of NumPy in this process."""
    compiled = jax.jit(f)

    @wraps(f)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        return (f if on_host() else compiled)(*args, **kwargs)

    return called


def numbers(arrays: Tree) -> Tree:
    """Arrays where they are summed: on the devices in use, or as arrays of NumPy."""
    return jax.tree.map(np.asarray, arrays) if on_host() else placed(arrays)


def plus(total: Tree | None, more: Tree) -> Tree:
    """The sum of a total so far (None before the first part) and of one more part."""
    if total is None:
        return more
    if isinstance(jax.tree.leaves(total)[0], np.ndarray):
        return jax.tree.map(np.add, total, more)
    return _added(total, more)


def summed(parts: Iterable[Tree]) -> Tree:
    """The sum of parts, one after the other; there is at least one."""
    return reduce(plus, parts)


def kernels(
    passed: Iterable[tuple[SummedPart, tuple[KernelSums, ValueSums]]],
) -> tuple[list[tuple[float, KernelSums]], np.ndarray]:
    """Weight, and kernel and target, of every stretch; and the covariance of values over all."""
    sums: list[tuple[float, KernelSums]] = []
    values: ValueSums | None = None
    for _, stretch in groupby(passed, key=lambda result: result[0].stretch):
        kernel: KernelSums | None = None
        share = 0.0
        for part, (products, value) in stretch:
            kernel = plus(kernel, products)
            values = value if values is None else _merged(values, value)
            share += part.weights.sum()
        assert kernel is not None
        sums.append((share, kernel))
    sums, (_, _, mean, square) = jax.device_get((sums, values))  # the only transfer of a pass
    return sums, square - np.outer(mean, mean)


def covariance(passed: Iterable[tuple[SummedPart, tuple[Array, Array]]]) -> np.ndarray:
    """The covariance `(r, r)` of terms, from their weighted mean `(r,)` and products `(r, r)` in every part."""
    mean, square = jax.device_get(summed(sums for _, sums in passed))
    return square - np.outer(mean, mean)


@jax.jit
def _added(total: Any, more: Any) -> Any:
    return jax.tree.map(jnp.add, total, more)


def _merged(total: ValueSums, more: ValueSums) -> ValueSums:
    """Sums of the values of two parts, about the shift of the first."""
    return (_merged_on_host if isinstance(total[2], np.ndarray) else _merged_on_devices)(total, more)


def _merged_on_host(total: ValueSums, more: ValueSums) -> ValueSums:
    (weight, shift, mean, square), (other_weight, other_shift, first, second) = total, more
    shift_change = other_shift - shift
    mixed, stack = (
        first + other_weight / 2 * shift_change,
        np.stack if isinstance(shift_change, np.ndarray) else jnp.stack,
    )
    second = second + stack([mixed, shift_change], 1) @ stack([shift_change, mixed], 0)
    return weight + other_weight, shift, mean + first + other_weight * shift_change, square + second


_merged_on_devices = jax.jit(_merged_on_host)
