"""Models of ONNX: the numbers in their graphs.

The format consists of messages. A message is a sequence of fields: a number with a wire type, then an integer, four or
eight bytes, or a length and as many bytes, which may be a message. The numbers are those of onnx.proto. The encoding is
described in https://protobuf.dev/programming-guides/encoding.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.saved.nodes import READ_ERRORS, Made, Named, Pairs, Unreadable, short_error

_DEEPEST, _FIELDS = 20, 2_000_000
"""Largest depth of nested graphs, and largest number of fields."""

_TYPES = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8", 14: "<c8", 15: "<c16",
}  # fmt: skip
_MODEL_TEXTS = {2: "producer_name", 3: "producer_version", 4: "domain", 6: "doc_string"}
_NODE_TEXTS, _LINKS, _DOMAIN = {6: "doc_string", 3: "name", 7: "domain"}, (1, 2, 4), "ai.onnx"
_GRAPH_TEXTS = {2: "name", 10: "doc_string"}
_FEW = 64
_TEXT = re.compile(rb"[ -~]{3,}")

Field = tuple[int, int, Any]
"""Number, wire type (0, 1, 2 or 5), and value: an integer of type 0, else bytes."""


class Model:
    """The model in a file.

    Attributes:
        root: description of the model.
        unread: places and reasons of parts that were not read.

    Raises:
        BayesreconError: the file is damaged or has no graph.
    """

    def __init__(self, path: Path) -> None:
        self.unread: list[tuple[str, str]] = []
        self._count = 0
        found: list[tuple[object, object]] = []
        try:
            graphs = 0
            for number, kind, value in self._fields(path.read_bytes()):
                if number == 7 and kind == 2:
                    graphs += 1
                    found.append(("graph", self._graph(value, 0)))
                elif number in _MODEL_TEXTS and kind == 2:
                    found.append((_MODEL_TEXTS[number], _text(value)))
                elif number == 14 and kind == 2:  # a pair of texts
                    pair = {n: _text(v) for n, k, v in self._fields(value) if k == 2}
                    found.append((pair.get(1, "metadata"), pair.get(2, "")))
                else:
                    found += _words(f"field {number}", kind, value)
        except READ_ERRORS as problem:
            raise BayesreconError(f"{path}: cannot be read as a model of ONNX: {short_error(problem)}") from None
        if not graphs:
            raise BayesreconError(f"{path}: cannot be read as a model of ONNX: there is no graph in it")
        self.root = Pairs(found)

    def _fields(self, content: bytes) -> Iterator[Field]:
        at = 0
        while at < len(content):
            self._count += 1
            if self._count > _FIELDS:
                raise Unreadable(f"more than {_FIELDS} fields")
            key, at = _whole(content, at)
            number, kind = key >> 3, key & 7
            if kind == 0:
                value, at = _whole(content, at)
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                value, at = content[at : at + size], at + size
            elif kind == 2:
                size, at = _whole(content, at)
                value, at = content[at : at + size], at + size
            else:
                raise Unreadable(f"a field of kind {kind}")
            if at > len(content) or not number:
                raise Unreadable("a field beyond its message")
            yield number, kind, value

    def _graph(self, content: bytes, depth: int) -> Pairs:
        if depth > _DEEPEST:
            raise Unreadable("graphs are nested too deeply")
        found: list[tuple[object, object]] = []
        for number, kind, value in self._fields(content):
            if kind == 2 and number == 1:
                found.append(self._node(value, depth))
            elif kind == 2 and number == 5:
                found.append(self._tensor(value))
            elif kind == 2 and number in _GRAPH_TEXTS:
                found.append((_GRAPH_TEXTS[number], _text(value)))
            else:
                found += _words(f"field {number}", kind, value)
        return Pairs(found)

    def _node(self, content: bytes, depth: int) -> tuple[str, object]:
        texts: dict[int, list[str]] = {}
        attributes: list[tuple[object, object]] = []
        for number, kind, value in self._fields(content):
            if number == 5 and kind == 2:
                attributes.append(self._attribute(value, depth))
            elif kind == 2:
                texts.setdefault(number, []).append(_text(value))
        named: list[tuple[object, object]] = []
        for number, found in texts.items():
            if number not in _LINKS and not (number == 7 and found[-1].startswith(_DOMAIN)):
                named += [(_NODE_TEXTS.get(number, f"field {number}"), text) for text in found if text]
        kind = texts.get(4, ["Node"])[-1]
        return texts.get(3, [kind])[-1] or kind, Made(Named("onnx", kind), (), [Pairs([*named, *attributes])])

    def _attribute(self, content: bytes, depth: int) -> tuple[str, object]:
        name, single = "attribute", None
        floats: list[bytes] = []
        wholes: list[int] = []
        texts: list[str] = []
        inner: list[tuple[object, object]] = []
        for number, kind, value in self._fields(content):
            if number == 1 and kind == 2:
                name = _text(value)
            elif number in (2, 7) and kind in (2, 5):
                floats.append(value)
            elif number in (3, 8):
                wholes += [value] if kind == 0 else _wholes(value)
            elif number in (4, 9) and kind == 2:
                texts.append(_text(value))
            elif number in (5, 10) and kind == 2:
                inner.append(self._tensor(value))
            elif number in (6, 11) and kind == 2:
                inner.append(("graph", self._graph(value, depth + 1)))
            elif number != 20 or kind or value > len(_TYPES):
                inner += _words(f"field {number}", kind, value)
        if floats:
            numbers = np.frombuffer(b"".join(floats), "<f4")
            single = float(numbers[0]) if len(numbers) == 1 else numbers
        elif wholes:
            single = _signed(wholes[0]) if len(wholes) == 1 else np.array([_signed(w) for w in wholes])
        elif texts:
            single = texts[0] if len(texts) == 1 else texts
        if inner:
            return name, Pairs([*inner, *([] if single is None else [("value", single)])])
        return name, single

    def _tensor(self, content: bytes) -> tuple[str, object]:
        name, kind_of, sizes = "tensor", 0, []
        raw, texts, elsewhere = b"", [], False
        for number, kind, value in self._fields(content):
            if number == 1:
                sizes += [value] if kind == 0 else _wholes(value)
            elif number == 2 and kind == 0:
                kind_of = value
            elif number == 8 and kind == 2:
                name = _text(value)
            elif number == 6 and kind == 2:
                texts.append(_text(value))
            elif number in (4, 9, 10) and kind in (1, 2, 5):
                raw += value
            elif number in (5, 7, 11):  # integers of any type, one after another
                integers = [value] if kind == 0 else _wholes(value)
                raw += np.array([_signed(w) for w in integers]).astype(_TYPES.get(kind_of, "<i8")).tobytes()
            elif number == 13:
                elsewhere = True
        if elsewhere:
            self.unread.append((name, "its values lie in another file"))
            return name, None
        if kind_of == 8:
            return name, texts
        try:
            if kind_of not in _TYPES:
                raise Unreadable(f"no type {kind_of}")
            values = np.frombuffer(raw, _TYPES[kind_of])
            if not all(0 <= s < 2**48 for s in sizes):
                raise Unreadable("an invalid shape")
            return name, values.reshape(sizes)
        except READ_ERRORS as problem:
            self.unread.append((name, short_error(problem)))
            return name, raw


def _whole(content: bytes, at: int) -> tuple[int, int]:
    """The integer at a position, seven bits per byte, the lowest first, and the position after it."""
    value = shift = 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise Unreadable("a whole number of more than 64 bits")


def _wholes(content: bytes) -> list[int]:
    found, at = [], 0
    while at < len(content):
        value, at = _whole(content, at)
        found.append(value)
    return found


def _signed(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


def _text(content: bytes) -> str:
    return content.decode("utf-8", "backslashreplace")


def _words(name: str, kind: int, value: Any) -> list[tuple[str, object]]:
    """Texts and numbers in a field that is not interpreted, such as names, types and shapes of inputs."""
    texts: list[str] = []
    numbers: list[int] = []
    waiting: list[tuple[int, Any, int]] = [(kind, value, 0)]
    while waiting:
        kind, value, depth = waiting.pop(0)
        if kind == 0:
            numbers.append(_signed(value))
            continue
        inner = None if kind != 2 or depth > _DEEPEST or _TEXT.fullmatch(value) else _message(value)
        if inner is None and _TEXT.fullmatch(value):
            texts.append(value.decode("ascii"))
        elif inner is None:
            numbers += list(value)
        else:
            numbers += [number for number, _, _ in inner]
            waiting += [(k, v, depth + 1) for _, k, v in inner]
    found: list[tuple[str, object]] = [(name, texts)] if texts else []
    plain = len(numbers) <= _FEW and all(0 <= number < 256 for number in numbers)  # types and shapes
    return found if plain else [*found, (f"{name}, numbers", numbers)]


def _message(content: bytes) -> list[Field] | None:
    """The fields of a message; None if the content is none."""
    found, at = [], 0
    try:
        while at < len(content):
            tag, at = _whole(content, at)
            kind = tag & 7
            if kind == 0:
                value, end = _whole(content, at)
            else:
                size, at = _whole(content, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
                value, end = content[at : at + size], at + size
            if end > len(content) or not tag >> 3:
                return None
            found.append((tag >> 3, kind, value))
            at = end
    except READ_ERRORS:
        return None
    return found
