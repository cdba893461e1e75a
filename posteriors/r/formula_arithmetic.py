"""Expressions in formulas of R: their derivatives, values and texts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bayesrecon.posteriors.r.r_objects import RObjects

Expression = str | float | tuple[Any, ...]
"""A name, a number, or a tuple of an operator or function and its arguments, which are expressions."""

_BINARY = ("+", "-", "*", "/", "^")
_FUNCTIONS = ("exp", "log", "sqrt")
_DEEPEST = 40  # largest number of nested calls


def expression_of(objects: RObjects, node: int, depth: int = 0) -> Expression | None:
    """The expression of a call, a name or a number; None for anything else."""
    kind = objects.kind(node)
    if kind == "symbol":
        names = objects.names_within(node)
        return names[0] if names else None
    if kind in ("double", "integer") and objects.size(node) == 1:
        value = float(objects.numbers(node)[0])
        return value if math.isfinite(value) else None
    elements = objects.elements(node) if kind == "call" and depth < _DEEPEST else []
    if not elements or objects.kind(elements[0][1]) != "symbol":
        return None
    name = " ".join(objects.names_within(elements[0][1]))
    arguments: list[Expression] = []
    for _, child in elements[1:]:
        argument = expression_of(objects, child, depth + 1)
        if argument is None:
            return None
        arguments.append(argument)
    return _call(name, arguments)


def _call(name: str, arguments: Sequence[Expression]) -> Expression | None:
    """The expression of a call; None if the function is not supported."""
    if name in ("(", "I") and len(arguments) == 1:
        return arguments[0]
    if name == "-" and len(arguments) == 1:
        return ("*", -1.0, arguments[0])
    if (name in _BINARY and len(arguments) == 2) or (name in _FUNCTIONS and len(arguments) == 1):
        return (name, *arguments)
    match name, arguments:
        case "SSlogis", (x, top, middle, scale):
            return ("/", top, ("+", 1.0, ("exp", ("/", ("-", middle, x), scale))))
        case "SSmicmen", (x, top, half):
            return ("/", ("*", top, x), ("+", half, x))
        case "SSasymp", (x, top, begin, rate):
            decay = ("exp", ("*", ("*", -1.0, ("exp", rate)), x))
            return ("+", top, ("*", ("-", begin, top), decay))
        case "SSfpl", (x, low, high, middle, scale):
            denominator = ("+", 1.0, ("exp", ("/", ("-", middle, x), scale)))
            return ("+", low, ("/", ("-", high, low), denominator))
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
            first = _simple("/", derivative(a, by), b)
            second = _simple("/", _simple("*", a, derivative(b, by)), _simple("^", b, 2.0))
            return _simple("-", first, second)
        case ("^", a, b):
            first = _simple("*", _simple("*", b, _simple("^", a, _simple("-", b, 1.0))), derivative(a, by))
            exponent = derivative(b, by)
            return (
                first if exponent == 0.0 else _simple("+", first, _simple("*", _simple("*", e, ("log", a)), exponent))
            )
        case ("exp", a):
            return _simple("*", e, derivative(a, by))
        case ("log", a):
            return _simple("/", derivative(a, by), a)
        case ("sqrt", a):
            return _simple("/", derivative(a, by), _simple("*", 2.0, e))
        case _:
            raise AssertionError(e)


def _simple(sign: str, a: Expression, b: Expression) -> Expression:
    """An operation, without terms of zero and factors of one."""
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
    """The value of an expression at values of all its names; NaN if it is undefined there.

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
    """Precedence of an expression: 0 for sums and negative numbers, 3 for names and functions."""
    if isinstance(e, float):
        return 3 if e >= 0 else 0
    return _BINARY.index(e[0]) // 2 if isinstance(e, tuple) and e[0] in _BINARY else 3
