"""Operators of the language."""

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.models.stan.linear_algebra import solve
from bayesrecon.models.stan.values import StanError, V, check_size, iterations_of, xp_of

_ROWS = {"vector": "row_vector", "row_vector": "vector", "matrix": "matrix"}
_PRODUCTS = {
    ("row_vector", "vector"): "real",
    ("vector", "row_vector"): "matrix",
    ("matrix", "vector"): "vector",
    ("row_vector", "matrix"): "row_vector",
    ("matrix", "matrix"): "matrix",
}


def unary(op: str, x: V) -> V:
    result = _unary(op, x)
    if x.iterations is not None and result.scalar:
        result.iterations = iterations_of(lambda a: _unary(op, V(x.base, a)).a if op != "!" else (a == 0) * 1, x)
    return result


def binary(op: str, x: V, y: V) -> V:
    result = _binary(op, x, y)
    if (x.iterations is not None or y.iterations is not None) and result.scalar and op in _KNOWN:
        result.iterations = iterations_of(_KNOWN[op], x, y)
    return result


def _unary(op: str, x: V) -> V:
    if op == "'":
        if x.depth or x.base not in _ROWS:
            raise StanError(f"a {x.words} cannot be transposed")
        return V(_ROWS[x.base], x.a.T if x.base == "matrix" else x.a, 0, x.tainted)
    if op == "-":
        return V(x.base, -x.a, x.depth, x.tainted)
    if op == "+":
        return x
    return V("int", _whole(x.a == 0), 0, x.tainted)


def _binary(op: str, x: V, y: V) -> V:
    tainted = x.tainted or y.tainted
    if op in ("*", "/", "\\") and not (x.scalar or y.scalar):
        return _matrix(op, x, y, tainted)
    if op in ("==", "!=", "<", "<=", ">", ">="):
        if not (x.scalar and y.scalar):
            raise StanError(f"{op} compares numbers, not a {x.words} with a {y.words}")
        return V("int", _whole(_COMPARE[op](x.a, y.a)), 0, tainted)
    if op in ("&&", "||"):
        both = [np.asarray(v.a) != 0 if v.known else v.a != 0 for v in (x, y)]
        return V("int", _whole(both[0] & both[1] if op == "&&" else both[0] | both[1]), 0, tainted)
    shaped = y if x.scalar else x
    if not (x.scalar or y.scalar) and (x.shape != y.shape or x.base != y.base or x.depth != y.depth):
        raise StanError(f"{x.words} {x.shape} {op} {y.words} {y.shape}: their shapes differ")
    if op == "/" and x.base == y.base == "int" and x.scalar and y.scalar:
        return V("int", _truncated(x.a, y.a), 0, tainted)
    base = "real" if shaped.base == "int" and "real" in (x.base, y.base) else shaped.base
    if op in ("/", "./", "^", ".^") and base == "int":
        base = "real"
    return V(base, _ELEMENTWISE[op](x.a, y.a), shaped.depth, tainted)


def _matrix(op: str, x: V, y: V, tainted: bool) -> V:
    if x.depth or y.depth:
        raise StanError(f"{x.words} {op} {y.words} is not defined")
    if op == "*":
        kind = _PRODUCTS.get((x.base, y.base))
        if kind is None or (x.base != "vector" and x.shape[-1] != y.shape[0]):
            raise StanError(f"{x.base} {x.shape} * {y.base} {y.shape} is not defined")
        check_size(
            (*x.shape[:-1], *y.shape[1:]) if kind != "matrix" or x.base == "matrix" else x.shape + y.shape, "a product"
        )
        if (x.base, y.base) == ("vector", "row_vector"):
            return V("matrix", x.a[:, None] * y.a[None, :], 0, tainted)
        return V(kind, x.a @ y.a, 0, tainted)
    if op == "/" and y.base == "matrix" and x.base in ("matrix", "row_vector"):
        return V(x.base, solve(y.a.T, x.a.T).T, 0, tainted)
    if op == "\\" and x.base == "matrix":
        return V(y.base, solve(x.a, y.a), 0, tainted)
    raise StanError(f"{x.base} {op} {y.base} is not defined")


def _whole(a: Array | float) -> jax.Array | float:
    return a.astype(int) if isinstance(a, jax.Array) else int(a)


def _truncated(a: Array | float, b: Array | float) -> Array | float:
    if isinstance(a, jax.Array) or isinstance(b, jax.Array):
        return jnp.trunc(a / b)
    if b == 0:
        raise StanError("an integer is divided by zero")
    return int(abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: Array | float, b: Array | float) -> Array | float:
    if not isinstance(b, jax.Array) and np.ndim(b) == 0 and b == 2:
        return a * a
    if not isinstance(b, jax.Array) and np.ndim(b) == 0 and float(b).is_integer() and abs(b) <= 64:
        xp = xp_of(a)
        return xp.asarray(a, float) ** int(b)
    xp = xp_of(a, b)
    return xp.power(xp.asarray(a, float), b)


def _remainder(a: Array | float, b: Array | float) -> Array | float:
    if not isinstance(b, jax.Array) and np.any(np.asarray(b) == 0):
        raise StanError("a modulus of zero")
    return xp_of(a, b).fmod(a, b).astype(int) if isinstance(a, jax.Array) or np.ndim(a) else int(np.fmod(a, b))


def divide(a: Array | float, b: Array | float) -> Array | float:
    if isinstance(a, jax.Array) or isinstance(b, jax.Array):
        return a / b
    return np.true_divide(a, b)


_COMPARE = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_KNOWN = {
    **{op: (lambda a, b, f=f: np.asarray(f(a, b)) * 1) for op, f in _COMPARE.items()},
    "&&": lambda a, b: ((np.asarray(a) != 0) & (np.asarray(b) != 0)) * 1,
    "||": lambda a, b: ((np.asarray(a) != 0) | (np.asarray(b) != 0)) * 1,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}
"""Operators whose results are kept one iteration at a time: those that branches and bounds are made of."""

_ELEMENTWISE = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    ".*": lambda a, b: a * b,
    "/": divide,
    "./": divide,
    "^": _power,
    ".^": _power,
    "%": _remainder,
    "%/%": _truncated,
}
