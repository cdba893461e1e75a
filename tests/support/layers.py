"""The order of the packages, and a reader of imports that finds whatever breaks it."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import networkx

RANKS = (
    ("bayesrecon",),
    ("untrusted", "running"),
    ("results", "divergence", "models"),
    ("plots", "posteriors", "datasets"),
    ("estimation",),
    ("verbs",),
    ("disclosure", "attacks", "evaluate"),
    ("auditing", "games"),
    ("cli",),
)
"""Packages, the lowest first: one imports only those of lower rank. `bayesrecon` are the modules of the root."""

CORE = {
    "bayesrecon",
    "results",
    "divergence",
    "untrusted",
    "running",
    "plots",
    "estimation",
    "datasets",
    "disclosure",
    "attacks",
    "verbs",
}
"""Packages whose import loads nothing heavy."""

ON_ENGINES = {"games", "cli"}
"""Packages that may import what runs work in other processes."""

VOCABULARY = {
    "_version",
    "arrays",
    "diagnostics",
    "digits",
    "discovery",
    "domains",
    "errors",
    "factors",
    "files",
    "inexact",
    "json_types",
    "knowledge",
    "model",
    "operations",
    "pairs",
    "precision",
    "regularisers",
    "releases",
    "stated_domains",
    "temporary",
    "types",
}
"""The modules of the root."""

FACADE = {"bayesrecon", "bayesrecon.__main__"}
"""Names everything, and is imported by nothing inside."""

DYNAMIC = {
    "bayesrecon.discovery": "finds what belongs to a kind",
    "bayesrecon.results.base": "finds the classes of results, and, the one way up, a drawing when somebody asks for it",
    "bayesrecon.untrusted.__main__": "loads the reader that is asked for, of its own package",
    "bayesrecon.cli.main": "loads the command that is called, of its own package",
    "bayesrecon.cli.own_files": "loads the user's own model file",
    "bayesrecon.errors": "takes libraries of extras from what is installed",
    "bayesrecon.models.catalogue.lazy_numpyro": "loads NumPyro when a program runs",
}
"""Modules that may import by a name made at run time, and what for."""

ROOMS = ("bayesrecon.models.stan",)
"""An interpreter is a stack of its own: text, tree, values, functions, statements, records. In the picture of the
package it is one module, and what is outside imports its door alone."""

_RANK = {name: rank for rank, names in enumerate(RANKS) for name in names}


def module_name(path: Path, root: Path) -> str:
    """The name that a file is imported by; `models` and `posteriors` are packages of bayesrecon."""
    parts = list(path.relative_to(root).with_suffix("").parts)
    parts = parts if parts[0] == "bayesrecon" else ["bayesrecon", *parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    """The ranked package of a module."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in _RANK else "bayesrecon"


@cache
def parsed(code: str) -> ast.Module:
    """The tree of a source, which several files of tests look at."""
    return ast.parse(code)


@cache
def nodes_of(code: str) -> tuple[ast.AST, ...]:
    """All nodes of a source."""
    return tuple(ast.walk(parsed(code)))


def imports_of(name: str, code: str, modules: Iterable[str]) -> Iterator[str]:
    """Every module that is imported anywhere: lazily, for type checkers only, or by its name in a string."""
    known, nodes, above = set(modules), nodes_of(code), _above(name)
    documents = {
        node.body[0].value
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (_nearest(alias.name, known) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (_nearest(f"{node.module}.{alias.name}", known) for alias in node.names)
        elif (
            isinstance(node, ast.Constant) and node not in documents and node.value in known and node.value not in above
        ):
            yield node.value


def _above(name: str) -> set[str]:
    """The packages that a module lies in: `discover` is given the name of its own."""
    parts = name.split(".")
    return {".".join(parts[:i]) for i in range(1, len(parts))}


def _nearest(name: str, known: set[str]) -> str:
    """The module that a dotted name lies in."""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name


def graph_of(sources: dict[str, str]) -> dict[str, set[str]]:
    """`{module: modules it imports}` from `{module: code}`, without the facade and itself."""
    inside = {name: code for name, code in sources.items() if name not in FACADE}
    found = {name: set(imports_of(name, code, sources)) & (set(inside) - {name}) for name, code in inside.items()}
    return found


def misplaced(graph: dict[str, set[str]]) -> list[str]:
    """Imports of packages of the same or a higher rank."""
    return sorted(
        f"{one} -> {other}"
        for one, others in graph.items()
        for other in others
        if package_of(one) != package_of(other) and _RANK[package_of(other)] >= _RANK[package_of(one)]
    )


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or through others."""
    return [sorted(group) for group in networkx.strongly_connected_components(_arrows(graph)) if len(group) > 1]


def inside(graph: dict[str, set[str]], room: str) -> dict[str, set[str]]:
    """The imports among the modules of a room."""
    own = {name for name in graph if name == room or name.startswith(f"{room}.")}
    return {name: graph[name] & own for name in own}


def from_outside(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph with every room as one module."""
    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        found.setdefault(_room(name), set()).update({_room(other) for other in others} - {_room(name)})
    return found


def levels(graph: dict[str, set[str]]) -> int:
    """Modules in the longest chain of imports of a graph without circles."""
    return networkx.dag_longest_path_length(_arrows(graph)) + 1


def sections(graph: dict[str, set[str]], lines: dict[str, int], most: int) -> list[str]:
    """Modules with one user, in its own folder, that together with it have few enough lines to be a section of it."""
    users: dict[str, list[str]] = {}
    for name, others in graph.items():
        for other in others:
            users.setdefault(other, []).append(name)
    return sorted(
        f"{name} of {user}"
        for name, (user, *more) in users.items()
        if not more and name.rpartition(".")[0] == user.rpartition(".")[0] and lines[name] + lines[user] <= most
    )


def past_the_door(graph: dict[str, set[str]]) -> list[str]:
    """Imports of what lies inside a room, from outside."""
    return sorted(
        f"{one} -> {other}"
        for one, others in graph.items()
        for other in others
        if other not in ROOMS and _room(other) in ROOMS and _room(one) != _room(other)
    )


def _room(name: str) -> str:
    return next((room for room in ROOMS if name == room or name.startswith(f"{room}.")), name)


def _arrows(graph: dict[str, set[str]]) -> networkx.DiGraph:
    return networkx.DiGraph(graph)


def imports_by_name(code: str) -> bool:
    """Whether a module imports by a name made at run time."""
    named = {"import_module", "__import__", "spec_from_file_location", "exec_module"}
    nodes = nodes_of(code)
    return bool(
        named & {node.id for node in nodes if isinstance(node, ast.Name)}
        or named & {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    )
