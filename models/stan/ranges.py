"""Domains of data without declared bounds, from how a program uses them.

A distribution leaves no density outside its support: what is drawn from a Bernoulli distribution is 0 or 1. Nor is
there one where the logarithm of a negative number is taken. Integers that are compared with literals and used in no
other way (`age[n] == 2`) matter by the outcomes of the comparisons alone. They are *presumed* to be codes that run over
those literals: all others have the density of one of these.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayesrecon.domains import BINARY, COUNT, POSITIVE, Domain
from bayesrecon.model import Field
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.program_fields import FEW, RecordField

_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_BINARY = ("bernoulli", "bernoulli_logit", "bernoulli_logit_glm")
_TRIALS = ("binomial", "binomial_logit", "binomial_logit_glm", "beta_binomial")  # whose first argument is a count, too
_COUNTS = (
    *_TRIALS,
    *("poisson", "poisson_log", "poisson_log_glm", "neg_binomial", "neg_binomial_2", "neg_binomial_2_log"),
    "neg_binomial_2_log_glm",
)

_POSITIVE = ("lognormal", "gamma", "inv_gamma", "exponential", "weibull", "chi_square", "rayleigh")
_LOGARITHMS = ("log", "log10", "log2", "sqrt")

Comparison = tuple[str, float]
"""An operator, and the literal to the right of it."""


def with_ranges(
    program: tree.Program, columns: Mapping[str, RecordField], fields: Mapping[str, Field]
) -> dict[str, Field]:
    """Fields without two bounds with the range that the program tells."""
    result = dict(fields)
    compared, supports = comparisons(program), _supports(program)
    for name in columns:
        domain = fields[name].domain
        if domain.kind not in ("integer", "real") or math.isfinite(domain.width):
            continue
        if name in compared:
            if domain.kind == "real":
                continue
            implied_domain = (
                _codes(compared[name], domain) if _only_compared(program, name, len(compared[name])) else None
            )
        else:
            implied_domain = _within(supports.get(name), domain)
        if implied_domain is not None:
            result[name] = replace(fields[name], domain=implied_domain)
    return result


def presumed_notes(program: tree.Program, fields: Mapping[str, Field]) -> tuple[str, ...]:
    """Assumed domains, one line per field."""
    compared = comparisons(program)
    presumed = {name: field.domain for name, field in fields.items() if field.domain.presumed}
    literals = {name: ", ".join(f"{c:g}" for c in sorted({c for _, c in compared[name]})) for name in presumed}
    return tuple(
        f"{name} has no bounds in the program: it is assumed to be {domain.words}, because it is compared with "
        f"{literals[name]} and used in no other way; set another range with domain="
        for name, domain in presumed.items()
    )


def comparisons(program: tree.Program) -> dict[str, list[Comparison]]:
    """Comparisons of variables with literals, by name; a number that stands for a truth is compared with 0."""
    result: dict[str, list[Comparison]] = {}
    for node in tree.walk(_blocks(program)):
        for test in _tests(node):
            if (name := _name(test)) is not None:
                result.setdefault(name, []).append(("!=", 0.0))
        if isinstance(node, tree.Binary) and node.op in _TURNED:
            for op, test, other in ((node.op, node.left, node.right), (_TURNED[node.op], node.right, node.left)):
                name, value = _name(test), _literal(other)
                if name is not None and value is not None:
                    result.setdefault(name, []).append((op, value))
    return result


def _blocks(program: tree.Program) -> tuple[tuple[tree.Statement, ...], ...]:
    """Blocks that read data; functions of the program do not."""
    return (program.transformed_data, program.transformed_parameters, program.model)


def _tests(node: tree.Node) -> tuple[tree.Expression, ...]:
    """Parts of a node that are taken for true or false."""
    if isinstance(node, tree.If | tree.While | tree.Ternary):
        return (node.test,)
    if isinstance(node, tree.Unary) and node.op == "!":
        return (node.operand,)
    return (node.left, node.right) if isinstance(node, tree.Binary) and node.op in ("&&", "||") else ()


def _name(node: tree.Expression) -> str | None:
    """The variable that an element is of, where it may be any."""
    if isinstance(node, tree.Index) and any(isinstance(i, tree.Number) for i in node.indices):
        return None
    inside = node.container if isinstance(node, tree.Index) else node
    return inside.name if isinstance(inside, tree.VariableName) else None


def _literal(node: tree.Expression) -> float | None:
    if isinstance(node, tree.Unary) and node.op == "-" and isinstance(node.operand, tree.Number):
        return -float(node.operand.value)
    return float(node.value) if isinstance(node, tree.Number) else None


def _only_compared(program: tree.Program, name: str, count: int) -> bool:
    """Whether a variable is read by so many comparisons and by nothing else."""
    read = [n for n in tree.walk(_blocks(program)) if isinstance(n, tree.VariableName) and n.name == name]
    return len(read) == count


def _codes(compared: list[Comparison], domain: Domain) -> Domain | None:
    """Integers without a gap, with one for every outcome of the comparisons."""
    codes: set[float] = set()
    cuts = False
    for op, value in compared:
        if op in ("==", "!="):
            codes |= {value} if value.is_integer() else set()
            continue
        cuts = True
        below = math.floor(value) if op in (">", "<=") else math.ceil(value) - 1
        codes |= {float(below), float(below + 1)}
    codes = {v for v in codes if domain.low <= v <= domain.high}
    if not codes:
        return None
    low, high = min(codes), max(codes)
    if not cuts and len(codes) == high - low + 1:
        # None of them is an outcome, too: the baseline, below them where codes count from 0 or from 1.
        low, high = (low - 1, high) if low >= 1 and low - 1 >= domain.low else (low, high + 1)
    low = min(low, domain.low) if math.isfinite(domain.low) else low
    high = max(high, domain.high) if math.isfinite(domain.high) else high
    if not 0 < high - low < FEW or high > domain.high:
        return None
    return Domain("levels", levels=tuple(low + k for k in range(int(high - low) + 1)), presumed=True)


def _supports(program: tree.Program) -> dict[str, Domain]:
    """Supports of variables that have a distribution or of which a logarithm is taken.

    Statements inside of branches are ignored, as they may be about some records only.
    """
    result: dict[str, Domain] = {}
    nodes = tree.walk(_blocks(program))
    branches = [n for n in nodes if isinstance(n, tree.If | tree.While | tree.Ternary)]
    conditional = {id(n) for branch in branches for n in tree.walk(branch)}
    for node in nodes:
        if id(node) in conditional:
            continue
        if isinstance(node, tree.Tilde):
            family, variate, args = node.name, node.variate, node.args
        elif isinstance(node, tree.Call) and node.args:
            family, variate, args = re.sub(r"_lu?p[md]f$", "", node.name), node.args[0], node.args[1:]
            if family == node.name and family not in _LOGARITHMS:
                continue
        else:
            continue
        supports: list[tuple[tree.Expression, Domain]] = []
        if family in _BINARY:
            supports = [(variate, BINARY)]
        elif family in _COUNTS:
            supports = [(expression, COUNT) for expression in (variate, *(args[:1] if family in _TRIALS else ()))]
        elif family in _POSITIVE or family in _LOGARITHMS:
            supports = [(variate, POSITIVE)]
        for expression, domain in supports:
            if (name := _name(expression)) is not None:
                result.setdefault(name, domain)
    return result


def _within(support: Domain | None, declared: Domain) -> Domain | None:
    """A support inside of declared bounds."""
    if support is None:
        return None
    if declared.kind == "real":
        return support if support == POSITIVE else None
    if support.kind == "levels":
        return support if declared.contains(np.array(support.levels)).all() else None
    return Domain("integer", max(support.low, declared.low), declared.high)
