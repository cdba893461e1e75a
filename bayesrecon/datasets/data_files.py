"""One file of a data set in the user's folder: plain, compressed, or in an archive.

Nothing is written. Members of archives are read in place, and only those with the requested names.
"""

import gzip
import io
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.untrusted.size_limits import FREE, MAX_BYTES, RATIO


def checked_folder(folder: str | Path) -> Path:
    """The folder as a path."""
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise BayesreconError(f"{path}: no such folder; name the one that holds the data files")
    return path


@contextmanager
def opened(
    folders: Sequence[Path], names: Sequence[str], kind: str, archives: Sequence[str] = (), hint: str = ""
) -> Generator[tuple[Path, "IO[bytes] | BoundedStream"], None, None]:
    """Open the first of these files that exists, as a stream with a limit on its unpacked size.

    Args:
        folders: folders to search.
        names: alternative names of the file. Each can be plain, with `.gz`, or in a `.zip` of its name.
        kind: what the file is, for messages.
        archives: further zip files that may contain it.
        hint: what to do if the file is missing, for messages.

    Raises:
        BayesreconError: no file exists, an archive does not contain it, or it cannot be read.
    """
    plain = [(folder / f"{name}{end}") for folder in folders for name in names for end in ("", ".gz", ".zip")]
    archived = [folder / archive for folder in folders for archive in archives]
    path = next((p for p in plain + archived if p.is_file()), None)
    if path is None:
        raise BayesreconError(f"{folders[0]}: {names[0]} is missing (nor .gz, nor .zip){hint}")
    with reading(path, kind):
        if path.suffix == ".gz":
            with gzip.open(path) as stream:
                yield path, BoundedStream.of(stream, path)
        elif path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive, archive.open(_member(path, archive, names)) as stream:
                yield path, BoundedStream.of(stream, path)
        else:
            with path.open("rb") as stream:
                yield path, stream


def _member(path: Path, archive: zipfile.ZipFile, names: Sequence[str]) -> zipfile.ZipInfo:
    members = [member for member in archive.infolist() if not member.is_dir() and is_named(member.filename, names)]
    if len(members) != 1:
        raise BayesreconError(f"{path}: holds {len(members)} files {names[0]}, expected one")
    return members[0]


def is_named(member: str, names: Sequence[str]) -> bool:
    """Whether a member of an archive has one of these names and is inside the archive.

    >>> is_named("raw/a.bin", ["a.bin"]), is_named("../a.bin", ["a.bin"])
    (True, False)
    """
    parts = PurePosixPath(member.replace("\\", "/")).parts
    return bool(parts) and parts[-1] in names and ".." not in parts and parts[0] != "/" and ":" not in parts[0]


class Readable(Protocol):
    """A binary stream, as far as `BoundedStream` uses it."""

    def read(self, size: int, /) -> bytes: ...


class BoundedStream(io.RawIOBase):
    """A stream that refuses to read more than `most` bytes."""

    def __init__(self, stream: Readable, path: Path, most: int):
        self._stream, self._path, self._remaining = stream, path, most

    @classmethod
    def of(cls, stream: Readable, path: Path) -> "BoundedStream":
        """A stream with the largest unpacked size that a file of this size can plausibly have."""
        return cls(stream, path, min(MAX_BYTES, max(FREE, RATIO * path.stat().st_size)))

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(self._remaining + 1 if size < 0 else min(size, self._remaining + 1))
        self._remaining -= len(content)
        if self._remaining < 0:
            raise BayesreconError(f"{self._path}: refused, because it unpacks to far more than its size")
        return content

    def readinto(self, buffer: Any) -> int:
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)
