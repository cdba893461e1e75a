"""Descriptions of the objects that a pickle would create.

Numbers, texts, bytes, lists and tuples describe themselves. Dictionaries and sets are lists of their items, because
untrusted keys are never hashed or compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(eq=False, slots=True)
class Named:
    """A class or function that would be imported from a module."""

    module: str
    name: str

    @property
    def whole(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Made:
    """The object that a call would return, with its later state and items.

    Attributes:
        function: the object that would be called, usually a `Named`.
        arguments: arguments of the call.
        states: states that would be set, in order.
        items: items that would be appended or added.
        pairs: keys and values that would be set.
        stored: its values if the file has them as plain bytes, as joblib and torch write arrays.
    """

    function: object
    arguments: Any = ()
    states: list[object] = field(default_factory=list)
    items: list[object] = field(default_factory=list)
    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    stored: "np.ndarray | Objects | None" = None

    def is_of(self, names: frozenset[tuple[str, str]]) -> bool:
        """Whether it would be created by one of these functions, given as module and name."""
        return isinstance(self.function, Named) and (self.function.module, self.function.name) in names


@dataclass(eq=False, slots=True)
class Storage(Made):
    """Numbers that tensors of torch use.

    Attributes:
        covered: size of its largest tensor that has been read.
    """

    covered: int = 0


@dataclass(eq=False, slots=True)
class Pairs:
    """A dictionary."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    def get(self, key: str) -> Any:
        """The last value of a key, as in a dictionary; None if there is none."""
        return next((v for k, v in reversed(self.pairs) if isinstance(k, str) and k == key), None)


@dataclass(eq=False, slots=True)
class Group:
    """A set."""

    items: list[object] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Elsewhere:
    """An object outside the pickle: a persistent id, a buffer, an entry of a registry."""

    what: str
    key: object = None


@dataclass(eq=False, slots=True)
class Objects:
    """An array of Python objects: their descriptions in C order, and the shape."""

    items: Sequence[object]
    shape: tuple[int, ...]


class Unreadable(ValueError):
    """A part of a file has invalid content, which the message describes."""


READ_ERRORS = (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError)
"""Errors of Python and NumPy for invalid content, including `Unreadable`."""


def short_error(problem: Exception) -> str:
    """The message of an error in one line of at most 120 characters, or else its type.

    >>> short_error(Unreadable("an invalid shape")), short_error(KeyError())
    ('an invalid shape', 'KeyError')
    """
    return " ".join(str(problem).split())[:120] or type(problem).__name__
