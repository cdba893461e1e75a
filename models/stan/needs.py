"""What a density needs of a program: statements without effect on it are left out, and so are the data they read."""

from dataclasses import replace
from typing import Any

from bayesrecon.models.stan import tree

_ADDS = (tree.Tilde, tree.Increment, tree.CallStatement)


def adds(node: Any) -> bool:
    """Whether statements may add to the target."""
    return any(isinstance(n, _ADDS) for n in tree.walk(node))


def declared_in(node: Any) -> set[str]:
    return {n.name for n in tree.walk(node) if isinstance(n, tree.Declare)}


def flattened(block: tuple[Any, ...]) -> list[Any]:
    """Statements of a block, without the braces around several."""
    found: list[Any] = []
    for s in block:
        found.extend(flattened(s.body) if isinstance(s, tree.Block) and not declared_in(s) else [s])
    return found


def pruned(program: tree.Program, given: frozenset[str] = frozenset()) -> tree.Program:
    """The program with what its density depends on alone, where some transformed data are given."""
    needed = tree.names_in(program.model) | _sizes(program.parameters)
    parameters, found = _needed(program.transformed_parameters, needed)
    needed |= found | tree.names_in(tuple(parameters))
    data, found = _needed(program.transformed_data, needed, given)
    needed |= found
    kept = tuple(d for d in program.data if isinstance(d, tree.Declare) and d.name in _with_sizes(program.data, needed))
    return replace(
        program, data=kept, transformed_data=tuple(data), transformed_parameters=tuple(parameters), generated=()
    )


def _sizes(block: tuple[Any, ...]) -> set[str]:
    return {n for d in block if isinstance(d, tree.Declare) for n in tree.names_in(d.type)}


def _with_sizes(block: tuple[Any, ...], needed: set[str]) -> set[str]:
    found = set(needed)
    for d in reversed(block):
        if isinstance(d, tree.Declare) and d.name in found:
            found |= {n for size in (*d.type.dims, *d.type.sizes) for n in tree.names_in(size)}
    return found


def _needed(
    block: tuple[Any, ...], needed: set[str], given: frozenset[str] = frozenset()
) -> tuple[list[Any], set[str]]:
    """Statements that write what is needed, and the names that those need in turn."""
    needed, statements = set(needed), flattened(block)
    keep: set[int] = set()
    grown = True
    while grown:
        grown = False
        for i, s in enumerate(statements):
            writes = tree.assigned_in(s) | (declared_in(s) if isinstance(s, tree.Declare) else set())
            if i not in keep and (writes & (needed - given) or adds(s)):
                keep.add(i)
                needed |= tree.names_in(s)
                grown = True
    return [s for i, s in enumerate(statements) if i in keep], needed


def tainted_names(program: tree.Program, sources: set[str]) -> set[str]:
    """Variables that may depend on `sources`, whatever their values."""
    found = set(sources)
    blocks = (*program.transformed_data, *program.transformed_parameters, *program.model)
    before = -1
    while len(found) != before:
        before = len(found)
        for s in blocks:
            found |= _written_by(s, found)
    return found


def _written_by(node: Any, tainted: set[str]) -> set[str]:
    """What statements write that depends on tainted names: by its value, its place or what decides whether it runs."""
    if isinstance(node, tree.If | tree.While):
        if tree.names_in(node.test) & tainted:
            return tree.assigned_in(node)
    if isinstance(node, tree.For) and tree.names_in((node.low, node.high)) & tainted:
        return tree.assigned_in(node) | {node.name}
    if isinstance(node, tree.Assign):
        return tree.assigned_in(node) if tree.names_in(node) & tainted else set()
    if isinstance(node, tree.Declare):
        return {node.name} if node.value is not None and tree.names_in(node.value) & tainted else set()
    found: set[str] = set()
    if isinstance(node, tree.If | tree.While | tree.For | tree.Block):
        for child in tree.children(node):
            found |= _written_by(child, tainted)
    elif isinstance(node, tuple):
        for child in node:
            found |= _written_by(child, tainted)
    return found


def record_part(program: tree.Program, tainted: set[str]) -> tree.Program:
    """The program without statements of the model that no record has a part in."""
    kept = [s for s in flattened(program.model) if not (_only_adds(s) and not tree.names_in(s) & tainted)]
    return replace(program, model=tuple(kept))


def _only_adds(node: Any) -> bool:
    return adds(node) and not tree.assigned_in(node) and not isinstance(node, tree.Declare)

