"""An R file (.rds, .RData) as a table of nodes. Nothing in it is evaluated, and no package is looked up.

Objects are read one after another by generators that call each other over one list: no depth of a file is a depth of
Python's own stack. Vectors that R keeps in another form (`1:n`, texts of numbers) are left as they stand.
"""

from array import array
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.packed import compression, unpacked

FREE, RATIO = 2**26, 20
"""A file may unpack to so many bytes whatever its own size, and beyond that to so many times its own size: what R saves
are mostly numbers, which compress little, and each of them is held a few times while it is read."""

_ZSTANDARD = b"\x28\xb5\x2f\xfd"
_SAVED = {b"RDX2\n", b"RDX3\n", b"RDA2\n", b"RDA3\n", b"RDB2\n", b"RDB3\n"}
_FORMS = {b"X\n": ">", b"B\n": "<", b"A\n": ""}


def unpacked_stream(path: Path, trusted: bool = False) -> tuple[bytes, bytes]:
    """The stream of a file, and what stands behind its end.

    Raises:
        BayesreconError: it unpacks to more than a file of its size may, or its end is missing.

    >>> import gzip
    >>> path = Path("fit.rds")
    >>> _ = path.write_bytes(gzip.compress(b"X\\n") + b"more")
    >>> unpacked_stream(path)
    (b'X\\n', b'more')
    """
    if compression(path) in ("gzip", "bzip2", "xz"):
        found = unpacked(path, free=2**62 if trusted else FREE, ratio=RATIO, most=2**62)
        return found.content, found.behind
    return path.read_bytes(), b""


def saved_by_name(content: bytes) -> tuple[bool, int]:
    """Whether the file holds objects by their names (`save`) rather than one (`saveRDS`), and where its stream begins.

    >>> saved_by_name(b"RDX3\\nX\\n"), saved_by_name(b"X\\n")
    ((True, 5), (False, 0))
    """
    if content[:5] in _SAVED:
        return True, 5
    if content[:4] == _ZSTANDARD:
        raise BayesreconError("it is compressed by Zstandard, which is not read; save it with compress = 'gzip'")
    if content[:2] not in _FORMS:
        raise BayesreconError(
            "it is no file of saveRDS or save (its first bytes are another format's); write it with saveRDS(fit, file)"
        )
    return False, 0


class Stream:
    """Numbers and texts one after another; every length is held against the bytes that are left.

    >>> Stream(b"X\\n\\x00\\x00\\x00\\x07", 0).integer()
    7
    """

    def __init__(self, content: bytes, begin: int) -> None:
        form = content[begin : begin + 2]
        if form not in _FORMS:
            raise BayesreconError("the form of its stream is not known")
        self.content, self.at, self.order = content, begin + 2, _FORMS[form]

    @property
    def left(self) -> int:
        """Bytes that are left."""
        return len(self.content) - self.at

    def integer(self) -> int:
        """A whole number of four bytes; R's missing value is the smallest of them."""
        if not self.order:
            word = self._word()
            try:
                return -(2**31) if word == b"NA" else int(word)
            except ValueError:
                raise BayesreconError("a whole number is damaged") from None
        end = self.at + 4
        if end > len(self.content):
            raise _ends()
        value = int.from_bytes(self.content[self.at : end], "big" if self.order == ">" else "little", signed=True)
        self.at = end
        return value

    def length(self) -> int:
        """How many values follow; more than two thousand million are two numbers."""
        length = self.integer()
        if length == -1:
            length = (self.integer() << 32) + self.integer()
        if length < 0 or length > self.left:
            raise BayesreconError("more values are declared than there are bytes left")
        return length

    def integers(self, count: int) -> np.ndarray:
        """So many whole numbers."""
        return self._numbers(count, "i4")

    def doubles(self, count: int) -> np.ndarray:
        """So many real numbers."""
        return self._numbers(count, "f8")

    def raw(self, count: int) -> np.ndarray:
        """So many bytes."""
        if not self.order:
            try:
                return np.array([int(self._word(), 16) & 255 for _ in range(count)], np.uint8)
            except ValueError:
                raise BayesreconError("a byte is damaged") from None
        return np.frombuffer(self._take(count), np.uint8)

    def text(self, count: int) -> str:
        """A text of so many bytes."""
        if not self.order:
            return _unescaped(self._skip_space(), self, count)
        return self._take(count).decode("utf-8", "backslashreplace")

    def _numbers(self, count: int, kind: str) -> np.ndarray:
        if self.order:
            taken = np.frombuffer(self._take(count * int(kind[1])), self.order + kind)
            return taken.astype(kind)
        if kind == "i4":
            return np.array([self.integer() for _ in range(count)], np.int32)
        try:
            return np.array([_double(self._word()) for _ in range(count)])
        except ValueError:
            raise BayesreconError("a number is damaged") from None

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.content):
            raise _ends()
        found = self.content[self.at : end]
        self.at = end
        return found

    def _skip_space(self) -> int:
        content, at = self.content, self.at
        while at < len(content) and content[at] in b" \n\r\t":
            at += 1
        self.at = at
        return at

    def _word(self) -> bytes:
        begin = self._skip_space()
        end = self.content.find(b"\n", begin, begin + 64)
        if end < 0:
            raise _ends()
        self.at = end + 1
        return self.content[begin:end].strip()


def _double(word: bytes) -> float:
    named = {b"NA": np.nan, b"NaN": np.nan, b"Inf": np.inf, b"-Inf": -np.inf}
    return named[word] if word in named else float(word)


_ESCAPES = dict(zip(b"ntvbrfa\\?'\"", b"\n\t\v\b\r\f\a\\?'\"", strict=True))


def _unescaped(begin: int, stream: Stream, count: int) -> str:
    """Of the ASCII form, in which a byte may be a backslash with a letter or three octal digits."""
    content, at, found = stream.content, begin, bytearray()
    while len(found) < count:
        if at + 1 >= len(content):
            raise _ends()
        byte = content[at]
        at += 1
        if byte == 92:
            after = content[at]
            if after in b"01234567":
                digits = content[at : at + 3]
                size = 1 + sum(all(d in b"01234567" for d in digits[: k + 1]) for k in range(1, len(digits)))
                found.append(int(digits[:size], 8) & 255)
                at += size
                continue
            byte = _ESCAPES.get(after, after)
            at += 1
        found.append(byte)
    stream.at = at
    return found.decode("utf-8", "backslashreplace")


def _ends() -> BayesreconError:
    return BayesreconError("it ends in the middle, damaged")


DEEPEST = 10_000
"""Objects within objects; the longest chains that R itself makes are a few hundred."""

_SERIALISED, _MOST_WITHIN = (b"X\n\0\0\0", b"A\n2\n", b"A\n3\n", b"B\n\2\0\0\0", b"B\n\3\0\0\0"), 8
"""Beginnings of objects that `serialize` made into bytes, and the largest number of such objects in each other."""

Reading = Generator["int | Reading", int, int]
"""Reads one object and returns its number. It yields the flags of an object within, or what reads one, and is sent its
number."""

_MISSING = -1  # in place of the number of a text

# R's numbers of types, and of what stands for an object in a stream.
_SYMBOL, _PAIRS, _CLOSURE, _ENVIRONMENT, _PROMISE, _CALL, _SPECIAL, _BUILTIN, _CHARS = range(1, 10)
_DOTS, _BYTECODE, _POINTER, _WEAK, _OBJECT = 17, 21, 22, 23, 25
_REFERENCE, _PERSISTENT, _PACKAGE, _NAMESPACE, _ALTERNATIVE = 255, 247, 248, 249, 238
_CALL_ATTRIBUTES, _PAIRS_ATTRIBUTES, _DEFINED, _USED = 240, 239, 244, 243
_BARE = {254: "null", 253: "global", 252: "unbound", 251: "missing", 250: "base", 242: "empty", 241: "base"}
_VECTORS = {10: "logical", 13: "integer", 14: "double", 15: "complex", 16: "text", 24: "raw"}
_LISTS = {19: "list", 20: "expression"}
_CHAINS = {_PAIRS: "pairs", _CLOSURE: "closure", _PROMISE: "promise", _CALL: "call", _DOTS: "dots"}
_PARTS = {_CLOSURE: ("environment", "arguments", "body"), _PROMISE: ("environment", "value", "expression")}
_HAS_ATTRIBUTES, _HAS_TAG, _UNUSED = 1 << 9, 1 << 10, 1 << 11
_LEVELS, _OLDEST = frozenset((0, 2, 4, 8, 16, 64)), (0x20300, 0x30500)


def read_r(path: Path, trusted: bool = False) -> Json:
    """All objects.

    Args:
        trusted: whatever their number and size.

    Returns:
        the arrays of `bayesrecon.untrusted.r_file`, the number of the `root`, whether its elements are objects
        `by_name`, the version of R that wrote the file, its `encoding`, what stands `behind` the stream, and flags of
        objects that R does not set, `odd`.
    """
    try:
        content, behind = unpacked_stream(path, trusted)
        by_name, begin = saved_by_name(content)
        reader = _Reader(Stream(content, begin), Nodes(trusted))
        version, root = reader.head(), reader.run()
    except BayesreconError as error:
        text = str(error)
        raise BayesreconError(text if text.startswith(str(path)) else f"{path}: {text}") from None
    remaining = content[reader.stream.at :] + behind
    about = {"root": root, "by_name": by_name, "version": version, "encoding": reader.encoding}
    return (
        reader.nodes.table()
        | about
        | {
            "behind": np.frombuffer(remaining[: 2**16], np.uint8),
            "odd": np.array(reader.odd, np.int64),
        }
    )


class _Reader:
    def __init__(self, stream: Stream, nodes: "Nodes", depth: int = 0) -> None:
        self.stream, self.nodes, self._depth = stream, nodes, depth
        self.encoding = ""
        self.odd: list[int] = []
        self._known: list[int] = []

    def head(self) -> str:
        """The version of R that wrote it."""
        version, writer, oldest = (self.stream.integer() for _ in range(3))
        self.odd += [] if oldest in _OLDEST else [oldest]
        if version not in (2, 3):
            raise BayesreconError(f"serialisation version {version} is not read; save it again with a newer R")
        if version == 3:
            self.encoding = self.stream.text(self.stream.length())
        return ".".join(str(writer >> shift & 255) for shift in (16, 8, 0))

    def run(self) -> int:
        """Read one object, and return its number."""
        waiting: list[Reading] = []
        requested: int | Reading = self._next()
        while True:
            result: int | None = None
            if isinstance(requested, int):  # flags of an object, read at once where nothing lies in it
                result = self._simple(requested)
                if result is None:
                    requested = self._item(requested)
            if not isinstance(requested, int):
                waiting.append(requested)
                if len(waiting) > DEEPEST:
                    raise BayesreconError(f"objects lie more than {DEEPEST} deep in each other, refused")
            while waiting:
                try:
                    requested = next(waiting[-1]) if result is None else waiting[-1].send(result)
                    break
                except StopIteration as ended:
                    waiting.pop()
                    result = ended.value
            else:
                assert result is not None
                return result

    def _next(self) -> int:
        flags = self.stream.integer()
        # Bits that R sets: of a class, of attributes and of a tag, the encoding of a text, a lock, a class of S4.
        if flags & 255 != _REFERENCE and (flags & _UNUSED or flags >> 12 not in _LEVELS):
            self.odd.append(flags)
        return flags

    def _simple(self, flags: int) -> int | None:
        """An object in which no other one lies; None for others."""
        kind = flags & 255
        if kind in _BARE:
            return 0 if kind == 254 else self.nodes.node(_BARE[kind])
        if kind == _REFERENCE:
            return self._referred(flags >> 8 or self.stream.integer())
        if kind == _SYMBOL:
            return self._symbol()
        if kind in _VECTORS and not flags & _HAS_ATTRIBUTES:
            return self._vector(kind)
        if kind in (_SPECIAL, _BUILTIN):
            at = self.nodes.node("builtin")
            self.nodes.tie(at, 0, SPECIAL, self.nodes.text(self.stream.text(self.stream.length())))
            return at
        if kind in (_PERSISTENT, _PACKAGE, _NAMESPACE):
            return self._named(kind)
        return None

    def _symbol(self) -> int:
        at = self.nodes.node("symbol")
        self.nodes.tie(at, 0, SPECIAL, max(0, self._chars_or(self.nodes.text("NA"))))
        self._known.append(at)
        return at

    def _named(self, kind: int) -> int:
        """A package, a namespace or whatever another program was to look up: their names alone."""
        at = self.nodes.node({_PERSISTENT: "persistent", _PACKAGE: "package", _NAMESPACE: "namespace"}[kind])
        self.stream.integer()
        for _ in range(self.stream.length()):
            self.nodes.tie(at, 0, SPECIAL, self._chars_or(self.nodes.text("NA")))
        self._known.append(at)
        return at

    def _referred(self, number: int) -> int:
        if not 0 < number <= len(self._known):
            raise BayesreconError("it refers to an object that is not there, damaged")
        return self._known[number - 1]

    def _chars_or(self, other: int) -> int:
        text = self._chars()
        return other if text == _MISSING else text

    def _chars(self) -> int:
        """A text, and its number; attributes of texts are none of R's any more."""
        flags = self._next()
        if flags & 255 != _CHARS or flags & _HAS_ATTRIBUTES:
            raise BayesreconError("a text is damaged")
        size = self.stream.integer()
        if size == -1:
            return _MISSING
        if not 0 <= size <= self.stream.left:
            raise BayesreconError("a text is longer than the file")
        return self.nodes.text(self.stream.text(size))

    def _vector(self, kind: int) -> int:
        name, stream = _VECTORS[kind], self.stream
        count = stream.length()
        if name in ("logical", "integer"):
            return self.nodes.values(name, stream.integers(count))
        if name in ("double", "complex"):
            return self.nodes.values(name, stream.doubles(count * (2 if name == "complex" else 1)))
        if name == "raw":
            return self._serialised(stream.raw(count))
        return self.nodes.values(name, np.array([self._chars() for _ in range(count)], np.int32))

    def _serialised(self, values: np.ndarray) -> int:
        """Raw bytes, and the object that they are if R's `serialize` made them."""
        at, content = self.nodes.values("raw", values), values.tobytes()
        if content.startswith(_SERIALISED) and self._depth < _MOST_WITHIN:
            inner = _Reader(Stream(content, 0), self.nodes, self._depth + 1)
            try:
                inner.head()
                root = inner.run()
            except BayesreconError:
                return at
            if not inner.stream.left:
                self._part(at, root, "object")
        return at

    def _item(self, flags: int) -> Reading:
        kind = flags & 255
        if kind in _CHAINS:
            return (yield self._chain(flags))
        if kind in _VECTORS:
            at = self._vector(kind)
        elif kind in _LISTS:
            at = self.nodes.node(_LISTS[kind])
            for _ in range(self.stream.length()):
                self.nodes.tie(at, (yield self._next()), ELEMENT)
        elif kind == _ENVIRONMENT:
            return (yield self._environment())
        elif kind == _POINTER:
            at = self.nodes.node("pointer")
            self._known.append(at)
            for part in ("protected", "tag"):
                self._part(at, (yield self._next()), part)
        elif kind == _WEAK:
            at = self.nodes.node("weak")
            self._known.append(at)
        elif kind == _OBJECT:
            at = self.nodes.node("object")
        elif kind == _ALTERNATIVE:
            at = self.nodes.node("alternative")
            for part in ("form", "state"):
                self._part(at, (yield self._next()), part)
            self._attributes(at, (yield self._next()))
            return at
        elif kind == _BYTECODE:
            self.stream.length()
            at = yield self._bytecode({})
        else:
            raise BayesreconError(f"an object of type {kind} is not known, damaged")
        if flags & _HAS_ATTRIBUTES:
            self._attributes(at, (yield self._next()))
        return at

    def _part(self, at: int, child: int, name: str) -> None:
        if child:
            self.nodes.tie(at, child, SPECIAL, self.nodes.text(name))

    def _attributes(self, at: int, pairs: int) -> None:
        """Hang a pairlist of attributes below an object."""
        if pairs:
            self.nodes.tie(at, pairs, ATTRIBUTE)

    def _environment(self) -> Reading:
        self.stream.integer()
        at = self.nodes.node("environment")
        self._known.append(at)
        for part in ("enclosure", "frame", "hash table"):
            self._part(at, (yield self._next()), part)
        self._attributes(at, (yield self._next()))
        return at

    def _chain(self, flags: int) -> Reading:
        """A pairlist or a call, cell after cell; a closure or a promise has three parts."""
        kind = flags & 255
        at = self.nodes.node(_CHAINS[kind])
        if flags & _HAS_ATTRIBUTES:
            self._attributes(at, (yield self._next()))
        if kind in _PARTS:
            environment, one, two = _PARTS[kind]
            if flags & _HAS_TAG:
                self._part(at, (yield self._next()), environment)
            self._part(at, (yield self._next()), one)
            self._part(at, (yield self._next()), two)
            return at
        while True:
            tag = (yield self._next()) if flags & _HAS_TAG else 0
            self._cell(at, (yield self._next()), tag)
            flags = self._next()
            if flags & 255 != _PAIRS or flags & _HAS_ATTRIBUTES:
                break
        following = yield flags
        if following:
            self._cell(at, following, 0)
        return at

    def _cell(self, at: int, value: int, tag: int) -> None:
        self.nodes.tie(at, value, ELEMENT)
        if tag:
            self.nodes.tie(at, tag, TAG)

    def _bytecode(self, shared: dict[int, int]) -> Reading:
        at = self.nodes.node("bytecode")
        self.nodes.tie(at, (yield self._next()), SPECIAL, self.nodes.text("instructions"))
        for _ in range(self.stream.length()):
            kind = self.stream.integer()
            if kind == _BYTECODE:
                self._part(at, (yield self._bytecode(shared)), "constant")
            elif kind in (_CALL, _PAIRS, _DEFINED, _USED, _CALL_ATTRIBUTES, _PAIRS_ATTRIBUTES):
                self._part(at, (yield self._code(kind, shared)), "constant")
            else:
                self._part(at, (yield self._next()), "constant")
        return at

    def _code(self, kind: int, shared: dict[int, int]) -> Reading:
        """Source kept within compiled code, parts of which may stand for each other."""
        if kind == _USED:
            number = self.stream.integer()
            if number not in shared:
                raise BayesreconError("compiled code refers to a part that is not there, damaged")
            return shared[number]
        if kind not in (_CALL, _PAIRS, _DEFINED, _CALL_ATTRIBUTES, _PAIRS_ATTRIBUTES):
            return (yield self._next())
        number = -1
        if kind == _DEFINED:
            number, kind = self.stream.integer(), self.stream.integer()
        at = self.nodes.node("call" if kind in (_CALL, _CALL_ATTRIBUTES) else "pairs")
        if number >= 0:
            shared[number] = at
        if kind in (_CALL_ATTRIBUTES, _PAIRS_ATTRIBUTES):
            self._attributes(at, (yield self._next()))
        while True:
            tag = yield self._next()
            self._cell(at, (yield self._code(self.stream.integer(), shared)), tag)
            kind = self.stream.integer()
            if kind != _PAIRS:
                break
        self._part(at, (yield self._code(kind, shared)), "rest")
        return at


MOST_NODES, MOST_TEXTS, MOST_DIFFERENT = 2**20, 2**22, 2**20
"""Objects, texts and different texts that a file may hold: each of them takes some hundred bytes while it is read."""

KINDS = (
    "null", "symbol", "pairs", "closure", "environment", "promise", "call", "builtin", "logical", "integer", "double",
    "complex", "text", "list", "expression", "bytecode", "pointer", "weak", "raw", "object", "alternative", "global",
    "base", "empty", "namespace", "package", "missing", "unbound", "dots", "persistent",
)  # fmt: skip
"""What a node can be: R's types, and the environments that a file names and does not hold."""

NUMBER = {kind: k for k, kind in enumerate(KINDS)}
_STORES = {"logical": 0, "integer": 0, "double": 1, "complex": 1, "text": 2, "raw": 3}

ATTRIBUTE, ELEMENT, TAG, SPECIAL = 0, 1, 2, 3
"""What ties a node to the one above it: an attribute, an element of a list, one with a name of a pairlist, a part."""


@dataclass
class Nodes:
    """A table that grows. Node 0 is NULL."""

    trusted: bool = False

    def __post_init__(self) -> None:
        self._kind, self._start, self._size = array("B"), array("q"), array("q")
        self._store: tuple[list[np.ndarray], ...] = ([], [], [], [])
        self._length = [0, 0, 0, 0]
        self._texts: dict[str, int] = {}
        self._parent, self._child, self._tie, self._label = array("q"), array("q"), array("B"), array("q")
        self.node("null")

    def node(self, kind: str) -> int:
        """A new node without values."""
        if len(self._kind) >= MOST_NODES and not self.trusted:
            raise BayesreconError(f"it holds more than {MOST_NODES} objects, refused")
        self._kind.append(NUMBER[kind])
        self._start.append(0)
        self._size.append(0)
        return len(self._kind) - 1

    def values(self, kind: str, values: np.ndarray, node: int | None = None) -> int:
        """A node with values; of texts their numbers, as `text` tells them."""
        at = self.node(kind) if node is None else node
        store = _STORES[kind]
        if store == 2 and self._length[2] + len(values) > MOST_TEXTS and not self.trusted:
            raise BayesreconError(f"it holds more than {MOST_TEXTS} texts, refused")
        self._start[at], self._size[at] = self._length[store], len(values)
        self._length[store] += len(values)
        self._store[store].append(values)
        return at

    def text(self, text: str) -> int:
        """The number of a text."""
        index = self._texts.get(text)
        if index is None:
            if len(self._texts) >= MOST_DIFFERENT and not self.trusted:
                raise BayesreconError(f"it holds more than {MOST_DIFFERENT} different texts, refused")
            index = self._texts[text] = len(self._texts)
        return index

    def tie(self, parent: int, child: int, tie: int, label: int = -1) -> None:
        """Hang a node below another one; the label is the number of a text."""
        if len(self._parent) >= 2 * MOST_NODES and not self.trusted:
            raise BayesreconError(f"it holds more than {2 * MOST_NODES} elements, refused")
        self._parent.append(parent)
        self._child.append(child)
        self._tie.append(tie)
        self._label.append(label)

    def kind_of(self, node: int) -> str:
        """What a node is."""
        return KINDS[self._kind[node]]

    def table(self) -> dict[str, np.ndarray | list[str]]:
        """All of it as arrays, and the texts."""
        kinds = (np.int32, np.float64, np.int32, np.uint8)
        stores = [
            np.concatenate(part) if part else np.zeros(0, kind) for part, kind in zip(self._store, kinds, strict=True)
        ]
        named = dict(zip(("integers", "doubles", "text", "raw"), stores, strict=True))
        return {
            "kind": np.asarray(self._kind),
            "start": np.asarray(self._start),
            "size": np.asarray(self._size),
            "parent": np.asarray(self._parent),
            "child": np.asarray(self._child),
            "tie": np.asarray(self._tie),
            "label": np.asarray(self._label),
            "texts": list(self._texts),
            **named,
        }
