"""What a file holds beside that which its readers describe, found from its bytes alone: whatever its format, nothing of
it goes unseen. `IGNORED` lists what no reader and nothing here looks at.
"""

import io
import math
import re
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from bayesrecon.untrusted.packed import PACKED, header_of, unpacked
from bayesrecon.untrusted.plain_values import Found, Inventory, may_have_unused_bytes, unused_bytes

IGNORED = {
    "pickle": "the version, lengths of frames, which opcode writes a value, and Cython's checksums of classes",
    "zip": "times, permissions and versions of members, and the checksums of streamed ones",
    "torch": "the checksums in the member serialization_id",
    "gzip": "the time, the level and the system of the header",
    "text": "how a number is written (zeros at its end, the sign of its exponent); the indentation of comments",
    "HDF5": "runs of fewer than 12 bytes of structure: addresses, checksums, times, reserved bytes",
    "netCDF-3": "nothing",
    "R": "the version of R that wrote the file, flags that R sets, and which of the empty objects one is",
    "zarr": "nothing",
    "JSON": "how a number or a letter is written, and where a long line is broken",
    "PMML": "blanks between elements, and the encoding",
    "ONNX": "the order of fields, names that link nodes, and small numbers of types and shapes",
}
"""What is not looked at, by format."""

_TEXTS, _MOST, _BLOCK, _JSON = (".csv", ".txt", ".out", ".log", ".p"), 2**16, 2**24, 2**28
_REMARK = re.compile(rb"(?m)#.*$")
_LONG = re.compile(rb"\d[\d.]{17,}(?:[eE][-+]?\d+)?")
_DIGITS = 17  # of a double
_GAP, _COMMA = re.compile(rb"[ \t]+"), re.compile(rb"[ \t]*,[ \t]*")
_FORMS, _ALIGNED = 1000, 3  # forms of lines that are told apart, and those that a table has whose columns are aligned
_FORM = re.compile(  # of a number that no program writes so, and signs that nobody sees
    rb"(?<![\w.+-])(?:-?0\d+\.\d+(?![\w.])|-?0(?:\.0*)?[eE][-+]?0*[1-9])"
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\xa0]|\xe2\x80[\x80-\x8f\xa8-\xaf]"
)
_NAN = re.compile(rb"(?im)(?<![^,;\t\n])-?nan(?![^,;\t\r\n])")
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


_BLANKS, _DIGITS_BEYOND, _QUOTES, _LINES, _FORMS_OF_NUMBERS = (
    "blanks of the text", "digits that no number has", "quotes within cells", "ends of lines", "forms of numbers",
)  # fmt: skip
_UNREADABLE = (_BLANKS, _QUOTES, _LINES, _FORMS_OF_NUMBERS)


def size(values: object) -> int:
    """How many letters, bytes or values there are."""
    return len(values) if isinstance(values, str) else int(np.size(values))  # type: ignore[arg-type]


def _bytes(found: "list[tuple[str, bytes]] | Iterator[tuple[str, bytes]]") -> Iterator[Found]:
    return ((where, "bytes", np.frombuffer(content, np.uint8)) for where, content in found if content)


def _of_text(file: BinaryIO) -> Iterator[Found]:
    """Blanks, digits, quotes and ends of lines of a table that none of its numbers needs."""
    layout, digits, quotes = _Layout(), [], 0
    odd, plus, bare, missing = 0, Counter[int](), Counter[int](), Counter[bytes]()
    rest = b""
    while True:
        block = file.read(_BLOCK)
        text = rest + block
        cut = text.rfind(b"\n") + 1 if block else len(text)
        lines, rest = text[:cut], text[cut:]
        layout.add(lines)
        digits += [m for m in _LONG.findall(lines) if _is_beyond(m)]
        quotes += len(_WITHIN.findall(lines))
        rows = _REMARK.sub(b"", lines) if b"#" in lines else lines
        odd += len(_FORM.findall(rows))
        if b"+" in rows:
            cells = [(k, cell.strip()[:1]) for row in rows.split(b"\n") for k, cell in enumerate(row.split(b","))]
            plus.update(k for k, first in cells if first == b"+")
            bare.update(k for k, first in cells if first.isdigit())
        missing.update(_NAN.findall(rows))
        if not block:
            break
    forms = odd + sum((plus & bare).values()) + sum(missing.values()) - max(missing.values(), default=0)
    beside = ((_BLANKS, layout.blanks()), (_QUOTES, quotes), (_LINES, layout.ends()), (_FORMS_OF_NUMBERS, forms))
    for where, count in beside:
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


_LOCAL, _CENTRAL, _END, _FIXED = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", 30
_MOST_OF_ZIP, _PIECE = 2**16, 2**20
_ZIP64, _TIMES, _OWNER = 1, 0x5455, 0x7875  # extra fields of sizes, times, and the numbers of a user and a group
_OF_TORCH, _PADDING = 0x4246, b"Z\0"  # with which torch fills extra fields, so that arrays are aligned
_VERSIONS = 63  # newest version of the format that a member needs
_STREAMED, _LARGE = 8, 2**32 - 1

Piece = tuple[str, bytes]


def around_members(path: Path) -> list[Piece]:
    """Place and first bytes of everything in the archive that is not the content of a member.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "a.zip"
    >>> with zipfile.ZipFile(path, "w") as archive:
    ...     archive.writestr("one", "1")
    ...     archive.comment = b"ask Ann"
    >>> around_members(path)
    [('comment of the archive', b'ask Ann')]
    """
    with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
        members = archive.infolist()
        found, taken, owners = [], [], set[bytes]()
        for member in members:
            end, local = _local(stream, member)
            taken.append((member.header_offset, end))
            found += [(f"comment of {member.filename}", member.comment)] if member.comment else []
            for extra in (member.extra, local):
                found += [(f"extra field of {member.filename}", f) for f in _odd(extra, member)]
                owners |= {content for kind, content in _fields(extra) if kind == _OWNER}
            found += _odd_sizes(stream, member, end)
            found += [(f"header of {member.filename}", head) for head in _odd_headers(stream, member)]
            found += _behind_compressed(stream, archive, member)
        found += [("owners of members", b"".join(owners))] if len(owners) > 1 else []
        found += [("comment of the archive", archive.comment)] if archive.comment else []
        found += _between(stream, taken, archive.start_dir)
        found += _directory(stream, members, archive.start_dir, path.stat().st_size)
        found += _earlier(archive, members)
        found += _in_arrays(archive, members)
    return found


def _local(stream: IO[bytes], member: zipfile.ZipInfo) -> tuple[int, bytes]:
    """Where a member ends, and the extra field in the header before it."""
    stream.seek(member.header_offset)
    head = stream.read(_FIXED)
    if not head.startswith(_LOCAL) or len(head) < _FIXED:
        return member.header_offset, b""
    name, extra = struct.unpack("<HH", head[26:30])
    stream.seek(name, 1)
    field = stream.read(extra)
    end = member.header_offset + _FIXED + name + extra + member.compress_size
    if member.flag_bits & _STREAMED:  # then its sizes stand once more after it
        stream.seek(end)
        again = stream.read(24)
        follows = again.startswith(b"PK\x07\x08")
        large = max(member.file_size, member.compress_size) >= _LARGE or _has_zip64(member.extra)
        end += (4 if follows else 0) + (20 if large else 12)
    return end, field


def _odd_sizes(stream: IO[bytes], member: zipfile.ZipInfo, end: int) -> list[Piece]:
    """What stands after a streamed member, if it is not the member's checksum and sizes."""
    if not member.flag_bits & _STREAMED:
        return []
    begin = end - 24
    stream.seek(max(begin, 0))
    again = stream.read(24)
    for form in ("<III", "<IQQ"):
        if again.endswith(struct.pack(form, member.CRC, member.compress_size, member.file_size)):
            return []
    return [(f"sizes of {member.filename}", again)]


def _odd_headers(stream: IO[bytes], member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Headers of a member that say something else than each other, or what no archiver writes."""
    stream.seek(member.header_offset)
    head = stream.read(_FIXED)
    version, flags, method, _, _, crc, packed, size = struct.unpack("<HHHHHIII", head[4:26])
    later = bool(flags & _STREAMED)
    agree = (
        version <= _VERSIONS
        and (flags, method) == (member.flag_bits, member.compress_type)
        and (crc == member.CRC or (later and not crc))
        and packed in (member.compress_size, _LARGE, *([0] if later else []))
        and size in (member.file_size, _LARGE, *([0] if later else []))
        and (method or member.compress_size == member.file_size)
    )
    if not agree:
        yield head
    mode = member.external_attr >> 16
    kind = stat.S_IFMT(mode) in (0, stat.S_IFREG, stat.S_IFDIR)
    plain = member.volume == member.reserved == 0 and member.internal_attr in (0, 1) and member.create_version <= 63
    if not (kind and plain and member.external_attr & 0xFFFF in (0, 0x10, 0x20, 0x80) and member.create_system < 20):
        yield struct.pack("<HHHI", member.volume, member.reserved, member.internal_attr, member.external_attr)


def _behind_compressed(stream: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> list[Piece]:
    """Bytes that lie in a compressed member after the end of its stream."""
    if member.compress_type != zipfile.ZIP_DEFLATED:
        return []
    stream.seek(member.header_offset + 26)
    name, extra = struct.unpack("<HH", stream.read(4))
    stream.seek(name + extra, 1)
    machine, left, waiting = zlib.decompressobj(-15), member.compress_size, b""
    while not machine.eof and (waiting or left):
        if not waiting:
            waiting = stream.read(min(left, _PIECE))
            left -= len(waiting) or left
        machine.decompress(waiting, _PIECE)
        waiting = machine.unconsumed_tail
    rest = machine.unused_data + stream.read(min(left, _MOST_OF_ZIP))
    return [(f"bytes behind the compressed {member.filename}", rest[:_MOST_OF_ZIP])] if rest else []


def _between(stream: IO[bytes], taken: list[tuple[int, int]], start: int) -> list[Piece]:
    found, last = [], 0
    for begin, end in [*sorted(taken), (start, start)]:
        if begin > last:
            where = "bytes between the members" if last else "bytes before the archive"
            found += _between_places(stream, where, last, begin)
        last = max(last, end)
    return found


def _directory(stream: IO[bytes], members: list[zipfile.ZipInfo], start: int, size: int) -> list[Piece]:
    """What the directory holds beside its entries, and what follows it."""
    stream.seek(start)
    rest = stream.read(min(size - start, 2**26))
    at = rest.rfind(_END)
    if at < 0 or at + 22 > len(rest):
        return []
    position, count = 0, 0
    while rest[position : position + 4] == _CENTRAL and position < at:
        position += 46 + sum(struct.unpack("<HHH", rest[position + 28 : position + 34]))
        count += 1
    zip64 = rest[position:at]
    found = [("bytes in the directory", zip64)] if zip64 and not _is_zip64(zip64, count, position) else []
    disk, first, here, total, length, begin = struct.unpack("<HHHHII", rest[at + 4 : at + 20])
    few = (disk in (0, 2**16 - 1), first in (0, 2**16 - 1), here in (count, 2**16 - 1), total in (count, 2**16 - 1))
    sizes = length in (position, _LARGE) and begin <= start and len(members) == count
    if not all(few) or not sizes:
        found.append(("end of the directory", rest[at : at + 22]))
    end = start + at + 22 + int.from_bytes(rest[at + 20 : at + 22], "little")
    return [*found, *(_between_places(stream, "bytes after the archive", end, size) if end < size else [])]


def _is_zip64(record: bytes, count: int, length: int) -> bool:
    """Whether bytes are the end of a large directory, and where it lies, with this many members."""
    if len(record) != 76 or record[:4] != b"PK\x06\x06" or record[56:60] != b"PK\x06\x07":
        return False
    size, _, needed, disk, first, here, total, written = struct.unpack("<QHHIIQQQ", record[4:48])
    return (size, disk, first, here, total, written) == (44, 0, 0, count, count, length) and needed <= _VERSIONS


def _earlier(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Piece]:
    """Members that another one of the same name replaces, unless they are equal."""
    last = {member.filename: member for member in members}
    for member in members:
        if member is last[member.filename]:
            continue
        with archive.open(member) as old, archive.open(last[member.filename]) as new:
            some = old.read(_MOST_OF_ZIP)
            if some != new.read(_MOST_OF_ZIP) or member.file_size != last[member.filename].file_size:
                yield f"an earlier {member.filename}", some


def _in_arrays(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Piece]:
    for member in members:
        if member.filename.endswith(".npy"):
            with archive.open(member) as stream:
                yield from ((f"{where} {member.filename}", content) for where, content in beside_array(stream))


def beside_array(stream: IO[bytes]) -> Iterator[Piece]:
    """What a file of NumPy holds beside its array: a header that is not NumPy's, and bytes after the end."""
    try:
        version = np.lib.format.read_magic(stream)
    except ValueError:
        return
    wide = version != (1, 0)
    length = stream.read(4 if wide else 2)
    text = stream.read(int.from_bytes(length, "little"))
    about = np.lib.format.read_array_header_2_0 if wide else np.lib.format.read_array_header_1_0
    shape, fortran, dtype = about(io.BytesIO(length + text))
    if dtype.hasobject:
        return
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
    plain = repr(described).encode("latin-1", "backslashreplace")
    body = text.rstrip(b" \n")
    same = re.sub(rb"\s|,(?=[)}\s])", b"", body) == re.sub(rb"\s|,(?=[)}\s])", b"", plain)
    if not same or re.search(rb"\s\s|[^ -~]", body) or text[len(body) :].count(b"\n") > 1:
        yield "header of", text
    if may_have_unused_bytes(dtype) and dtype.itemsize:
        raw = stream.read(math.prod(shape) * dtype.itemsize)
        values = np.frombuffer(raw[: len(raw) // dtype.itemsize * dtype.itemsize], dtype)
        if (unused := unused_bytes(values)).size:
            yield "bytes of no value in", unused.tobytes()[:_MOST_OF_ZIP]
    else:
        stream.seek(math.prod(shape) * dtype.itemsize, 1)
    if (rest := stream.read(_MOST_OF_ZIP)).strip(b"\0"):
        yield "bytes after the array in", rest


def _between_places(stream: IO[bytes], where: str, begin: int, end: int) -> list[Piece]:
    stream.seek(begin)
    content = stream.read(min(end - begin, _MOST_OF_ZIP))
    return [(where, content)] if content.strip(b"\0") else []


def _fields(extra: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack("<HH", extra[at : at + 4])
        content = extra[at + 4 : at + 4 + size]
        found.append((kind if len(content) == size else -1, content))
        at += 4 + size
    return found + ([(-1, extra[at:])] if extra[at:] else [])


def _has_zip64(extra: bytes) -> bool:
    return any(kind == _ZIP64 for kind, _ in _fields(extra))


def _odd(extra: bytes, member: zipfile.ZipInfo) -> Iterator[bytes]:
    """Extra fields other than sizes of the member, times, and numbers of users."""
    sizes = {member.file_size, member.compress_size, member.header_offset, 0}
    most = {_TIMES: 13, _OWNER: 11}
    for kind, content in _fields(extra):
        if kind == _ZIP64:
            numbers = {int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content) - 4, 8)}
            if not numbers <= sizes or len(content) > 28:
                yield content
        elif len(content.strip(_PADDING) if kind == _OF_TORCH else content) > most.get(kind, 0):
            yield content
