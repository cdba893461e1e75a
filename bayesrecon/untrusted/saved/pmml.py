"""Models of PMML: the elements of their XML, with attributes, arrays and texts.

Entities are never expanded: a file that declares a document type is refused.
"""

from pathlib import Path
from typing import Any
from xml.parsers import expat

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.saved.nodes import Made, Named, Pairs

_DEEPEST, _ELEMENTS, _LETTERS = 200, 2_000_000, 2**28
"""Largest depth and number of elements, and largest number of bytes of a file."""

_ARRAYS = frozenset(("Array", "Indices", "INT-Entries", "REAL-Entries", "Matrix"))
_ROWS = frozenset(("row", "VectorInstance", "Instance"))
"""Elements that are records, in any place."""

_ROW = "Row"
"""The class of records."""


class _Element:
    """One element while it is read."""

    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.parts: list[tuple[str, object]] = []
        self.text: list[str] = []

    def done(self) -> object:
        """The description of the element: an array, a value, or an object with its attributes and parts."""
        text = "".join(self.text).strip()
        if self.tag in _ARRAYS and text:
            return _entries([_value(word) for word in text.split()])
        if not self.attributes and not self.parts:
            return _value(text)
        found = [(name, _value(value)) for name, value in self.attributes.items()]
        found += _counted(self.parts)
        if text:
            found.append(("text", text))
        return Made(Named("pmml", _ROW if self.tag in _ROWS else self.tag), (), [Pairs(found)])


class Model:
    """The model in a file. `root` is its description.

    Raises:
        BayesreconError: the file is damaged, is not PMML, or declares a document type.

    >>> _ = Path("m.pmml").write_text('<PMML><RegressionTable intercept="1.5"/></PMML>')
    >>> [name for name, _ in Model(Path("m.pmml")).root.pairs]
    ['PMML']
    """

    def __init__(self, path: Path) -> None:
        self._path, self._open, self._count = path, [_Element("", {})], 0
        size = path.stat().st_size
        if size > _LETTERS:
            raise self._refused(f"more than {_LETTERS // 2**20} MiB")
        parser = expat.ParserCreate()
        parser.StartDoctypeDeclHandler = self._type
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._letters
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = lambda target, data: self._comment(f"{target} {data}")
        try:
            parser.Parse(path.read_bytes(), True)
        except BayesreconError:
            raise
        except (expat.ExpatError, ValueError, RecursionError) as error:
            raise self._refused(" ".join(str(error).split())[:80]) from None
        parts = self._open[0].parts
        if not any(name == "PMML" for name, _ in parts):
            raise self._refused("there is no element PMML in it")
        self.root = Pairs(_counted(parts))

    def _refused(self, reason: str) -> BayesreconError:
        return BayesreconError(f"{self._path}: cannot be read as a model of PMML: {reason}")

    def _type(self, *_: object) -> None:
        raise self._refused("it declares a document type, whose entities are not expanded")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > _ELEMENTS or len(self._open) > _DEEPEST:
            raise self._refused("too many elements, or too deeply nested ones")
        self._open.append(_Element(tag.rpartition(":")[2], attributes))

    def _end(self, _: str) -> None:
        element = self._open.pop()
        self._open[-1].parts.append((element.tag, element.done()))

    def _letters(self, text: str) -> None:
        self._open[-1].text.append(text)

    def _comment(self, text: str) -> None:
        self._open[-1].parts.append(("comment", text.strip()))


def _counted(parts: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """Parts with unique names: those of one name become columns, or a list if they have parts themselves."""
    groups: dict[str, list[object]] = {}
    for name, part in parts:
        groups.setdefault(name, []).append(part)
    return [
        (name, group[0] if len(group) == 1 and not _is_row(group[0]) else _columns(group))
        for name, group in groups.items()
    ]


def _is_row(part: object) -> bool:
    return isinstance(part, Made) and isinstance(part.function, Named) and part.function.name == _ROW


def _columns(parts: list[Any]) -> object:
    flat = [dict(p.states[0].pairs) if isinstance(p, Made) and isinstance(p.states[0], Pairs) else None for p in parts]
    if any(f is None or any(not isinstance(v, int | float | str) for v in f.values()) for f in flat):
        return parts
    names = dict.fromkeys(name for f in flat if f for name in f)
    columns = [(name, _entries([f.get(name, "") for f in flat if f is not None])) for name in names]
    return Made(parts[0].function, (), [Pairs(columns)])


def _value(text: str) -> object:
    """The number that a text is, or else the text."""
    try:
        return int(text) if text.lstrip("+-").isdecimal() and len(text) < 19 else float(text)
    except ValueError:
        return text


def _entries(values: list[object]) -> object:
    return values if any(isinstance(v, str) for v in values) else np.array(values)
