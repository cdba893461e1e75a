"""One file of a data set in the user's folder: plain, compressed, or in an archive.

Nothing is written. Members of archives are read in place, and only those with the requested names.
"""

import gzip
import io
import math
import os
import struct
import zipfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

import numpy as np

from bayesrecon.errors import BayesreconError, near, reading
from bayesrecon.untrusted.size_limits import FREE, MAX_BYTES, RATIO, check_declared


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


# The result of every loader.


@dataclass(frozen=True, eq=False)
class LabelledData:
    """Records and their labels. `games.table(data.x, data.y, classification=True)` makes a table from them.

    Attributes:
        name: for display.
        x: `(N, p)`, float32.
        y: `(N,)` classes from zero as int64 or numbers as float64, or `(N, A)` binary attributes.
        names: names of the classes or attributes; empty if y contains numbers.
        columns: names of the features; empty for images.
        shape: shape of one image, whose product is p; empty if records are not images.

    >>> data = LabelledData("two", np.zeros((2, 4), np.float32), np.array([0, 1]), ("a", "b"), shape=(2, 2))
    >>> data.rows([1]).y.tolist(), data.images().shape
    ([1], (2, 2, 2))
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()

    def rows(self, index: Sequence[int]) -> "LabelledData":
        """The records at these indices."""
        return replace(self, x=self.x[index], y=self.y[index])

    def images(self) -> np.ndarray:
        """The records as images, `(N, *shape)`."""
        return self.x.reshape(len(self.x), *(self.shape or self.x.shape[1:]))


def joined(parts: list[LabelledData]) -> LabelledData:
    """Concatenate parts of one data set."""
    arrays = {field: np.concatenate([getattr(part, field) for part in parts]) for field in ("x", "y")}
    return replace(parts[0], **arrays)


# MNIST and Fashion-MNIST: images and labels as IDX files (LeCun, Cortes and Burges; Xiao, Rasul and Vollgraf 2017).


DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
PREFIXES = {"train": ("train",), "test": ("t10k",), "all": ("train", "t10k")}

_BYTES = 8  # IDX code for unsigned bytes
_SIDE = 28
_MEMORY = 5  # bytes per pixel: one as read, four as float32


def mnist(folder: str | Path, part: str = "train") -> LabelledData:
    """Handwritten digits with 28 by 28 pixels, from 0 (background) to 1.

    Args:
        folder: folder with `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, and `t10k-...` for the test images;
            plain, with `.gz`, or in a `.zip` of that name.
        part: "train" (60,000 images), "test" (10,000 images), or "all", with the training images first.

    Returns:
        `x (N, 784)` and classes `y (N,)`; `images()` is `(N, 28, 28)`.

    Raises:
        BayesreconError: the folder or a file does not exist, a file is damaged (wrong magic number, truncated), the
            numbers of images and labels differ, or a label is above 9.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, 1, 28, 28) + bytes(784))
    >>> _ = (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 1) + bytes([7]))
    >>> data = mnist(folder)
    >>> data.x.shape, data.y.tolist(), data.shape
    ((1, 784), [7], (28, 28))
    """
    return _read("MNIST", folder, part, DIGITS)


def fashion_mnist(folder: str | Path | None = None, part: str = "train") -> LabelledData:
    """Images of clothes with 28 by 28 pixels, from 0 (background) to 1.

    The files have the same names and format as those of MNIST, and nothing in them distinguishes the two.

    Args:
        folder, part: as in `mnist`. Without a folder, it is the one of Debian's package `dataset-fashion-mnist`:
            `datasets/fashion-mnist` in one of the folders of `XDG_DATA_DIRS` (/usr/local/share and /usr/share).

    Raises:
        BayesreconError: as in `mnist`, or no folder is named and the package is not installed.

    >>> fashion_mnist("no/such/folder")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: no/such/folder: no such folder; name the one that holds the data files
    """
    return _read("Fashion-MNIST", _shared_folder("fashion-mnist") if folder is None else folder, part, CLOTHES)


def _shared_folder(name: str) -> Path:
    """The folder of a data set that a package of the operating system installed."""
    places = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    for place in places.split(":"):
        if place and (path := Path(place) / "datasets" / name).is_dir():
            return path
    raise BayesreconError(f"{name} is not installed: `apt install dataset-{name}`, or name the folder with its files")


def _read(name: str, folder: str | Path, part: str, names: tuple[str, ...]) -> LabelledData:
    path = checked_folder(folder)
    return joined([_split(name, path, prefix, names) for prefix in files_of_part(part, PREFIXES)])


def files_of_part(part: str, parts: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The files of a part of a data set."""
    if part not in parts:
        raise BayesreconError(f"part={part!r}: expected {', '.join(parts)}{near(part, parts)}")
    return parts[part]


def _split(name: str, folder: Path, prefix: str, names: tuple[str, ...]) -> LabelledData:
    other = next(p for p in PREFIXES["all"] if p != prefix)
    part = "test" if other == "t10k" else "train"
    hint = f'; {other} files are there: part="{part}"' if any(folder.glob(f"{other}-images*")) else ""
    pixels = read_idx(folder, f"{prefix}-images", 3, hint)
    labels = read_idx(folder, f"{prefix}-labels", 1, hint)
    if pixels.shape[1:] != (_SIDE, _SIDE):
        raise BayesreconError(f"{folder}: images of {name} are 28 by 28, those of {prefix}-images {pixels.shape[1:]}")
    if len(pixels) != len(labels):
        raise BayesreconError(
            f"{folder}: {prefix} has {len(pixels)} images and {len(labels)} labels; download both files again"
        )
    y = checked_labels(f"{folder}: {prefix}-labels", labels, len(names))
    x = pixels.reshape(len(pixels), -1).astype(np.float32) / np.float32(255)
    return LabelledData(name, x, y, names, shape=(_SIDE, _SIDE))


def read_idx(folder: Path, stem: str, dimensions: int, hint: str = "") -> np.ndarray:
    """The unsigned bytes of an IDX file.

    Its first four bytes are zero, zero, the code of the type, and the number of dimensions.
    """
    names = [f"{stem}{mark}idx{dimensions}-ubyte" for mark in ("-", ".")]
    with opened([folder], names, "an IDX file", hint=hint) as (path, stream):
        length = 4 + 4 * dimensions
        header = stream.read(length)
        magic = 256 * _BYTES + dimensions
        if len(header) < length or struct.unpack(">I", header[:4])[0] != magic:
            raise BayesreconError(f"{path}: the magic number of {names[0]} is {magic}; is this another file?")
        shape = struct.unpack(f">{dimensions}I", header[4:])
        size = math.prod(shape)
        check_declared(path, _MEMORY * size, path.stat().st_size)
        content = stream.read(size + 1)
        if len(content) != size or not size:
            actual = "more" if len(content) > size else f"{len(content):,} bytes"
            raise BayesreconError(
                f"{path}: the header declares {size:,} bytes, but the file has {actual}; download it again"
            )
    return np.frombuffer(content, np.uint8).reshape(shape)


def checked_labels(what: str, labels: np.ndarray, count: int) -> np.ndarray:
    """Labels as int64."""
    if (invalid := np.flatnonzero(labels >= count)).size:
        raise BayesreconError(f"{what}: record {invalid[0]} has label {labels[invalid[0]]}, expected 0 to {count - 1}")
    return labels.astype(np.int64)
