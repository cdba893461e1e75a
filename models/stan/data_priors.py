"""Priors whose constants are made of the data: `alpha ~ normal(mean(y), 10)`.

Such a constant is made of all records, and no record alone tells it. Where a program writes it into the prior itself it
is given a name, as if it stood in the transformed data, so that it can be stated: `mean(y)` is `mean_y`.
"""

from dataclasses import replace
from typing import TypeGuard

from bayesrecon.models.stan import tree
from bayesrecon.models.stan.needs import tainted_names

REDUCTIONS = ("mean", "sd", "variance", "min", "max", "sum", "prod", "quantile", "norm2", "dot_self")
"""Functions that make one number of many."""

_SUFFIXES = ("_lpdf", "_lupdf", "_lpmf", "_lupmf", "_log")


def with_names(program: tree.Program) -> tree.Program:
    """The program where numbers that priors make of data are transformed data."""
    data = _declared(program.data) | _declared(program.transformed_data)
    taken = data | _declared(program.parameters) | _declared(program.transformed_parameters) | _declared(program.model)
    made: dict[str, tree.Declare] = {}

    def named(node: tree.Node) -> tree.VariableName | None:
        if not isinstance(node, tree.Call) or node.name not in REDUCTIONS:
            return None
        names = tree.names_in(node)
        if not names or not names <= data:
            return None
        name = "_".join([node.name, *sorted(names)])
        while name in taken:
            name += "_"
        taken.add(name)
        made[name] = tree.Declare(node.position, name, tree.Type("real", (), (), ()), node)
        return tree.VariableName(node.position, name)

    def in_prior(node: tree.Node) -> tree.Node | None:
        if not _is_prior(node, data):
            return None
        if isinstance(node, tree.Tilde):
            return replace(node, args=tree.replaced(node.args, named))
        return replace(node, args=(node.args[0], *tree.replaced(node.args[1:], named)))

    blocks = {name: tree.replaced(getattr(program, name), in_prior) for name in ("transformed_parameters", "model")}
    return replace(program, transformed_data=(*program.transformed_data, *made.values()), **blocks) if made else program


def priors_of_data(program: tree.Program, sources: set[str]) -> tuple[str, ...]:
    """Priors whose constants depend on data, with their lines.

    Args:
        sources: the data of records, and their number.
    """
    tainted = tainted_names(program, sources)
    lines = program.source.splitlines()
    priors = {}
    for node in tree.walk((program.transformed_parameters, program.model)):
        if _is_prior(node, tainted) and tree.names_in(_constants(node)) & tainted:
            line = node.position[0]
            text = " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
            priors[line] = f"line {line}: {text[:80]}"
    return tuple(priors.values())


def _is_prior(node: tree.Node, data: set[str]) -> TypeGuard[tree.Call | tree.Tilde]:
    """Whether it is the distribution of something that no data enter."""
    if isinstance(node, tree.Tilde):
        variate = node.variate
    elif isinstance(node, tree.Call) and node.name.endswith(_SUFFIXES) and len(node.args) > 1:
        variate = node.args[0]
    else:
        return False
    names = tree.names_in(variate)
    return bool(names) and not names & data


def _constants(node: tree.Call | tree.Tilde) -> tuple[tree.Expression, ...]:
    return node.args[1:] if isinstance(node, tree.Call) else node.args


def _declared(block: tuple[tree.Statement, ...]) -> set[str]:
    return {n.name for n in tree.walk(block) if isinstance(n, tree.Declare)}
