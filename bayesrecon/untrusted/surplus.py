"""What a file holds beside that which its readers describe, found from its bytes alone: whatever its format, nothing of
it goes unseen. `IGNORED` lists what no reader and nothing here looks at.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from bayesrecon.untrusted.packed import PACKED, header_of, unpacked
from bayesrecon.untrusted.plain_values import Found, Inventory
from bayesrecon.untrusted.zip_inventory import around_members, beside_array

IGNORED = {
    "pickle": "the version, lengths of frames, which opcode writes a value, and Cython's checksums of classes",
    "zip": "times, permissions and versions of members, and the checksums of streamed ones",
    "torch": "the checksums in the member serialization_id",
    "gzip": "the time, the level and the system of the header",
    "text": "how a number is written (zeros at its ends, the sign of its exponent); the indentation of comments",
    "HDF5": "runs of fewer than 12 bytes of structure: addresses, checksums, times, reserved bytes",
    "netCDF-3": "nothing",
    "R": "the version of R that wrote the file, flags that R sets, and which of the empty objects one is",
    "zarr": "nothing",
    "JSON": "how a number or a letter is written, and where a long line is broken",
    "PMML": "blanks between elements, and the encoding",
    "ONNX": "the order of fields, names that link nodes, and small numbers of types and shapes",
}
"""What is not looked at, by format."""

_TEXTS, _MOST, _BLOCK, _JSON = (".csv", ".txt", ".out"), 2**16, 2**24, 2**28
_LONG = re.compile(rb"\d[\d.]{17,}(?:[eE][-+]?\d+)?")
_DIGITS = 17  # of a double
_GAP, _COMMA = re.compile(rb"[ \t]+"), re.compile(rb"[ \t]*,[ \t]*")
_FORMS, _ALIGNED = 1000, 3  # forms of lines that are told apart, and those that a table has whose columns are aligned
_WITHIN = re.compile(rb'(?<=[^,;\t\r\n" ])"(?=[^,;\t\r\n" ])')


def surplus(path: Path) -> Inventory:
    """What the container of a file holds beside its content.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "fit.csv"
    >>> _ = path.write_text("a,b\\n1,2 \\n3,4\\t\\n5,6\\n")
    >>> surplus(path)["unread"]
    [('blanks of the text', '2 bytes that nothing in the file accounts for')]
    """
    found: list[Found] = []
    suffix = path.suffix.lower()
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(b"PK") or (suffix in (".npz", ".zip", ".skops") and zipfile.is_zipfile(path)):
        found += _bytes(around_members(path))
    elif head.startswith(b"\x93NUMPY"):
        with path.open("rb") as file:
            found += _bytes(beside_array(file))
    elif suffix in PACKED and path.suffixes[-2:-1] == [".csv"]:
        opened = unpacked(path)
        found += _bytes([("bytes after the end", opened.behind)])
        found += _of_text(BytesIO(opened.content))
    elif suffix in _TEXTS:
        with path.open("rb") as file:
            found += _of_text(file)
    elif suffix == ".json" and path.stat().st_size <= _JSON:
        found += odd_json(path.read_bytes())
    name = header_of(path)
    found += [("name in the header", "text", name.decode("latin-1"))] if name not in (b"", path.stem.encode()) else []
    unread = [(where, f"{size(values)} bytes that nothing in the file accounts for") for where, _, values in found]
    return {"found": [one for one in found if one[0] not in _UNREADABLE], "unread": unread}


_BLANKS, _DIGITS_BEYOND, _QUOTES, _LINES = (
    "blanks of the text", "digits that no number has", "quotes within cells", "ends of lines",
)  # fmt: skip
_UNREADABLE = (_BLANKS, _QUOTES, _LINES)


def size(values: object) -> int:
    """How many letters, bytes or values there are."""
    return len(values) if isinstance(values, str) else int(np.size(values))  # type: ignore[arg-type]


def _bytes(found: "list[tuple[str, bytes]] | Iterator[tuple[str, bytes]]") -> Iterator[Found]:
    return ((where, "bytes", np.frombuffer(content, np.uint8)) for where, content in found if content)


def _of_text(file: BinaryIO) -> Iterator[Found]:
    """Blanks, digits, quotes and ends of lines of a table that none of its numbers needs."""
    layout, digits, quotes = _Layout(), [], 0
    rest = b""
    while True:
        block = file.read(_BLOCK)
        text = rest + block
        cut = text.rfind(b"\n") + 1 if block else len(text)
        lines, rest = text[:cut], text[cut:]
        layout.add(lines)
        digits += [m for m in _LONG.findall(lines) if _is_beyond(m)]
        quotes += len(_WITHIN.findall(lines))
        if not block:
            break
    for where, count in ((_BLANKS, layout.blanks()), (_QUOTES, quotes), (_LINES, layout.ends())):
        if count:
            yield where, "bytes", np.zeros(count, np.uint8)
    if digits:
        yield _DIGITS_BEYOND, "text", b" ".join(digits)[:_MOST].decode("ascii")


def _is_beyond(number: bytes) -> bool:
    """Whether a number has more digits than a double keeps, other than zeros or those of the double itself."""
    text = number.decode("ascii")
    try:
        exact = Decimal(text)
    except ArithmeticError:
        return False
    digits = len(exact.as_tuple().digits)
    if digits <= _DIGITS or text.count(".") > 1:
        return False
    places = -int(exact.as_tuple().exponent)
    double = float(text)
    return not 0 <= places < 400 or Decimal(f"{double:.{places}f}") != exact != Decimal(double)


class _Layout:
    """Blanks and ends of lines. A program writes them alike in all lines, or so that columns stand below each other."""

    def __init__(self) -> None:
        self._trailing = Counter[int]()
        self._returns = self._lines = self._empty = self._last = self._commented = self._wide = 0
        self._gaps: set[bytes] = set()
        self._headed = False
        self._columns: tuple[set[tuple[int, ...]], set[tuple[int, ...]]] = (set(), set())

    def add(self, text: bytes) -> None:
        """Further complete lines."""
        lines = text.split(b"\n")
        self._returns += text.count(b"\r\n")
        for line in lines if lines[-1] else lines[:-1]:
            self._lines += 1
            bare = line.rstrip(b"\r")
            kept = bare.rstrip(b" \t")
            comment = kept.startswith(b"#")
            self._trailing[len(bare) - len(kept) - comment * bare.endswith(b" ")] += 1
            self._empty, self._last = self._empty + (not kept), 0 if kept else self._last + 1
            self._commented += comment
            if not comment and self._headed and (b" " in kept or b"\t" in kept or len(self._gaps) > 1):
                self._add_gaps(kept)
            elif not comment and self._headed and b"," in kept:
                self._gaps.add(b",")
            self._headed |= bool(kept) and not comment

    def _add_gaps(self, line: bytes) -> None:
        gaps = list((_COMMA if b"," in line else _GAP).finditer(line))
        self._gaps |= {gap.group() for gap in gaps}
        self._wide += sum(len(gap.group().replace(b",", b"")) for gap in gaps)
        if len(self._gaps) > 1 and len(self._columns[0]) < _FORMS:
            self._columns[0].add(tuple(gap.end() for gap in gaps))
            self._columns[1].add((*(gap.start() for gap in gaps), len(line)))

    def blanks(self) -> int:
        """Blanks that say something."""
        trailing = sum(run * count for run, count in self._trailing.items())
        if len(self._trailing) == 1:  # the same behind every line
            trailing = 0
        aligned = min(map(len, self._columns)) <= _ALIGNED
        return trailing + (0 if aligned or len(self._gaps) < 2 else self._wide)

    def ends(self) -> int:
        """Lines that end otherwise than the others, and empty ones between the rows."""
        mixed = min(self._returns, self._lines - self._returns)
        return (mixed if mixed > 1 else 0) + max(0, self._empty - self._last - self._commented)


_SIGNS = frozenset((b"{", b"}", b"[", b"]", b",", b":"))
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def odd_json(content: bytes) -> Iterator[Found]:
    """Blanks of a document that are not alike in like places, and digits that no number keeps."""
    runs: dict[tuple[bytes, bytes, int], Counter[bytes]] = {}
    depth, last, end, digits = 0, b"", 0, []
    for token in _TOKEN.finditer(content):
        text = token.group()
        kind = text if text in _SIGNS else b"x"
        depth -= text in (b"}", b"]")
        runs.setdefault((last, kind, depth), Counter())[content[end : token.start()]] += 1
        depth += text in (b"{", b"[")
        if len(text) > _DIGITS and kind == b"x" and _LONG.fullmatch(text.lstrip(b"-")) and _is_beyond(text):
            digits.append(text)
        last, end = kind, token.end()
    odd = sum(sum(counts.values()) - max(counts.values()) for counts in runs.values() if _are_odd(set(counts)))
    if odd := odd + len(content[end:].strip(b"\r\n")):
        yield _BLANKS, "bytes", np.zeros(odd, np.uint8)
    if digits:
        yield _DIGITS_BEYOND, "text", b" ".join(digits)[:_MOST].decode("ascii")


def _are_odd(runs: set[bytes]) -> bool:
    """Whether blanks between the same signs differ by more than that a long line is broken there."""
    broken = {run for run in runs if b"\n" in run}
    return len(broken) > 1 or len(runs - broken) > 1 or any(run.split(b"\n")[0].strip(b"\r") for run in broken)
