"""What stands for the objects that a pickle would make: descriptions, which do nothing.

Numbers, texts, bytes, lists and tuples stand for themselves. Dictionaries and sets are listed: keys from strangers are
never hashed or compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(eq=False, slots=True)
class Named:
    """What a module would be asked for: a class, or a function."""

    module: str
    name: str

    @property
    def whole(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Made:
    """What calling something would return, with all that would be put into it afterwards.

    Attributes:
        function: what would be called: `Named`, or whatever else stands there.
        arguments: arguments of the call.
        states: what would be set as its state, one after another.
        items: what would be appended or added.
        pairs: keys and values that would be set.
        stored: its values where they lie in the file as plain bytes, as joblib and torch write arrays.
    """

    function: object
    arguments: Any = ()
    states: list[object] = field(default_factory=list)
    items: list[object] = field(default_factory=list)
    pairs: list[tuple[Any, Any]] = field(default_factory=list)
    stored: "np.ndarray | Objects | None" = None

    def is_of(self, names: frozenset[tuple[str, str]]) -> bool:
        """Whether it would be made by one of these, as module and name."""
        return isinstance(self.function, Named) and (self.function.module, self.function.name) in names


@dataclass(eq=False, slots=True)
class Storage(Made):
    """Numbers that tensors of torch are parts of.

    Attributes:
        covered: how many of them the largest of its tensors has, of those that were looked at.
    """

    covered: int = 0


@dataclass(eq=False, slots=True)
class Pairs:
    """A dictionary."""

    pairs: list[tuple[Any, Any]] = field(default_factory=list)

    def get(self, key: str) -> Any:
        """The value of a text; the last one, as in a dictionary."""
        return next((v for k, v in reversed(self.pairs) if isinstance(k, str) and k == key), None)


@dataclass(eq=False, slots=True)
class Group:
    """A set."""

    items: list[object] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Elsewhere:
    """What lies outside the pickle: a persistent id, a buffer, an entry of a registry."""

    what: str
    key: object = None


@dataclass(eq=False, slots=True)
class Objects:
    """An array of Python's objects: their descriptions in order."""

    items: Sequence[object]
    shape: tuple[int, ...]


class Unreadable(ValueError):
    """A part that is not what it says; the message tells why."""


ODD = (ValueError, TypeError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError)
"""What Python and NumPy raise on parts that are not what they say; `Unreadable` is one of them."""


def short_error(problem: Exception) -> str:
    """Such an error in a few words.

    >>> short_error(Unreadable("a shape that is none")), short_error(KeyError())
    ('a shape that is none', 'KeyError')
    """
    return " ".join(str(problem).split())[:120] or type(problem).__name__
