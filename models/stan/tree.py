"""A Stan program as a tree: expressions, statements, declarations and blocks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple, TypeVar

Position = tuple[int, int]
"""Line and column, from one."""

Part = TypeVar("Part")
"""A node, a type, or a tuple of them."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """A part of the program."""

    position: Position


class Expression(Node):
    """A node that has a value."""

    __slots__ = ()


class Statement(Node):
    """A node that is run."""

    __slots__ = ()


@dataclass(frozen=True, eq=False, slots=True)
class Number(Expression):
    value: int | float


@dataclass(frozen=True, eq=False, slots=True)
class VariableName(Expression):
    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Call(Expression):
    name: str
    args: tuple[Expression, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Range(Node):
    """`low:high` as an index; a missing end is None."""

    low: Expression | None
    high: Expression | None


IndexNode = Expression | Range | None
"""One index of several; None for all elements."""


@dataclass(frozen=True, eq=False, slots=True)
class Index(Expression):
    """`container[indices]`."""

    container: Expression
    indices: tuple[IndexNode, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Unary(Expression):
    op: str
    operand: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Binary(Expression):
    op: str
    left: Expression
    right: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Ternary(Expression):
    test: Expression
    then: Expression
    other: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Listed(Expression):
    """`{a, b}`, or `[a, b]` if `row`."""

    items: tuple[Expression, ...]
    row: bool


@dataclass(frozen=True, eq=False, slots=True)
class Target(Expression):
    """`target()`."""


class Type(NamedTuple):
    """A declared type.

    `base` is a keyword of the language: "int", "real", "vector", "row_vector", "matrix", "simplex" and so on. `dims`
    are the sizes of the array around it, `sizes` its own. `bounds` are pairs such as `("lower", expression)`.
    """

    base: str
    dims: tuple[Expression, ...] = ()
    sizes: tuple[Expression, ...] = ()
    bounds: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Declare(Statement):
    name: str
    type: Type
    value: Expression | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Assign(Statement):
    """`assigned op value`."""

    assigned: Expression
    op: str
    value: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Increment(Statement):
    """`target += value`."""

    value: Expression


@dataclass(frozen=True, eq=False, slots=True)
class Tilde(Statement):
    """`variate ~ name(args)`, with `T[low, high]` if truncated."""

    variate: Expression
    name: str
    args: tuple[Expression, ...]
    low: Expression | None = None
    high: Expression | None = None
    truncated: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class If(Statement):
    test: Expression
    then: Statement
    other: Statement | None


@dataclass(frozen=True, eq=False, slots=True)
class For(Statement):
    """A loop over the range `low:high`, or over the elements of `low` if `high` is None."""

    name: str
    low: Expression
    high: Expression | None
    body: Statement


@dataclass(frozen=True, eq=False, slots=True)
class While(Statement):
    test: Expression
    body: Statement


@dataclass(frozen=True, eq=False, slots=True)
class Block(Statement):
    body: tuple[Statement, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Return(Statement):
    value: Expression | None


@dataclass(frozen=True, eq=False, slots=True)
class Jump(Statement):
    """`break` or `continue`."""

    is_break: bool


@dataclass(frozen=True, eq=False, slots=True)
class Message(Statement):
    """`print` or `reject`."""

    rejects: bool


@dataclass(frozen=True, eq=False, slots=True)
class CallStatement(Statement):
    call: Call


class Argument(NamedTuple):
    """An argument of a function: its base type, and the depth of the array around it."""

    name: str
    base: str
    depth: int


@dataclass(frozen=True, eq=False, slots=True)
class Function(Node):
    """A function with its return type. `body` is None if it is only declared."""

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


def children(part: object) -> list[object]:
    """The direct children of a node, a type or a tuple, in order."""
    if isinstance(part, Node):
        parts: list[object] = [getattr(part, f.name) for f in fields(part) if f.name != "position"]
    elif isinstance(part, Type):
        parts = [*part.dims, *part.sizes, *(value for _, value in part.bounds)]
    elif isinstance(part, tuple):
        parts = list(part)
    else:
        return []
    return [p for p in parts if isinstance(p, Node | tuple)]


def walk(part: object) -> list[Node]:
    """All nodes of a part of a program, parents before their children."""
    result: list[Node] = []
    waiting = [part]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Node):
            result.append(part)
        waiting.extend(reversed(children(part)))
    return result


def replaced(part: Part, replacement: Callable[[Node], Node | None]) -> Part:
    """A part of a program with some nodes replaced.

    `replacement` returns the new node, or None to keep a node and continue with its children.
    """
    return _replaced(part, replacement)  # type: ignore[return-value]


def _replaced(part: object, replacement: Callable[[Node], Node | None]) -> object:
    if isinstance(part, Node):
        if (result := replacement(part)) is not None:
            return result
        changed = {f.name: _replaced(getattr(part, f.name), replacement) for f in fields(part) if f.name != "position"}
        return replace(part, **changed)
    if isinstance(part, Type):
        return Type(*(_replaced(p, replacement) for p in part))  # type: ignore[arg-type]
    if isinstance(part, tuple) and not isinstance(part, Argument):
        return tuple(_replaced(p, replacement) for p in part)
    return part


def renamed(part: Part, names: Mapping[str, str]) -> Part:
    """A part of a program with variables renamed where they are read."""

    def renamed_variable(node: Node) -> VariableName | None:
        if isinstance(node, VariableName) and node.name in names:
            return VariableName(node.position, names[node.name])
        return None

    return replaced(part, renamed_variable)


def names_in(part: object) -> set[str]:
    """The variables that a part of a program reads or writes."""
    return {n.name for n in walk(part) if isinstance(n, VariableName)}


def assigned_in(part: object) -> set[str]:
    """The variables that statements assign to and do not declare themselves."""
    result: set[str] = set()
    for n in walk(part):
        if isinstance(n, Assign):
            assigned = n.assigned
            while isinstance(assigned, Index):
                assigned = assigned.container
            if isinstance(assigned, VariableName):
                result.add(assigned.name)
    return result
