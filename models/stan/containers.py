"""Functions that make, cut, sum and reorder containers."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models.stan.special import log_sum_exp
from bayesrecon.models.stan.values import AXES, StanError, V, check_size, join, number, real, whole, xp_of


def _need(holds: bool, text: str) -> None:
    if not holds:
        raise StanError(text)


def _length(size: V) -> int:
    length = number(size, "a size")
    check_size((length,), "a container")
    return length


def repeated(base: str) -> Callable[..., V]:
    def rep(x: V, *sizes: V) -> V:
        shape = tuple(number(s, "a size") for s in sizes)
        check_size(shape, f"rep_{base}")
        a = xp_of(x.a).asarray(x.a, float)
        if base == "matrix" and x.base == "vector":
            check_size((*x.shape, *shape), "rep_matrix")
            return V("matrix", xp_of(a).tile(a[:, None], (1, shape[0])))
        if base == "matrix" and x.base == "row_vector":
            check_size((*shape, *x.shape), "rep_matrix")
            return V("matrix", xp_of(a).tile(a[None, :], (shape[0], 1)))
        return V(base, xp_of(a).broadcast_to(a, shape).copy())

    return rep


def rep_array(x: V, *sizes: V) -> V:
    shape = tuple(number(s, "a size") for s in sizes)
    check_size(shape + x.shape, "rep_array")
    return V(x.base, xp_of(x.a).broadcast_to(x.a, shape + x.shape).copy(), x.depth + len(shape))


def _sum(x: V) -> V:
    xp = xp_of(x.a)
    return V("int" if x.base == "int" else "real", xp.sum(x.a))


def _product(x: V) -> V:
    return V("int" if x.base == "int" else "real", xp_of(x.a).prod(x.a))


def _extreme(name: str) -> Callable[..., V]:
    def pick(*args: V) -> V:
        if len(args) == 2:
            xp = xp_of(*(v.a for v in args))
            chosen = (xp.maximum if name == "max" else xp.minimum)(args[0].a, args[1].a)
            return V("int" if args[0].base == args[1].base == "int" else "real", chosen)
        (x,) = args
        _need(int(np.prod(x.shape)) > 0, f"{name} of nothing")
        extreme = getattr(xp_of(x.a), name)(x.a)
        return (
            V("int", extreme if isinstance(extreme, jax.Array) else int(extreme)) if x.base == "int" else real(extreme)
        )

    return pick


def _variance(x: V) -> V:
    a = xp_of(x.a).asarray(x.a, float)
    return real(xp_of(a).sum((a - a.mean()) ** 2) / (a.size - 1) if a.size > 1 else 0.0)


def _sd(x: V) -> V:
    variance = _variance(x).a
    return real(xp_of(variance).sqrt(variance))


def _dot(x: V, y: V) -> V:
    _need(x.shape == y.shape, f"dot_product of {x.shape} and {y.shape}")
    return real(xp_of(x.a, y.a).sum(x.a * y.a))


def _distance(x: V, y: V) -> V:
    return real(xp_of(x.a, y.a).sqrt(squared_distance(x, y).a))


def squared_distance(x: V, y: V) -> V:
    return real(xp_of(x.a, y.a).sum((x.a - y.a) ** 2))


def append(axis: int) -> Callable[..., V]:
    def join_two(x: V, y: V) -> V:
        xp = xp_of(x.a, y.a)
        flat = ("vector", "real", "int") if axis == 0 else ("row_vector", "real", "int")
        if x.base in flat and y.base in flat and not (x.scalar and y.scalar):
            return V(flat[0], xp.concatenate([xp.atleast_1d(x.a), xp.atleast_1d(y.a)]))
        parts = []
        for v in (x, y):
            if v.base == "matrix":
                parts.append(v.a)
            elif v.base == "vector":
                parts.append(v.a[:, None])
            elif v.base == "row_vector":
                parts.append(v.a[None, :])
            else:
                parts.append(xp.reshape(v.a, (1, 1)))
        return V("matrix", xp.concatenate(parts, axis=axis))

    return join_two


def append_array(x: V, y: V) -> V:
    return V(x.base, xp_of(x.a, y.a).concatenate([x.a, y.a]), x.depth)


def _columns_first(x: V) -> jax.Array:
    """Elements in Stan's order: of matrices by columns."""
    return x.a.T.reshape(-1) if x.base == "matrix" and not x.depth else xp_of(x.a).reshape(x.a, (-1,))


def flat_as(base: str) -> Callable[[V], V]:
    return lambda x: V(base, xp_of(x.a).asarray(_columns_first(x), float))


def to_matrix(x: V, *sizes: V) -> V:
    if not sizes:
        if x.depth or x.base == "matrix":
            return V("matrix", xp_of(x.a).asarray(x.a, float))
        return V("matrix", x.a[:, None] if x.base == "vector" else x.a[None, :])
    rows, columns = (number(s, "a size") for s in sizes[:2])
    by_columns = len(sizes) < 3 or number(sizes[2], "the order") == 1
    flat = _columns_first(x)
    _need(rows * columns == flat.shape[0], f"to_matrix of {flat.shape[0]} numbers into {rows} by {columns}")
    return V("matrix", flat.reshape(columns, rows).T if by_columns else flat.reshape(rows, columns))


def to_array_1d(x: V) -> V:
    return V("int" if x.base == "int" else "real", _columns_first(x), 1)


def to_array_2d(x: V) -> V:
    return V("real", x.a, 2)


def part(x: V, start: int, stop: int) -> V:
    _need(0 <= start <= stop <= x.shape[0], f"entries {start + 1} to {stop} of {x.shape[0]}")
    return V(x.base, x.a[start:stop], x.depth)


def _head(x: V, n: V) -> V:
    return part(x, 0, number(n, "a count"))


def _tail(x: V, n: V) -> V:
    return part(x, x.shape[0] - number(n, "a count"), x.shape[0])


def _segment(x: V, start: V, n: V) -> V:
    first = number(start, "a place") - 1
    return part(x, first, first + number(n, "a count"))


def _block(x: V, row: V, column: V, rows: V, columns: V) -> V:
    r, c, n, m = (number(v, "a place") for v in (row, column, rows, columns))
    _need(r > 0 and c > 0 and r - 1 + n <= x.shape[0] and c - 1 + m <= x.shape[1], "the block exceeds its matrix")
    return V("matrix", x.a[r - 1 : r - 1 + n, c - 1 : c - 1 + m])


def _line(axis: int, count: bool = False) -> Callable[..., V]:
    """A row or a column, or with `count` its first elements from a place on."""

    def pick(x: V, k: V, *more: V) -> V:
        from bayesrecon.models.stan.values import index

        result = index(x, [k] if axis == 0 else [slice(None), k])
        if not count:
            return result
        start, n = more if len(more) == 2 else (whole(1), more[0])
        return _segment(result, start, n)

    return pick


def _sub(axis: int) -> Callable[..., V]:
    def pick(x: V, i: V, j: V, n: V) -> V:
        r, c, m = (number(v, "a place") for v in (i, j, n))
        if axis == 1:
            return V("vector", x.a[r - 1 : r - 1 + m, c - 1])
        return V("row_vector", x.a[r - 1, c - 1 : c - 1 + m])

    return pick


def _size(x: V) -> V:
    return whole(x.shape[0] if x.depth else int(np.prod(x.shape)))


def _rows(x: V) -> V:
    return whole(1 if x.base == "row_vector" else x.shape[0])


def _cols(x: V) -> V:
    return whole(1 if x.base == "vector" else x.shape[-1])


def _dims(x: V) -> V:
    return V("int", np.asarray(x.shape, np.int64), 1)


def _sorted(descending: bool, indices: bool = False) -> Callable[[V], V]:
    def order(x: V) -> V:
        xp = xp_of(x.a)
        at = xp.argsort(-x.a if descending else x.a, stable=True)
        return V("int", at + 1, 1) if indices else V(x.base, x.a[at], x.depth)

    return order


def _reverse(x: V) -> V:
    return V(x.base, x.a[::-1], x.depth)


def _cumulative(x: V) -> V:
    return V(x.base, xp_of(x.a).cumsum(x.a), x.depth)


def _softmax(x: V) -> V:
    return V(x.base, jax.nn.softmax(jnp.asarray(x.a, float)))


def _log_softmax(x: V) -> V:
    return V(x.base, jax.nn.log_softmax(jnp.asarray(x.a, float)))


def _log_sum_exp(*args: V) -> V:
    if len(args) == 2:
        xp = xp_of(*(v.a for v in args))
        both = xp.stack(xp.broadcast_arrays(*(xp.asarray(v.a, float) for v in args)))
        shaped = next((v for v in args if not v.scalar), None)
        total = log_sum_exp(both, axis=0)
        return V(shaped.base, total, shaped.depth) if shaped else real(total)
    return real(log_sum_exp(args[0].a))


def _one_hot(base: str) -> Callable[[V, V], V]:
    def make(size: V, at: V) -> V:
        a = np.zeros(_length(size))
        a[number(at, "a place") - 1] = 1.0
        return V("real", a, 1) if base == "array" else V(base, a)

    return make


def _linspaced(base: str) -> Callable[..., V]:
    def make(size: V, low: V, high: V) -> V:
        xp = xp_of(low.a, high.a)
        a = xp.linspace(low.a, high.a, _length(size))
        return (
            V("int", np.rint(a).astype(int), 1) if base == "int" else V("real", a, 1) if base == "array" else V(base, a)
        )

    return make


def _constant(base: str, value: float) -> Callable[[V], V]:
    return lambda size: V(base, np.full(_length(size), value))


CONTAINERS: dict[str, Callable[..., V]] = {
    **{f"rep_{base}": repeated(base) for base in ("vector", "row_vector", "matrix")},
    "rep_array": rep_array,
    "sum": _sum,
    "prod": _product,
    "mean": lambda x: real(xp_of(x.a).mean(x.a)),
    "variance": _variance,
    "sd": _sd,
    "max": _extreme("max"),
    "min": _extreme("min"),
    "dot_product": _dot,
    "dot_self": lambda x: _dot(x, x),
    "distance": _distance,
    "squared_distance": squared_distance,
    "norm2": lambda x: real(xp_of(x.a).sqrt(xp_of(x.a).sum(x.a * x.a))),
    "norm1": lambda x: real(xp_of(x.a).sum(xp_of(x.a).abs(x.a))),
    "append_row": append(0),
    "append_col": append(1),
    "append_array": append_array,
    "to_vector": flat_as("vector"),
    "to_row_vector": flat_as("row_vector"),
    "to_matrix": to_matrix,
    "to_array_1d": to_array_1d,
    "to_array_2d": to_array_2d,
    "head": _head,
    "tail": _tail,
    "segment": _segment,
    "block": _block,
    "row": _line(0),
    "col": _line(1),
    "sub_col": _sub(1),
    "sub_row": _sub(0),
    "size": _size,
    "num_elements": lambda x: whole(int(np.prod(x.shape))),
    "rows": _rows,
    "cols": _cols,
    "dims": _dims,
    "sort_asc": _sorted(False),
    "sort_desc": _sorted(True),
    "sort_indices_asc": _sorted(False, True),
    "sort_indices_desc": _sorted(True, True),
    "reverse": _reverse,
    "cumulative_sum": _cumulative,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "log_sum_exp": _log_sum_exp,
    "one_hot_vector": _one_hot("vector"),
    "one_hot_row_vector": _one_hot("row_vector"),
    "one_hot_array": _one_hot("array"),
    "linspaced_vector": _linspaced("vector"),
    "linspaced_row_vector": _linspaced("row_vector"),
    "linspaced_array": _linspaced("array"),
    "linspaced_int_array": _linspaced("int"),
    "zeros_vector": _constant("vector", 0.0),
    "ones_vector": _constant("vector", 1.0),
    "zeros_row_vector": _constant("row_vector", 0.0),
    "ones_row_vector": _constant("row_vector", 1.0),
}
"""Functions by their name in Stan."""


def listed(values: list[V], row: bool) -> V:
    """`{a, b}`, or `[a, b]`: a row vector of numbers, a matrix of row vectors."""
    if not values:
        return V("row_vector", np.zeros(0))
    first = values[0]
    bases = {v.base for v in values}
    base = "real" if bases <= {"int", "real"} and "real" in bases else first.base
    if any(v.depth != first.depth for v in values) or (len(bases) > 1 and base != "real"):
        raise StanError("the entries of an array have different types")
    if row:
        if first.depth or first.base not in ("int", "real", "row_vector"):
            raise StanError(f"[...] of a {first.words} is not defined")
        made = join(values, "matrix" if AXES[first.base] else "row_vector", 0)
        return V(made.base, xp_of(made.a).asarray(made.a, float), 0, made.tainted)
    return join(values, base, first.depth + 1)
