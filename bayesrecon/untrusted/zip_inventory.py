"""Everything in a zip archive but the contents of its members: comments, extra fields, odd headers, bytes of no member.

Times of members, the systems and versions that wrote them, and their permissions are not looked at.
"""

import io
import math
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from bayesrecon.untrusted.plain_values import may_have_unused_bytes, unused_bytes

_LOCAL, _CENTRAL, _END, _FIXED = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", 30
_MOST, _BLOCK = 2**16, 2**20
_ZIP64, _TIMES, _OWNER = 1, 0x5455, 0x7875  # extra fields of sizes, times, and the numbers of a user and a group
_ALIGNED, _PADDING = 0x4246, b"Z\0"  # with which torch fills extra fields, so that arrays are aligned
_VERSIONS = 63  # newest version of the format that a member needs
_STREAMED, _LARGE = 8, 2**32 - 1

Found = tuple[str, bytes]


def around_members(path: Path) -> list[Found]:
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


def _odd_sizes(stream: IO[bytes], member: zipfile.ZipInfo, end: int) -> list[Found]:
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


def _behind_compressed(stream: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> list[Found]:
    """Bytes that lie in a compressed member after the end of its stream."""
    if member.compress_type != zipfile.ZIP_DEFLATED:
        return []
    stream.seek(member.header_offset + 26)
    name, extra = struct.unpack("<HH", stream.read(4))
    stream.seek(name + extra, 1)
    machine, left, waiting = zlib.decompressobj(-15), member.compress_size, b""
    while not machine.eof and (waiting or left):
        if not waiting:
            waiting = stream.read(min(left, _BLOCK))
            left -= len(waiting) or left
        machine.decompress(waiting, _BLOCK)
        waiting = machine.unconsumed_tail
    rest = machine.unused_data + stream.read(min(left, _MOST))
    return [(f"bytes behind the compressed {member.filename}", rest[:_MOST])] if rest else []


def _between(stream: IO[bytes], taken: list[tuple[int, int]], start: int) -> list[Found]:
    found, last = [], 0
    for begin, end in [*sorted(taken), (start, start)]:
        if begin > last:
            where = "bytes between the members" if last else "bytes before the archive"
            found += _bytes(stream, where, last, begin)
        last = max(last, end)
    return found


def _directory(stream: IO[bytes], members: list[zipfile.ZipInfo], start: int, size: int) -> list[Found]:
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
    return [*found, *(_bytes(stream, "bytes after the archive", end, size) if end < size else [])]


def _is_zip64(record: bytes, count: int, length: int) -> bool:
    """Whether bytes are the end of a large directory, and where it lies, with this many members."""
    if len(record) != 76 or record[:4] != b"PK\x06\x06" or record[56:60] != b"PK\x06\x07":
        return False
    size, _, needed, disk, first, here, total, written = struct.unpack("<QHHIIQQQ", record[4:48])
    return (size, disk, first, here, total, written) == (44, 0, 0, count, count, length) and needed <= _VERSIONS


def _earlier(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Found]:
    """Members that another one of the same name replaces, unless they are equal."""
    last = {member.filename: member for member in members}
    for member in members:
        if member is last[member.filename]:
            continue
        with archive.open(member) as old, archive.open(last[member.filename]) as new:
            some = old.read(_MOST)
            if some != new.read(_MOST) or member.file_size != last[member.filename].file_size:
                yield f"an earlier {member.filename}", some


def _in_arrays(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> Iterator[Found]:
    for member in members:
        if member.filename.endswith(".npy"):
            with archive.open(member) as stream:
                yield from ((f"{where} {member.filename}", content) for where, content in beside_array(stream))


def beside_array(stream: IO[bytes]) -> Iterator[Found]:
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
            yield "bytes of no value in", unused.tobytes()[:_MOST]
    else:
        stream.seek(math.prod(shape) * dtype.itemsize, 1)
    if (rest := stream.read(_MOST)).strip(b"\0"):
        yield "bytes after the array in", rest


def _bytes(stream: IO[bytes], where: str, begin: int, end: int) -> list[Found]:
    stream.seek(begin)
    content = stream.read(min(end - begin, _MOST))
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
        elif len(content.strip(_PADDING) if kind == _ALIGNED else content) > most.get(kind, 0):
            yield content
