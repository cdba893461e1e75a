"""MNIST and Fashion-MNIST: images and labels as IDX files (LeCun, Cortes and Burges; Xiao, Rasul and Vollgraf 2017)."""

import math
import os
import struct
from pathlib import Path

import numpy as np

from bayesrecon.datasets.data_files import checked_folder, opened
from bayesrecon.datasets.labelled import LabelledData, joined
from bayesrecon.errors import BayesreconError, near
from bayesrecon.untrusted.size_limits import check_declared

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
