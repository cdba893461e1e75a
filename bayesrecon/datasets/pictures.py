"""Images that are files of their own, in a folder or in a zip file of it: what CelebA, TinyImageNet and Omniglot are.

Nothing is written. Of an archive only members inside it are seen, and a file is decoded as the one format that the data
set has, after its declared size was held against what the data set's images may be.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, reading

_MOST_FILES = 1_000_000  # of a folder or archive: five times the largest of these data sets
_MOST_BYTES = 2**24  # of one file: lists of 200,000 records have half as many
_MOST_PIXELS = 2**20  # of one image: CelebA's have 39,000


class Files:
    """Files of a data set by their paths inside it, `name/...`."""

    def __init__(self, where: Path, names: Iterable[str], read: Any) -> None:
        self.where, self._read = where, read
        kept = []
        for name in names:
            if len(kept) == _MOST_FILES:
                raise BayesreconError(f"{where}: more than {_MOST_FILES:,} files, refused")
            if _inside(name):
                kept.append(name)
        self.names = sorted(kept)

    def under(self, *parts: str, end: str = "") -> list[str]:
        """Sorted names below a folder with an ending, in any case."""
        begin = "".join(f"{part}/" for part in parts)
        return [n for n in self.names if n.startswith(begin) and n.lower().endswith(end.lower())]

    def bytes(self, name: str) -> bytes:
        """A file's content, or an error that says that it is missing or too large."""
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
            raise BayesreconError(f"{self.where}: {name} is no text") from None


def _inside(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and ".." not in parts and parts[0] not in ("/", "__MACOSX") and "\\" not in name


@contextmanager
def files_of(folder: Path, names: Sequence[str]) -> Iterator[Files]:
    """A data set's files, from the folder of one of these names or the zip file that holds it.

    Raises:
        BayesreconError: neither is there, or the archive cannot be read.
    """
    for name in names:
        if (inner := folder / name).is_dir():
            listed = (p.relative_to(folder).as_posix() for p in inner.rglob("*") if p.is_file())
            yield Files(inner, listed, lambda n: _limited((folder / n).open("rb")))
            return
        if (path := folder / f"{name}.zip").is_file():
            with reading(path, "an archive of images"), zipfile.ZipFile(path) as archive:
                listed = (one.filename for one in archive.infolist() if not one.is_dir())
                yield Files(path, listed, lambda n: _limited(archive.open(n)))
            return
    raise BayesreconError(f"{folder}: {names[0]} is missing (a folder, or {names[0]}.zip)")


def _limited(stream: Any) -> bytes:
    with stream:
        return stream.read(_MOST_BYTES + 1)


def pictures(files: Files, names: Sequence[str], kind: str, *, side: int | None, colours: bool) -> np.ndarray:
    """Images `(N, height, width)` or `(N, height, width, 3)` between 0 and 1, float32.

    Args:
        kind: "JPEG" or "PNG", as which files are decoded whatever they are called.
        side: of the images that are made, means over pixels of a coarser grid; None keeps their size.

    Raises:
        BayesreconError: a file that is no such image, is too large, or has another size than the first.
    """
    found: list[np.ndarray] = []
    for name in names:
        one = _decoded(files, name, kind, colours)
        one = smaller(one, side) if side is not None else one
        if found and one.shape != found[0].shape:
            raise BayesreconError(f"{files.where}: {name} has {one.shape[:2]} pixels, others {found[0].shape[:2]}")
        found.append(one)
    return np.stack(found)


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
        raise BayesreconError(f"{files.where}: {name} is no {kind} image; get the file again") from None


def smaller(image: np.ndarray, side: int) -> np.ndarray:
    """Means over the pixels of a grid of `side` by `side` cells, whose edges may cut pixels.

    >>> smaller(np.arange(9.0).reshape(3, 3), 1).round(6).tolist()
    [[4.0]]
    """
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
