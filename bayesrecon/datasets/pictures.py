"""Data sets with one file per image, in a folder or a zip file: CelebA, TinyImageNet and Omniglot.

Nothing is written. Members of an archive whose names lead out of it are ignored. A file is decoded only in the format
of its data set, and only after its declared size was compared with the largest size that the data set can have.
"""

import io
import zipfile
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np

from bayesrecon.errors import BayesreconError, reading

_MOST_FILES = 1_000_000  # in a folder or archive: five times as many as in the largest of these data sets
_MOST_BYTES = 2**24  # per file: twice as many as a list of 200,000 records has
_MOST_PIXELS = 2**20  # per image: those of CelebA have 39,000


class Files:
    """The files of a data set, by their paths inside it, `name/...`."""

    def __init__(self, where: Path, names: Iterable[str], read: Callable[[str], bytes]) -> None:
        self.where, self._read = where, read
        accepted = []
        for name in names:
            if len(accepted) == _MOST_FILES:
                raise BayesreconError(f"{where}: more than {_MOST_FILES:,} files, refused")
            if _inside(name):
                accepted.append(name)
        self.names = sorted(accepted)

    def under(self, *parts: str, end: str = "") -> list[str]:
        """Sorted names of the files below a folder with this ending, in upper or lower case."""
        begin = "".join(f"{part}/" for part in parts)
        return [n for n in self.names if n.startswith(begin) and n.lower().endswith(end.lower())]

    def bytes(self, name: str) -> bytes:
        """The content of a file."""
        with reading(self.where, "a folder of images"):
            try:
                content = self._read(name)
            except (KeyError, FileNotFoundError):
                raise BayesreconError(f"{self.where}: {name} is missing") from None
            if len(content) > _MOST_BYTES:
                raise BayesreconError(f"{self.where}: {name} has more than {_MOST_BYTES:,} bytes, refused")
            return content

    def lines(self, name: str) -> list[str]:
        """A text's lines."""
        try:
            return self.bytes(name).decode("utf-8").splitlines()
        except UnicodeDecodeError:
            raise BayesreconError(f"{self.where}: {name} is not a text file") from None


def _inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] not in ("/", "__MACOSX") and "\\" not in name


@contextmanager
def files_of(folder: Path, names: Sequence[str]) -> Generator[Files, None, None]:
    """Open a data set in the folder with one of these names, or in a zip file of that folder."""
    for name in names:
        if (inner := folder / name).is_dir():
            listed = (p.relative_to(folder).as_posix() for p in inner.rglob("*") if p.is_file())
            yield Files(inner, listed, lambda n: _limited((folder / n).open("rb")))
            return
        if (path := folder / f"{name}.zip").is_file():
            with reading(path, "an archive of images"), zipfile.ZipFile(path) as archive:
                listed = (member.filename for member in archive.infolist() if not member.is_dir())
                yield Files(path, listed, lambda n: _limited(archive.open(n)))
            return
    raise BayesreconError(f"{folder}: {names[0]} is missing (a folder, or {names[0]}.zip)")


def _limited(stream: IO[bytes]) -> bytes:
    with stream:
        return stream.read(_MOST_BYTES + 1)


def pictures(files: Files, names: Sequence[str], kind: str, *, side: int | None, colours: bool) -> np.ndarray:
    """Images `(N, height, width)` or `(N, height, width, 3)` between 0 and 1, float32.

    Args:
        kind: "JPEG" or "PNG", the only format that is decoded, whatever the file's name.
        side: height and width of the returned images, which are averages over a coarser grid. None keeps the size.
    """
    images: list[np.ndarray] = []
    for name in names:
        image = _decoded(files, name, kind, colours)
        image = smaller(image, side) if side is not None else image
        if images and image.shape != images[0].shape:
            raise BayesreconError(f"{files.where}: {name} has {image.shape[:2]} pixels, others {images[0].shape[:2]}")
        images.append(image)
    return np.stack(images)


def _decoded(files: Files, name: str, kind: str, colours: bool) -> np.ndarray:
    from PIL import Image

    content = files.bytes(name)
    try:
        with Image.open(io.BytesIO(content), formats=(kind,)) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise BayesreconError(f"{files.where}: {name} declares {image.width} by {image.height} pixels, refused")
            return np.asarray(image.convert("RGB" if colours else "L"), np.float32) / np.float32(255)
    except BayesreconError:
        raise
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError, Image.DecompressionBombError):
        raise BayesreconError(f"{files.where}: {name} is not a {kind} image; download it again") from None


def smaller(image: np.ndarray, side: int) -> np.ndarray:
    """Average an image over a grid of `side` by `side` cells, whose edges may divide pixels."""
    if side < 1:
        raise BayesreconError(f"side={side}: expected 1 or more")
    rows, columns = (_shares(size, side) for size in image.shape[:2])
    return np.clip(np.einsum("ij,jk...,lk->il...", rows, image, columns), 0, 1 if image.max() <= 1 else None).astype(
        image.dtype
    )


def _shares(size: int, side: int) -> np.ndarray:
    edges = np.linspace(0, size, side + 1)
    begin, end = edges[:-1, None], edges[1:, None]
    share = np.clip(np.minimum(end, np.arange(size) + 1) - np.maximum(begin, np.arange(size)), 0, 1)
    return share / share.sum(axis=1, keepdims=True)
