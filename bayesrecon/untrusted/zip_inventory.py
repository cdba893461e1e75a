"""The inventory of a zip archive besides its members: comments, extra fields, and bytes of no member."""

import struct
import zipfile
from pathlib import Path

_LOCAL, _FIXED = b"PK\x03\x04", 30  # the header before each member
_MOST = 2**16
_ZIP64, _TIMES = 1, 0x5455  # extra fields that say nothing but sizes and times

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
    found: list[Found] = []
    with zipfile.ZipFile(path) as archive, path.open("rb") as stream:
        size = path.stat().st_size
        taken = []
        for member in archive.infolist():
            found += [(f"comment of {member.filename}", member.comment)] if member.comment else []
            found += [(f"extra field of {member.filename}", f) for f in _odd(member.extra)]
            stream.seek(member.header_offset)
            head = stream.read(_FIXED)
            if not head.startswith(_LOCAL) or len(head) < _FIXED:
                continue
            name, extra = struct.unpack("<HH", head[26:30])
            stream.seek(name, 1)
            found += [(f"extra field of {member.filename}", f) for f in _odd(stream.read(extra))]
            end = member.header_offset + _FIXED + name + extra + member.compress_size
            # After a member that was streamed stand its sizes once more.
            stream.seek(end)
            if member.flag_bits & 8:
                follows = stream.read(4) == b"PK\x07\x08"
                large = member.file_size >= 2**32 or member.compress_size >= 2**32 or _has_zip64(member.extra)
                end += (4 if follows else 0) + (20 if large else 12)
            taken.append((member.header_offset, end))
        start, comment = archive.start_dir, archive.comment
        found += [("comment of the archive", comment)] if comment else []
        last = 0
        for begin, end in [*sorted(taken), (start, start)]:
            if begin > last:
                found += _bytes(
                    stream, "bytes between the members" if last else "bytes before the archive", last, begin
                )
            last = max(last, end)
        directory = _end_of_directory(stream, start, size)
        if directory is not None and directory < size:
            found += _bytes(stream, "bytes after the archive", directory, size)
    return found


def _bytes(stream: object, where: str, begin: int, end: int) -> list[Found]:
    stream.seek(begin)  # type: ignore[attr-defined]
    content = stream.read(min(end - begin, _MOST))  # type: ignore[attr-defined]
    return [(where, content)] if content.strip(b"\0") else []


def _end_of_directory(stream: object, start: int, size: int) -> int | None:
    """Position after the archive's last record, including its comment."""
    stream.seek(start)  # type: ignore[attr-defined]
    rest = stream.read(min(size - start, 2**26))  # type: ignore[attr-defined]
    at = rest.rfind(b"PK\x05\x06")
    return (
        None if at < 0 or at + 22 > len(rest) else start + at + 22 + int.from_bytes(rest[at + 20 : at + 22], "little")
    )


def _fields(extra: bytes) -> list[tuple[int, bytes]]:
    found, at = [], 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack("<HH", extra[at : at + 4])
        found.append((kind, extra[at + 4 : at + 4 + size]))
        at += 4 + size
    return found + ([(-1, extra[at:])] if extra[at:] else [])


def _has_zip64(extra: bytes) -> bool:
    return any(kind == _ZIP64 for kind, _ in _fields(extra))


def _odd(extra: bytes) -> list[bytes]:
    most = {_ZIP64: 28, _TIMES: 13}
    return [content for kind, content in _fields(extra) if len(content) > most.get(kind, 0)]
