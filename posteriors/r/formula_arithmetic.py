"""Arithmetic in formulas of R: its derivatives, its values and its text.

An expression is a number, a name, or a tuple of an operator and expressions.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bayesrecon.posteriors.r.r_objects import Objects

Expression = Any
"""A name, a number, or a tuple of an operator or function and its arguments, which are expressions."""

_BINARY = ("+", "-", "*", "/", "^")
_FUNCTIONS = ("exp", "log", "sqrt")
_DEEPEST = 40


def expression_of(objects: Objects, node: int, deep: int = 0) -> Expression | None:
    """A call, a name or a number; None for anything else."""
    kind = objects.kind(node)
    if kind == "symbol":
        names = objects.names_within(node)
        return names[0] if names else None
    if kind in ("double", "integer") and objects.size(node) == 1:
        value = float(objects.numbers(node)[0])
        return value if math.isfinite(value) else None
    elements = objects.elements(node) if kind == "call" and deep < _DEEPEST else []
    if not elements or objects.kind(elements[0][1]) != "symbol":
        return None
    name = " ".join(objects.names_within(elements[0][1]))
    inside = [expression_of(objects, child, deep + 1) for _, child in elements[1:]]
    if any(e is None for e in inside):
        return None
    return _call(name, inside)


def _call(name: str, inside: Sequence[Expression]) -> Expression | None:
    if name == "(" and len(inside) == 1:
        return inside[0]
    if name == "I" and len(inside) == 1:
        return inside[0]
    if name == "-" and len(inside) == 1:
        return ("*", -1.0, inside[0])
    if (name in _BINARY and len(inside) == 2) or (name in _FUNCTIONS and len(inside) == 1):
        return (name, *inside)
    match name, inside:
        case "SSlogis", (x, top, middle, scale):
            return ("/", top, ("+", 1.0, ("exp", ("/", ("-", middle, x), scale))))
        case "SSmicmen", (x, top, half):
            return ("/", ("*", top, x), ("+", half, x))
        case "SSasymp", (x, top, begin, rate):
            decay = ("exp", ("*", ("*", -1.0, ("exp", rate)), x))
            return ("+", top, ("*", ("-", begin, top), decay))
        case "SSfpl", (x, low, high, middle, scale):
            down = ("+", 1.0, ("exp", ("/", ("-", middle, x), scale)))
            return ("+", low, ("/", ("-", high, low), down))
        case _:
            return None


def names_in(e: Expression) -> set[str]:
    """All names of an expression."""
    if isinstance(e, str):
        return {e}
    return set().union(*(names_in(part) for part in e[1:])) if isinstance(e, tuple) else set()


def derivative(e: Expression, by: str) -> Expression:
    """Derivative of an expression with respect to a name.

    >>> text_of(derivative(("*", "a", ("exp", ("*", "b", "x"))), "b"))
    'a * exp(b * x) * x'
    """
    if by not in names_in(e):
        return 0.0
    if e == by:
        return 1.0
    match e:
        case ("+" | "-" as sign, a, b):
            return _simple(sign, derivative(a, by), derivative(b, by))
        case ("*", a, b):
            return _simple("+", _simple("*", derivative(a, by), b), _simple("*", a, derivative(b, by)))
        case ("/", a, b):
            over = _simple("/", derivative(a, by), b)
            under = _simple("/", _simple("*", a, derivative(b, by)), _simple("^", b, 2.0))
            return _simple("-", over, under)
        case ("^", a, b):
            power = _simple("*", _simple("*", b, _simple("^", a, _simple("-", b, 1.0))), derivative(a, by))
            other = derivative(b, by)
            return power if other == 0.0 else _simple("+", power, _simple("*", _simple("*", e, ("log", a)), other))
        case ("exp", a):
            return _simple("*", e, derivative(a, by))
        case ("log", a):
            return _simple("/", derivative(a, by), a)
        case ("sqrt", a):
            return _simple("/", derivative(a, by), _simple("*", 2.0, e))
        case _:
            raise AssertionError(e)


def _simple(sign: str, a: Expression, b: Expression) -> Expression:
    match sign, a, b:
        case ("+", 0.0, _) | ("*", 1.0, _):
            return b
        case ("+" | "-", _, 0.0) | ("*" | "/" | "^", _, 1.0):
            return a
        case ("*", 0.0, _) | ("*", _, 0.0) | ("/", 0.0, _):
            return 0.0
        case "-", float(), float():
            return a - b
        case _:
            return (sign, a, b)


def value_of(e: Expression, at: Mapping[str, float]) -> float:
    """At values of all its names; not a number where it has none.

    >>> value_of(("^", "x", 2.0), {"x": 3.0})
    9.0
    """
    if isinstance(e, str):
        return at[e]
    if not isinstance(e, tuple):
        return e
    parts = [value_of(part, at) for part in e[1:]]
    try:
        match e[0]:
            case "+":
                return parts[0] + parts[1]
            case "-":
                return parts[0] - parts[1]
            case "*":
                return parts[0] * parts[1]
            case "/":
                return parts[0] / parts[1]
            case "^":
                power = parts[0] ** parts[1]
                return power if isinstance(power, float) else math.nan
            case name:
                return getattr(math, name)(parts[0])
    except (ArithmeticError, ValueError):
        return math.nan


def text_of(e: Expression) -> str:
    """The expression as R code."""
    if isinstance(e, str):
        return e
    if not isinstance(e, tuple):
        return f"{e:.10g}"
    if e[0] in _FUNCTIONS:
        return f"{e[0]}({text_of(e[1])})"
    a, b = (text_of(part) for part in e[1:])
    rank = _BINARY.index(e[0]) // 2
    if _rank(e[1]) < rank or (e[0] == "^" and _rank(e[1]) < 3):
        a = f"({a})"
    if _rank(e[2]) < rank or (e[0] in "-/^" and _rank(e[2]) <= rank):
        b = f"({b})"
    return f"{a} {e[0]} {b}" if e[0] != "^" else f"{a}^{b}"


def _rank(e: Expression) -> int:
    """How tightly it holds together: sums least, names and functions most."""
    if isinstance(e, float):
        return 3 if e >= 0 else 0
    return _BINARY.index(e[0]) // 2 if isinstance(e, tuple) and e[0] in _BINARY else 3
