"""Dead-code elimination: statements without effect on the density are removed, and the data they read."""

from dataclasses import replace

from bayesrecon.models.stan import tree

_ADDS = (tree.Tilde, tree.Increment, tree.CallStatement)


def adds(part: object) -> bool:
    """Whether statements may add to the target."""
    return any(isinstance(n, _ADDS) for n in tree.walk(part))


def declared_in(part: object) -> set[str]:
    """Names that a part of a program declares."""
    return {n.name for n in tree.walk(part) if isinstance(n, tree.Declare)}


def flattened(block: tuple[tree.Statement, ...]) -> list[tree.Statement]:
    """Statements of a block, without the braces around several."""
    result: list[tree.Statement] = []
    for s in block:
        result.extend(flattened(s.body) if isinstance(s, tree.Block) and not declared_in(s) else [s])
    return result


def pruned(program: tree.Program, known: frozenset[str] = frozenset()) -> tree.Program:
    """The program with only what its density depends on, for known values of some transformed data."""
    needed = tree.names_in(program.model) | _sizes(program.parameters)
    parameters, required = _needed(program.transformed_parameters, needed)
    needed |= required | tree.names_in(parameters)
    data, required = _needed(program.transformed_data, needed, known)
    needed |= required
    kept = tuple(d for d in program.data if isinstance(d, tree.Declare) and d.name in _with_sizes(program.data, needed))
    return replace(program, data=kept, transformed_data=data, transformed_parameters=parameters, generated=())


def computing(program: tree.Program, name: str) -> tuple[tree.Statement, ...]:
    """Statements of transformed parameters and generated quantities that compute a variable."""
    generated, needed = _needed(program.generated, {name})
    parameters, _ = _needed(program.transformed_parameters, needed)
    return (*parameters, *generated)


def without_aliases(program: tree.Program) -> tree.Program:
    """The program with integers of the transformed data that are others by another name under one name."""
    written: dict[str, list[tree.Expression | None]] = {}
    for s in tree.walk(program.transformed_data):
        if isinstance(s, tree.Declare) and s.type.base == "int" and not s.type.dims:
            written.setdefault(s.name, []).extend([] if s.value is None else [s.value])
        elif isinstance(s, tree.Assign) and isinstance(s.assigned, tree.VariableName) and s.assigned.name in written:
            written[s.assigned.name].append(s.value if s.op == "=" else None)
    data = {d.name for d in program.data if isinstance(d, tree.Declare) and d.type.base == "int" and not d.type.dims}
    same = {
        name: values[0].name
        for name, values in written.items()
        if len(values) == 1 and isinstance(values[0], tree.VariableName) and values[0].name in data
    }
    if not same:
        return program
    kept = tuple(
        s
        for s in program.transformed_data
        if not (isinstance(s, tree.Declare) and s.name in same)
        and not (tree.assigned_in(s) and tree.assigned_in(s) <= same.keys())
    )
    blocks = {"transformed_data": kept}
    for block in ("data", "parameters", "transformed_parameters", "model", "generated"):
        blocks[block] = getattr(program, block)
    return replace(program, **{block: tree.renamed(body, same) for block, body in blocks.items()})


def _sizes(block: tuple[tree.Statement, ...]) -> set[str]:
    return {n for d in block if isinstance(d, tree.Declare) for n in tree.names_in(d.type)}


def _with_sizes(block: tuple[tree.Statement, ...], needed: set[str]) -> set[str]:
    result = set(needed)
    for d in reversed(block):
        if isinstance(d, tree.Declare) and d.name in result:
            result |= {n for size in (*d.type.dims, *d.type.sizes) for n in tree.names_in(size)}
    return result


def _leaves(
    body: tuple[tree.Statement, ...], controls: frozenset[str] = frozenset()
) -> list[tuple[tree.Statement, frozenset[str]]]:
    """Statements that contain no others, each with the names that decide whether it runs."""
    result: list[tuple[tree.Statement, frozenset[str]]] = []
    for s in body:
        inside = _inside(s)
        if inside is None:
            result.append((s, controls))
        else:
            result += _leaves(inside, controls | tree.names_in(_heads(s)))
    return result


def _inside(s: tree.Statement) -> tuple[tree.Statement, ...] | None:
    if isinstance(s, tree.Block):
        return s.body
    if isinstance(s, tree.For | tree.While):
        return (s.body,)
    if isinstance(s, tree.If):
        return (s.then,) if s.other is None else (s.then, s.other)
    return None


def _heads(s: tree.Statement) -> tuple[tree.Expression, ...]:
    if isinstance(s, tree.For):
        return (s.low, s.high) if s.high is not None else (s.low,)
    return (s.test,) if isinstance(s, tree.If | tree.While) else ()


def _slim(body: tuple[tree.Statement, ...], kept: set[int]) -> tuple[tree.Statement, ...]:
    """Statements with the leaves that are kept alone."""
    result: list[tree.Statement] = []
    for s in body:
        if _inside(s) is None:
            if id(s) in kept:
                result.append(s)
            continue
        if not any(id(leaf) in kept for leaf, _ in _leaves((s,))):
            continue
        if isinstance(s, tree.Block):
            result.append(replace(s, body=_slim(s.body, kept)))
        elif isinstance(s, tree.If):
            then, other = (tree.Block(s.position, _slim((part,) if part else (), kept)) for part in (s.then, s.other))
            result.append(replace(s, then=then, other=other if s.other is not None else None))
        elif isinstance(s, tree.For | tree.While):
            result.append(replace(s, body=tree.Block(s.position, _slim((s.body,), kept))))
    return tuple(result)


def _needed(
    block: tuple[tree.Statement, ...], needed: set[str], known: frozenset[str] = frozenset()
) -> tuple[tuple[tree.Statement, ...], set[str]]:
    """Statements that write what is needed, and the names that those need in turn."""
    needed, leaves = set(needed), _leaves(block)
    kept: set[int] = {id(s) for s, _ in leaves if isinstance(s, tree.Jump | tree.Return)}
    jumps = bool(kept)
    grown = True
    while grown:
        grown = False
        for s, controls in leaves:
            writes = tree.assigned_in(s) | (declared_in(s) if isinstance(s, tree.Declare) else set())
            if id(s) not in kept and (writes & (needed - known) or adds(s)):
                kept.add(id(s))
                needed |= tree.names_in(s) | controls
                grown = True
            elif jumps and isinstance(s, tree.Jump | tree.Return) and not controls <= needed:
                needed |= controls
                grown = True
    return _slim(block, kept), needed


def tainted_names(program: tree.Program, sources: set[str]) -> set[str]:
    """Variables that may depend on `sources`, whatever their values."""
    result = set(sources)
    blocks = (*program.transformed_data, *program.transformed_parameters, *program.model)
    before = -1
    while len(result) != before:
        before = len(result)
        for s in blocks:
            result |= _written_by(s, result)
    return result


def _written_by(node: object, tainted: set[str]) -> set[str]:
    """Names that statements assign depending on tainted names, by value, index or condition."""
    if isinstance(node, tree.If | tree.While) and tree.names_in(node.test) & tainted:
        return tree.assigned_in(node)
    if isinstance(node, tree.For) and tree.names_in((node.low, node.high)) & tainted:
        return tree.assigned_in(node) | {node.name}
    if isinstance(node, tree.Assign):
        return tree.assigned_in(node) if tree.names_in(node) & tainted else set()
    if isinstance(node, tree.Declare):
        return {node.name} if node.value is not None and tree.names_in(node.value) & tainted else set()
    result: set[str] = set()
    if isinstance(node, tree.If | tree.While | tree.For | tree.Block):
        for child in tree.children(node):
            result |= _written_by(child, tainted)
    elif isinstance(node, tuple):
        for child in node:
            result |= _written_by(child, tainted)
    return result


def record_part(program: tree.Program, tainted: set[str]) -> tree.Program:
    """The program without statements of the model that no record has a part in."""
    kept = [s for s in flattened(program.model) if not (_only_adds(s) and not tree.names_in(s) & tainted)]
    return replace(program, model=tuple(kept))


def _only_adds(node: tree.Statement) -> bool:
    return adds(node) and not tree.assigned_in(node) and not isinstance(node, tree.Declare)
