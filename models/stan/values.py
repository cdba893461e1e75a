"""Values of a Stan program: what they are in Stan, and the array that holds them."""

import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError

LARGEST = 10_000_000
"""Elements of one variable: 80 MB, fifty times what programs of posteriordb declare."""

AXES = {"int": 0, "real": 0, "vector": 1, "row_vector": 1, "matrix": 2}
"""Axes of a base type; every special type is one of these."""

SPECIAL = {
    "simplex": "vector",
    "unit_vector": "vector",
    "ordered": "vector",
    "positive_ordered": "vector",
    "sum_to_zero_vector": "vector",
    "cholesky_factor_corr": "matrix",
    "cholesky_factor_cov": "matrix",
    "corr_matrix": "matrix",
    "cov_matrix": "matrix",
    "sum_to_zero_matrix": "matrix",
    "column_stochastic_matrix": "matrix",
    "row_stochastic_matrix": "matrix",
}
"""Unconstrained base types of the constrained types."""


Elements = Array | float
"""A number or an array; of NumPy where it is known, of JAX where it is traced."""

Iterations = tuple[object, np.ndarray]
"""A loop that is run at once, and a value in each of its iterations."""


Position = int | slice | Array
"""A zero-based index of an axis."""


class StanError(BayesreconError):
    """Something in a program that cannot be evaluated; whoever runs it adds the place."""


class Untraceable(StanError):
    """A size, a bound or a branch that depends on what is not known when the program is compiled."""


class Split(Untraceable):
    """Iterations of a loop that have to be run apart: a branch, a size or a bound differs between them."""

    def __init__(self, values: np.ndarray):
        super().__init__("iterations of a loop differ")
        self.values, self.steps = values, 0


def _assigned_separately(a: object) -> bool:
    """Whether elements were assigned individually."""
    return isinstance(a, np.ndarray) and a.dtype.kind == "O"


class V:
    """A value of a program.

    Args:
        base: "int", "real", "vector", "row_vector", "matrix" or "void".
        depth: depth of the array around it.
        a: a Python number or array `(*array, *base)`; of NumPy where it is known, of JAX where it is traced. An array
            of objects holds elements that were assigned individually. None for "void".
        tainted: whether it depends on a record.
        iterations: in a loop that is run at once, the loop and what the value is in each of its iterations, where that
            is known.
    """

    __slots__ = ("a", "base", "depth", "iterations", "tainted")

    def __init__(self, base: str, a: Any, depth: int = 0, tainted: bool = False, iterations: Iterations | None = None):
        self.base, self.depth, self.a, self.tainted, self.iterations = base, depth, a, tainted, iterations

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.a)

    @property
    def scalar(self) -> bool:
        return self.depth == 0 and self.base in ("int", "real")

    @property
    def known(self) -> bool:
        """Whether the numbers themselves are there."""
        return not isinstance(self.a, jax.Array) and not _assigned_separately(self.a)

    @property
    def words(self) -> str:
        return "array[" + "," * (self.depth - 1) + "] " + self.base if self.depth else self.base

    def with_taint(self, tainted: bool) -> "V":
        if tainted and not self.tainted:
            return V(self.base, self.a, self.depth, True, self.iterations)
        return self


def xp_of(*arrays: object) -> ModuleType:
    """NumPy for known numbers, `jax.numpy` where one is traced."""
    return jnp if any(isinstance(a, jax.Array) for a in arrays) else np


def real(a: Elements) -> V:
    return V("real", a)


def whole(a: Elements) -> V:
    return V("int", a)


def vector(a: Elements) -> V:
    return V("vector", a)


def consolidated(v: V) -> V:
    """The value with elements that were assigned individually joined in one array."""
    if _assigned_separately(v.a):
        flat = [jnp.asarray(entry, float) for entry in v.a.ravel()]
        return V(v.base, jnp.stack(flat).reshape(v.a.shape), v.depth, v.tainted)
    return v


def number(v: V, label: str) -> int:
    """An integer that has to be known: a size or a bound."""
    if not v.scalar:
        raise StanError(f"{label} must be an integer, not a {v.words}")
    v = known_test(v)
    if isinstance(v.a, jax.Array):
        raise Untraceable(f"{label} depends on {'a record' if v.tainted else 'a value that is not constant'}")
    if not float(v.a).is_integer():
        raise StanError(f"{label} is not an integer but {float(v.a):g}")
    return int(v.a)


def known_test(v: V) -> V:
    """A number that is the same in all iterations of a loop as a known one."""
    if v.iterations is None:
        return v
    values = v.iterations[1]
    if (values != values[0]).any():
        raise Split(values)
    return V(v.base, values[0].item(), 0, v.tainted)


def window(low: V, high: V, size: int) -> V | None:
    """The indices `low:high` where both move from iteration to iteration of a loop and lie equally far apart in all of
    them."""
    if low.iterations is None or high.iterations is None or low.iterations[0] is not high.iterations[0]:
        return None
    first, last = low.iterations[1], high.iterations[1]
    length = int(last[0] - first[0]) + 1
    if (first == first[0]).all() or ((last - first + 1) != length).any() or length < 1:
        return None
    if first.min() < 1 or last.max() > size:
        return None
    return V("int", low.a + np.arange(length), 1, low.tainted or high.tainted)


def iterations_of(f: Callable[..., Elements], *values: V) -> Iterations | None:
    """`f` of numbers one iteration at a time, where they are known in each iteration of one loop."""
    loops = {id(v.iterations[0]): v.iterations[0] for v in values if v.iterations is not None}
    if len(loops) != 1 or not all(v.iterations is not None or v.known for v in values):
        return None
    (loop,) = loops.values()
    return loop, np.asarray(f(*(v.a if v.iterations is None else v.iterations[1] for v in values)))


def check_size(shape: tuple[int, ...], label: str) -> None:
    if any(s < 0 for s in shape):
        raise StanError(f"{label} has a negative size")
    if math.prod(shape) > LARGEST:
        raise StanError(f"{label} would have {math.prod(shape)} entries, more than {LARGEST}")


def blank(base: str, shape: tuple[int, ...], depth: int) -> V:
    """A variable that nothing was assigned to."""
    if base == "int":
        return V("int", np.zeros(shape, np.int64) if shape else 0, depth)
    return V(base, np.full(shape, np.nan) if shape else np.nan, depth)


def index_base(base: str, kept: tuple[bool, ...]) -> str:
    """The base type that is left where an index keeps some of its axes."""
    if base == "matrix":
        kinds = {(True, True): "matrix", (True, False): "vector", (False, True): "row_vector"}
        return kinds.get((kept[0], kept[1]), "real")
    return base if all(kept) else "real"


def index(v: V, indices: Sequence[V | slice]) -> V:
    """`v[indices]`, each index an integer, an array of them, or a `slice` of zero-based ends."""
    axes = v.depth + AXES[v.base]
    if len(indices) > axes:
        raise StanError(f"{len(indices)} indices for a {v.words}, which has {axes}")
    kept = [True] * axes
    a, tainted, shape = v.a, v.tainted, v.shape
    plain: list[Position] = []
    for k, i in enumerate(indices):
        if isinstance(i, slice):
            plain.append(i)
            continue
        tainted |= i.tainted
        if i.depth == 0:
            kept[k] = False
        plain.append(_zero_based(i, shape[k]))
    if all(not isinstance(i, jax.Array) for i in plain) and sum(isinstance(i, np.ndarray) for i in plain) <= 1:
        a = a[tuple(plain)]
    elif not any(isinstance(i, slice) or np.ndim(i) for i in plain):
        a = jnp.asarray(consolidated(v).a).at[tuple(plain)].get(mode="fill", fill_value=_fill(v))
    else:
        a = consolidated(v).a
        for k in reversed(range(len(plain))):
            i = plain[k]
            at = (slice(None),) * k + (i,)
            traced = isinstance(i, jax.Array)
            a = jnp.asarray(a).at[at].get(mode="fill", fill_value=_fill(v)) if traced else a[at]
    result = V(index_base(v.base, tuple(kept[v.depth :])), a, sum(kept[: v.depth]), tainted)
    scalars = [i for i in indices if isinstance(i, V)]
    if v.known and result.scalar and len(scalars) == axes:
        result.iterations = iterations_of(
            lambda *at: v.a[tuple(np.clip(i, 1, n) - 1 for i, n in zip(at, shape, strict=True))], *scalars
        )
    return consolidated(result)


def _fill(v: V) -> float:
    return 0 if v.base == "int" else jnp.nan


def _zero_based(i: V, size: int) -> Position:
    if i.base != "int":
        raise StanError(f"an index must be an integer, not a {i.words}")
    if isinstance(i.a, jax.Array):
        at = jnp.round(i.a).astype(int) if jnp.issubdtype(i.a.dtype, jnp.floating) else i.a
        return jnp.where(at < 1, size, at - 1)
    at = np.asarray(i.a)
    if at.dtype.kind == "f":
        at = np.rint(at).astype(int)
    if at.size and (at.min() < 1 or at.max() > size):
        bad = at[(at < 1) | (at > size)].flat[0]
        raise StanError(f"index {bad} is out of range 1 to {size}")
    return int(at) - 1 if at.ndim == 0 else at - 1


def assign_at(v: V, indices: Sequence[V | slice], value: V, context: bool) -> V:
    """`v` with `v[indices] = value`; known arrays are changed where they stand, as each belongs to one variable."""
    tainted = v.tainted or value.tainted or context
    shape = v.shape
    at: list[Position] = []
    for k, i in enumerate(indices):
        if isinstance(i, slice):
            at.append(i)
        else:
            tainted |= i.tainted
            at.append(_zero_based(i, shape[k]))
    a, new = v.a, value.a
    if _assigned_separately(new):
        new = consolidated(value).a
    whole_index = len(at) == v.depth + AXES[v.base] and all(isinstance(i, int) for i in at)
    if isinstance(a, np.ndarray) and whole_index:
        if isinstance(new, jax.Array) and not _assigned_separately(a):
            a = a.astype(object)
        a[tuple(at)] = new
        return V(v.base, a, v.depth, tainted)
    if any(isinstance(i, np.ndarray) and i.ndim for i in at) or any(isinstance(i, jax.Array) for i in at):
        at = list(_outer(at, shape))
    target = np.zeros(shape)[tuple(at)].shape if not any(isinstance(i, jax.Array) for i in at) else None
    if target is not None and np.shape(new) != target:
        raise StanError(f"a value of shape {np.shape(new)} is assigned to a slot of shape {target}")
    if isinstance(a, np.ndarray) and not _assigned_separately(a) and xp_of(new, *at) is not jnp:
        a[tuple(at)] = new
        return V(v.base, a, v.depth, tainted)
    base = jnp.asarray(consolidated(v).a)
    return V(v.base, base.at[tuple(at)].set(jnp.asarray(new, base.dtype)), v.depth, tainted)


def _outer(at: list[Position], shape: tuple[int, ...]) -> Sequence[Position]:
    """Indices that each run over a separate axis, as Stan's do."""
    arrays = [k for k, i in enumerate(at) if not isinstance(i, slice) and np.ndim(i)]
    if len(arrays) < 2:
        return at
    full = [np.arange(*i.indices(shape[k])) if isinstance(i, slice) else xp_of(i).asarray(i) for k, i in enumerate(at)]
    moving = [k for k, i in enumerate(full) if i.ndim]
    for place, k in enumerate(moving):
        full[k] = full[k].reshape((1,) * place + (-1,) + (1,) * (len(moving) - place - 1))
    return full


def join(values: list[V], base: str, depth: int) -> V:
    """Values of one shape along a new first axis."""
    arrays = [consolidated(v).a for v in values]
    if len({np.shape(a) for a in arrays}) > 1:
        raise StanError("the entries of an array have different sizes")
    return V(base, xp_of(*arrays).stack(arrays), depth, any(v.tainted for v in values))
