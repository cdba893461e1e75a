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
    args: tuple["Expression", ...]


@dataclass(frozen=True, eq=False, slots=True)
class Index(Node):
    """`of[indices]`; an index is an expression, a `Range` or None for all."""

    of: "Expression"
    indices: tuple["Expression | Range | None", ...]


@dataclass(frozen=True, eq=False, slots=True)
class Range(Node):
    low: "Expression | None"
    high: "Expression | None"


@dataclass(frozen=True, eq=False, slots=True)
class Unary(Node):
    op: str
    of: "Expression"


@dataclass(frozen=True, eq=False, slots=True)
class Binary(Node):
    op: str
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, eq=False, slots=True)
class Ternary(Node):
    test: "Expression"
    then: "Expression"
    other: "Expression"


@dataclass(frozen=True, eq=False, slots=True)
class Listed(Node):
    """`{a, b}` or `[a, b]`."""

    items: tuple["Expression", ...]
    row: bool


@dataclass(frozen=True, eq=False, slots=True)
class Target(Node):
    """`target()`."""


class Type(NamedTuple):
    """A declared type: its base, the sizes of the array around it and its own, and its bounds.

    `base` is a keyword of the language: "int", "real", "vector", "row_vector", "matrix", "simplex" and so on.
    """

    base: str
    dims: tuple["Expression", ...] = ()
    sizes: tuple["Expression", ...] = ()
    bounds: tuple[tuple[str, "Expression"], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Declare(Node):
    name: str
    type: Type
    value: "Expression | None" = None


@dataclass(frozen=True, eq=False, slots=True)
class Assign(Node):
    to: "Expression"
    op: str
    value: "Expression"


@dataclass(frozen=True, eq=False, slots=True)
class Increment(Node):
    """`target += value`."""

    value: "Expression"


@dataclass(frozen=True, eq=False, slots=True)
class Tilde(Node):
    of: "Expression"
    name: str
    args: tuple["Expression", ...]
    low: "Expression | None" = None
    high: "Expression | None" = None
    truncated: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class If(Node):
    test: "Expression"
    then: "Statement"
    other: "Statement | None"


@dataclass(frozen=True, eq=False, slots=True)
class For(Node):
    """Over a range where there is `high`, over the entries of `low` where not."""

    name: str
    low: "Expression"
    high: "Expression | None"
    body: "Statement"


@dataclass(frozen=True, eq=False, slots=True)
class While(Node):
    test: "Expression"
    body: "Statement"


@dataclass(frozen=True, eq=False, slots=True)
class Block(Node):
    body: tuple["Statement", ...]


@dataclass(frozen=True, eq=False, slots=True)
class Return(Node):
    value: "Expression | None"


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


Expression = Number | Variable | Call | Index | Unary | Binary | Ternary | Listed | Target

Statement = Declare | Assign | Increment | Tilde | If | For | While | Block | Return | Jump | Message | CallStatement


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
    body: tuple[Statement, ...] | None


@dataclass(frozen=True, eq=False)
class Program:
    """A parsed program, block by block."""

    name: str = "program"
    functions: tuple[Function, ...] = ()
    data: tuple[Statement, ...] = ()
    transformed_data: tuple[Statement, ...] = ()
    parameters: tuple[Statement, ...] = ()
    transformed_parameters: tuple[Statement, ...] = ()
    model: tuple[Statement, ...] = ()
    generated: tuple[Statement, ...] = ()
    source: str = field(default="", repr=False)


def children(node: object) -> list[Node | tuple[object, ...]]:
    """What stands directly below a node, in order."""
    if isinstance(node, Node):
        parts: list[object] = [getattr(node, f.name) for f in fields(node) if f.name != "at"]
    elif isinstance(node, Type):
        parts = [*node.dims, *node.sizes, *(value for _, value in node.bounds)]
    elif isinstance(node, tuple):
        parts = list(node)
    else:
        return []
    return [p for p in parts if isinstance(p, Node | tuple)]


def walk(node: object) -> list[Node]:
    """A node and everything below it."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Node):
            found.append(one)
        waiting.extend(reversed(children(one)))
    return found


def replaced(node: Any, by: Callable[[Node], object]) -> Any:
    """A part of a program where `by` says what replaces a node; None where it is gone through."""
    if isinstance(node, Node):
        if (found := by(node)) is not None:
            return found
        changed = {f.name: replaced(getattr(node, f.name), by) for f in fields(node) if f.name != "at"}
        return replace(node, **changed)
    if isinstance(node, Type):
        return Type(*(replaced(part, by) for part in node))
    if isinstance(node, tuple) and not isinstance(node, Argument):
        return tuple(replaced(part, by) for part in node)
    return node


def renamed(node: object, names: dict[str, str]) -> Any:
    """A part of a program with variables renamed where they are read."""

    def other(one: Node) -> Variable | None:
        return replace(one, name=names[one.name]) if isinstance(one, Variable) and one.name in names else None

    return replaced(node, other)


def names_in(node: object) -> set[str]:
    """The variables that a part of a program reads or writes."""
    return {n.name for n in walk(node) if isinstance(n, Variable)}


def assigned_in(node: object) -> set[str]:
    """The variables that statements assign to and do not declare themselves."""
    found: set[str] = set()
    for n in walk(node):
        if isinstance(n, Assign):
            to = n.to
            while isinstance(to, Index):
                to = to.of
            if isinstance(to, Variable):
                found.add(to.name)
    return found
