"""Files of folders and archives. Archives are unpacked into a temporary folder, within limits."""

import os
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import Contents, Entry, Unread, entry_of_bytes, stamp
from bayesrecon.posteriors.formats import format_of, suffix_of, suffixes

_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_MOST_MEMBERS, _MOST_BYTES, _RATIO = 10_000, 2**34, 200  # largest archive, and how much larger than its file
_BLOCK = 2**20  # bytes that are copied at a time


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a folder of files, and not a format that is a folder."""
    return Path(path).is_dir() and not _is_one(Path(path))


def _is_one(path: Path) -> bool:
    """Whether a folder is one item of a known format, such as a zarr store."""
    return suffix_of(path) in suffixes() and format_of(path).directory


def files_of(folder: Path) -> list[Path]:
    """Every file under a folder, in order, links included. Formats that are folders count as one file."""

    def under(place: Path) -> Iterator[Path]:
        for path in sorted(place.iterdir()):
            if path.is_dir() and not path.is_symlink() and not _is_one(path):
                yield from under(path)
            else:
                yield path

    return list(under(folder))


def is_archive(path: str | os.PathLike[str]) -> bool:
    """Whether a path is an archive of files, and not a format that is an archive."""
    return Path(path).is_file() and (str(path).lower().endswith(_TARS) or _is_zip_of_files(Path(path)))


@contextmanager
def unpacked(of: str | os.PathLike[str]) -> Generator[tuple[Path, Contents | None]]:
    """A temporary folder with the members of an archive, and what else it has; no contents for other paths.

    Raises:
        BayesreconError: the archive is damaged or too large.
    """
    path = Path(of)
    if not is_archive(path):
        yield Path(), None
        return
    is_tar = path.name.lower().endswith(_TARS)
    with tempfile.TemporaryDirectory() as folder:
        form = "tar archive" if is_tar else "zip archive"
        with reading(path, f"a {form}"):
            entries, unread = (_untar if is_tar else _unzip)(path, Path(folder))
        yield Path(folder), Contents(path.name, form, (stamp(path),), entries=tuple(entries), unread=tuple(unread))


def _is_zip_of_files(path: Path) -> bool:
    """Whether this is a zip archive of several files. One of a single JSON file has a format of its own."""
    if suffix_of(path) != ".zip" or not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        names = [member.filename for member in archive.infolist()]
    return not (len(names) == 1 and names[0].lower().endswith(".json"))


def _unzip(path: Path, folder: Path) -> tuple[list[Entry], list[Unread]]:
    entries, unread = [], []
    room = _Room(path)
    with zipfile.ZipFile(path) as archive:
        if archive.comment:
            entries.append(entry_of_bytes("archive/comment", archive.comment))
        for member in archive.infolist():
            entries.append(Entry(member.filename, "name", member.filename))
            entries += [entry_of_bytes(f"{member.filename}@comment", member.comment)] if member.comment else []
            if member.is_dir():
                continue
            if stat.S_ISLNK(member.external_attr >> 16) or member.flag_bits & 1:
                unread.append(Unread(member.filename, "it is a link or encrypted"))
                continue
            with archive.open(member) as stream:
                unread += room.written(stream, folder, member.filename)
    return entries, unread


def _untar(path: Path, folder: Path) -> tuple[list[Entry], list[Unread]]:
    entries, unread = [], []
    room = _Room(path)
    with tarfile.open(path) as archive:
        for member in archive:
            entries.append(Entry(member.name, "name", member.name))
            told = {k: v for k, v in member.pax_headers.items() if k not in ("path", "size", "mtime", "atime", "ctime")}
            entries += [Entry(f"{member.name}@{k}", "attribute", v) for k, v in told.items()]
            if member.isdir():
                continue
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is None:
                unread.append(Unread(member.name, "it is a link or a device"))
                continue
            unread += room.written(stream, folder, member.name)
    return entries, unread


class _Room:
    """What is left of the limits of an archive."""

    def __init__(self, path: Path) -> None:
        self.path, self.bytes = path, min(_MOST_BYTES, _RATIO * path.stat().st_size + 2**24)
        self.members = _MOST_MEMBERS

    def written(self, stream: IO[bytes], folder: Path, name: str) -> Iterator[Unread]:
        """Write a member into the folder. What has no place in it, or has one already, is unread."""
        place = PurePosixPath(name.replace("\\", "/"))
        target = folder / place
        if place.is_absolute() or ".." in place.parts or target.exists() or not place.parts:
            yield Unread(name, "its name is outside the archive, or is there twice")
            return
        self.members -= 1
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            while block := stream.read(_BLOCK):
                self.bytes -= len(block)
                if self.bytes < 0 or self.members < 0:
                    raise BayesreconError(f"{self.path}: it is too large to unpack; unpack it and audit the folder")
                file.write(block)
