"""A Stan program as a tree: expressions, statements, declarations and blocks."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

Position = tuple[int, int]
"""Line and column, from one."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """Something at a place in the program."""

    at: Position


@dataclass(frozen=True, eq=False, slots=True)
class Number(Node):
    value: int | float


@dataclass(frozen=True, eq=False, slots=True)
class Variable(Node):
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Call(Node):
    name: str
    args: tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Index(Node):
    """`of[indices]`; an index is an expression, a `Range` or None for all."""

    of: Any
    indices: tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Range(Node):
    low: Any
    high: Any


@dataclass(frozen=True, eq=False, slots=True)
class Unary(Node):
    op: str
    of: Any


@dataclass(frozen=True, eq=False, slots=True)
class Binary(Node):
    op: str
    left: Any
    right: Any


@dataclass(frozen=True, eq=False, slots=True)
class Ternary(Node):
    test: Any
    then: Any
    other: Any


@dataclass(frozen=True, eq=False, slots=True)
class Listed(Node):
    """`{a, b}` or `[a, b]`."""

    items: tuple[Any, ...]
    row: bool


@dataclass(frozen=True, eq=False, slots=True)
class Target(Node):
    """`target()`."""


class Type(NamedTuple):
    """A declared type: its base, the sizes of the array around it and its own, and its bounds.

    `base` is a keyword of the language: "int", "real", "vector", "row_vector", "matrix", "simplex" and so on.
    """

    base: str
    dims: tuple[Any, ...] = ()
    sizes: tuple[Any, ...] = ()
    bounds: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Declare(Node):
    name: str
    type: Type
    value: Any = None


@dataclass(frozen=True, eq=False, slots=True)
class Assign(Node):
    to: Any
    op: str
    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class Increment(Node):
    """`target += value`."""

    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class Tilde(Node):
    of: Any
    name: str
    args: tuple[Any, ...]
    low: Any = None
    high: Any = None
    truncated: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class If(Node):
    test: Any
    then: Any
    other: Any


@dataclass(frozen=True, eq=False, slots=True)
class For(Node):
    """Over a range where there is `high`, over the elements of `low` where not."""

    name: str
    low: Any
    high: Any
    body: Any


@dataclass(frozen=True, eq=False, slots=True)
class While(Node):
    test: Any
    body: Any


@dataclass(frozen=True, eq=False, slots=True)
class Block(Node):
    body: tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Return(Node):
    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class Jump(Node):
    """`break` or `continue`."""

    out: bool


@dataclass(frozen=True, eq=False, slots=True)
class Message(Node):
    """`print` or `reject`."""

    rejects: bool


@dataclass(frozen=True, eq=False, slots=True)
class CallStatement(Node):
    call: Call


class Argument(NamedTuple):
    name: str
    base: str
    depth: int


@dataclass(frozen=True, eq=False, slots=True)
class Function(Node):
    name: str
    args: tuple[Argument, ...]
    base: str
    depth: int
    body: tuple[Any, ...] | None


@dataclass(frozen=True, eq=False)
class Program:
    """A parsed program, block by block."""

    name: str = "program"
    functions: tuple[Function, ...] = ()
    data: tuple[Any, ...] = ()
    transformed_data: tuple[Any, ...] = ()
    parameters: tuple[Any, ...] = ()
    transformed_parameters: tuple[Any, ...] = ()
    model: tuple[Any, ...] = ()
    generated: tuple[Any, ...] = ()
    source: str = field(default="", repr=False)


def children(node: Any) -> list[Any]:
    """The direct children of a node, in order."""
    if isinstance(node, Node):
        parts: list[Any] = [getattr(node, f.name) for f in fields(node) if f.name != "at"]
    elif isinstance(node, Type):
        parts = [*node.dims, *node.sizes, *(value for _, value in node.bounds)]
    elif isinstance(node, tuple):
        parts = list(node)
    else:
        return []
    return [p for p in parts if isinstance(p, Node | tuple)]


def walk(node: Any) -> list[Any]:
    """A node and everything below it."""
    result, waiting = [], [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Node):
            result.append(part)
        waiting.extend(reversed(children(part)))
    return result


def replaced(node: Any, by: Callable[[Any], Any]) -> Any:
    """A part of a program where `by` says what replaces a node; None if it is gone through."""
    if isinstance(node, Node):
        if (result := by(node)) is not None:
            return result
        changed = {f.name: replaced(getattr(node, f.name), by) for f in fields(node) if f.name != "at"}
        return replace(node, **changed)
    if isinstance(node, Type):
        return Type(*(replaced(part, by) for part in node))
    if isinstance(node, tuple) and not isinstance(node, Argument):
        return tuple(replaced(part, by) for part in node)
    return node


def renamed(node: Any, names: dict[str, str]) -> Any:
    """A part of a program with variables renamed where they are read."""

    def other(part: Any) -> Any:
        return replace(part, name=names[part.name]) if isinstance(part, Variable) and part.name in names else None

    return replaced(node, other)


def names_in(node: Any) -> set[str]:
    """The variables that a part of a program reads or writes."""
    return {n.name for n in walk(node) if isinstance(n, Variable)}


def assigned_in(node: Any) -> set[str]:
    """The variables that statements assign to and do not declare themselves."""
    result: set[str] = set()
    for n in walk(node):
        if isinstance(n, Assign):
            to = n.to
            while isinstance(to, Index):
                to = to.of
            if isinstance(to, Variable):
                result.add(to.name)
    return result
