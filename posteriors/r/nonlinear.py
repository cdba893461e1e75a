"""Nonlinear least squares of R: sums over records of products of derivatives, and statistics that follow from them.

With `D_a = df/da` at the estimates, `cov.unscaled` is `(sum D D')^-1` and `sigma^2 (n - p)` the sum of squares (Bates
and Watts, Nonlinear Regression Analysis, 1988, section 2.2). At the least-squares estimate `sum D_a (y - f) = 0`. A
formula that is linear in all parameters is a linear regression on its gradient, and is attacked as that table.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import Estimates, Statistic, exactly, field_name
from bayesrecon.posteriors.r.parts import inverse_of, matrix_of, not_attacked, one_number, unknown_weights, vector_of
from bayesrecon.posteriors.r.r_objects import Place, RObjects

# Expressions in formulas of R: their derivatives, values and texts.

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
    """Derivative of an expression with respect to a name."""
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
    """The value of an expression at values of all its names; NaN if it is undefined there."""
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


_POINTS = 8  # number of points at which two expressions are compared
_SAME = 1e-9  # largest relative difference of equal expressions
_MOST_PARAMETERS = 12
_LONGEST = 1000  # characters of derivatives that are shown
_STEP = 20 * 1.5e-8  # step of R's finite differences, times an allowance for curvature and cancellation
_CONVERGED = 1e-2  # largest relative offset of a converged fit
_PLACES = ("coefficients", "parameters", "cov.unscaled", "sigma", "df", "convInfo", "control", "m")
_TABLES = ("summary.nls",)


class _Fit(NamedTuple):
    """Numbers of a fit.

    Attributes:
        names, values: names of the parameters, and their estimates `(p,)`.
        products: `(p, p)`, sums of products of the entries of the gradient.
        squares: residual sum of squares.
        records: number of records.
        formula: node of the formula.
        offset: relative offset at the last step.
    """

    names: list[str]
    values: np.ndarray
    products: np.ndarray
    squares: float
    records: float
    formula: int
    offset: float


def nonlinear(objects: RObjects, place: Place, description: str) -> Estimates:
    """Estimates of a fit that stores its functions, or of its summary."""
    fit = _of_summary(objects, place.node) if set(_TABLES) & set(objects.classes(place.node)) else None
    fit = fit or _of_fit(objects, place.node)
    if fit is None:
        return not_attacked(place, description, "its estimates are not in it, but in an environment that is empty")
    names, values, products, squares, n, formula, offset = fit
    unsupported = unknown_weights(objects, place.node)
    if unsupported:
        return not_attacked(place, description, unsupported)
    sides = objects.elements(formula) if objects.kind(formula) == "call" else []
    f = expression_of(objects, sides[2][1]) if len(sides) == 3 else None
    if f is None or not set(names) <= names_in(f) or len(names) > _MOST_PARAMETERS:
        return not_attacked(place, description, "its formula uses more than + - * / ^ exp log sqrt")
    p = len(names)
    valid = products.shape == (p, p) and np.isfinite(products).all() and squares >= 0 and math.isfinite(squares)
    if not valid or not n > p or not np.isfinite(values).all():
        return not_attacked(place, description, "its numbers are not those of a fit")
    gradient = [derivative(f, name) for name in names]
    response_side = expression_of(objects, sides[1][1])
    response = field_name(text_of(response_side)) if response_side is not None else "y"
    at = dict(zip(names, values.tolist(), strict=True))
    places = tuple(f"{place.where}/{name}" for name in _PLACES)
    if not set(names) & set().union(*map(names_in, gradient)) and _spans(f, gradient, at):
        labels = tuple("const" if g == 1.0 else field_name(text_of(g)) for g in gradient)
        variance = squares / (n - p)
        if len(set(labels)) == p and variance > 0 and offset <= _CONVERGED:
            result = Estimates(place.where, description, places, "ols", labels, response, values)
            inverse = inverse_of(products)
            if inverse is None:
                return not_attacked(place, description, "its numbers are not those of a fit")
            last_step = offset * math.sqrt(n - p) + 2 * float(_differences(values, products, n).max())
            return replace(result, covariance=inverse * variance, scale=variance, last_step=last_step)
    statistics = tuple(_statistics(names, gradient, products, squares, n, response, f, at, offset))
    derivatives = ", ".join(f"D[{name}] = {text_of(g)}" for name, g in zip(names, gradient, strict=True))
    because = f"its covariance is that of the gradient of its formula, {derivatives[:_LONGEST]}, at the estimates"
    return Estimates(place.where, description, places, statistics=statistics, because=because)


def _differences(values: np.ndarray, products: np.ndarray, n: float) -> np.ndarray:
    """Relative errors of the derivatives `(p,)`, which `numericDeriv` computes by finite differences.

    The relative step is `sqrt(eps)`. The errors are those of rounding, which matter if the parameter contributes little
    to the formula, and those of curvature.
    """
    parts = np.abs(values) * np.sqrt(np.abs(np.diag(products)) / n)
    return _STEP * (1 + parts.max() / np.maximum(parts, 1e-300))


def _of_summary(objects: RObjects, node: int) -> _Fit | None:
    table, unscaled = (matrix_of(objects, node, name) for name in ("coefficients", "cov.unscaled"))
    names = [*objects.axis_names(objects.element(node, "coefficients")), []][0]
    sigma, degrees = one_number(objects, node, "sigma"), vector_of(objects, node, "df")
    p = len(names)
    if table.ndim != 2 or len(table) != p or not p or unscaled.shape != (p, p) or sigma is None or len(degrees) != 2:
        return None
    if not np.isfinite(unscaled).all() or not np.isfinite(degrees).all():
        return None
    products, formula = inverse_of(unscaled), objects.element(node, "formula")
    if products is None:
        return None
    squares, n = sigma * sigma * degrees[1], float(degrees.sum())
    return _Fit(names, table[:, 0], products, squares, n, formula, _offset(objects, node))


def _of_fit(objects: RObjects, node: int) -> _Fit | None:
    """The fit from the environment that its functions share."""
    environment = objects.parts(objects.element(node, "m", "resid")).get("environment", 0)
    if objects.kind(environment) != "environment":
        return None
    factor = matrix_of(objects, environment, "QR", "qr")
    pivot = vector_of(objects, environment, "QR", "pivot")
    values, residuals = vector_of(objects, environment, "internalPars"), vector_of(objects, environment, "resid")
    names = [name for name, _ in objects.elements(objects.element(environment, "ind"))]
    p, squares = len(values), one_number(objects, environment, "dev")
    if factor.ndim != 2 or factor.shape != (len(residuals), p) or len(names) != p or len(factor) < p or squares is None:
        return None
    if not np.array_equal(pivot, np.arange(1, p + 1)):
        return None
    triangle, formula = np.triu(factor[:p]), objects.element(environment, "form")
    if objects.kind(formula) == "promise":
        formula = objects.parts(formula).get("value", 0)
    products = triangle.T @ triangle
    return _Fit(names, values, products, squares, float(len(residuals)), formula, _offset(objects, node))


def _offset(objects: RObjects, node: int) -> float:
    """The relative offset at convergence: residuals along the gradient, relative to the others; else infinite."""
    info = objects.element(node, "convInfo")
    ended = vector_of(objects, info, "isConv")
    message = " ".join(objects.texts(objects.element(info, "stopMessage"))[:1])
    at = vector_of(objects, info, "finTol")
    return float(at[0]) if len(at) == 1 and len(ended) == 1 and ended[0] == 1 and message == "converged" else math.inf


def _spans(f: Expression, gradient: list[Expression], at: dict[str, float]) -> bool:
    """Whether the formula is the sum of its parameters, each times its derivative, at random values of other names."""
    rng = np.random.default_rng(0)
    others = sorted(names_in(f) - set(at))
    compared = 0
    for _ in range(4 * _POINTS):
        point = at | dict(zip(others, rng.uniform(0.5, 2.0, len(others)).tolist(), strict=True))
        value = value_of(f, point)
        parts = [point[name] * value_of(g, point) for name, g in zip(at, gradient, strict=True)]
        if not all(map(math.isfinite, (value, *parts))):
            continue
        if abs(value - sum(parts)) > _SAME * (abs(value) + sum(map(abs, parts))):
            return False
        compared += 1
    return compared >= _POINTS


def _statistics(
    names: list[str],
    gradient: list[Expression],
    products: np.ndarray,
    squares: float,
    n: float,
    response: str,
    f: Expression,
    at: dict[str, float],
    offset: float,
) -> Iterator[Statistic]:
    yield exactly("n", n)
    yield exactly(f"sum(({response} - fitted)^2)", squares)
    constant = next((k for k, g in enumerate(gradient) if g == 1.0), None)
    values, norms = np.array(list(at.values())), np.sqrt(np.abs(np.diag(products)))
    rough = _differences(values, products, n)
    slack = (rough[:, None] + rough[None, :]) * np.outer(norms, norms)
    for i, j in combinations_with_replacement(range(len(names)), 2):
        if constant in (i, j):
            other = i if j == constant else j
            if other != constant:
                yield _within(f"sum(D[{names[other]}])", products[i, j], slack[i, j])
        else:
            name = f"D[{names[i]}]^2" if i == j else f"D[{names[i]}] * D[{names[j]}]"
            yield _within(f"sum({name})", products[i, j], slack[i, j])
    used = {k for k, g in enumerate(gradient) if not names_in(g) & {names[k]}}
    weights = np.array([at[name] if k in used else 0.0 for k, name in enumerate(names)])
    parts = [g if k in used else 0.0 for k, g in enumerate(gradient)]
    if not offset <= _CONVERGED or not _spans(f, parts, at):
        return
    # The formula is a sum of some parameters, each times its derivative. Up to the remaining offset, the residuals are
    # orthogonal to it and to the gradient.
    along = offset * math.sqrt(squares)
    for k, name in enumerate(names):
        value = float(products[k] @ weights)
        off = (along + rough[k] * math.sqrt(squares)) * norms[k] + float(slack[k] @ np.abs(weights))
        label = f"sum({response})" if k == constant else f"sum({response} * D[{name}])"
        yield _within(label, value, off)
    fitted = float(weights @ products @ weights)
    off = 2 * along * math.sqrt(max(fitted, 0.0)) + float(np.abs(weights) @ slack @ np.abs(weights))
    yield _within(f"sum({response}^2)", squares + fitted, off)


def _within(name: str, value: float, off: float) -> Statistic:
    return Statistic(name, float(value), float(value - off), float(value + off))
