"""The bytes of an R file: unpacked within bounds, and the numbers and texts that its serialisation is made of.

`saveRDS` and `save` write one stream in one of three forms: big-endian binary (`X`), that of the machine (`B`), or
ASCII (`A`). See "Serialization Formats" in the manual "R Internals".
"""

from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError
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


_ESCAPES = {
    ord("n"): 10,
    ord("t"): 9,
    ord("v"): 11,
    ord("b"): 8,
    ord("r"): 13,
    ord("f"): 12,
    ord("a"): 7,
    ord("\\"): 92,
    ord("?"): 63,
    ord("'"): 39,
    ord('"'): 34,
}


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
