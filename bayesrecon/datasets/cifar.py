"""CIFAR-10, binary version (Krizhevsky 2009): records of one label and 3,072 pixels, in files or in their archive."""

import gzip
import tarfile
from pathlib import Path

import numpy as np

from bayesrecon.datasets.idx import checked_labels, chosen
from bayesrecon.datasets.labelled import LabelledData, joined
from bayesrecon.datasets.sources import Bounded, checked_folder, is_named
from bayesrecon.errors import BayesreconError, reading

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
ARCHIVE, INNER = "cifar-10-binary.tar.gz", "cifar-10-batches-bin"
_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
BATCHES = {"train": _TRAIN, "test": ("test_batch.bin",), "all": (*_TRAIN, "test_batch.bin")}

_RECORD = 1 + 3 * 32 * 32
_MOST = 10_000 * _RECORD  # bytes of a batch


def cifar10(folder: str | Path, part: str = "train") -> LabelledData:
    """Photographs of 32 by 32 pixels and three colours, from 0 to 1; an image is `(32, 32, 3)`.

    Args:
        folder: holds `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, alone, in `cifar-10-batches-bin`,
            or in `cifar-10-binary.tar.gz`.
        part: "train" (50,000 images), "test" (10,000), or "all", the training images first.

    Raises:
        BayesreconError: no such folder, a file is missing or no such file, labels beyond 9, or the Python version,
            which is made of pickles: they can run code, and are not opened.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test_batch.bin").write_bytes(bytes([3]) + bytes(1024 * [255]) + bytes(2048))
    >>> data = cifar10(folder, "test")
    >>> data.names[data.y[0]], data.images()[0, 0, 0].tolist()
    ('cat', [1.0, 0.0, 0.0])
    """
    where, wanted = checked_folder(folder), chosen(part, BATCHES)
    inner = where / INNER if (where / INNER).is_dir() else where
    if (inner / wanted[0]).is_file():
        contents = [_batch(inner, name) for name in wanted]
    elif (where / ARCHIVE).is_file():
        contents = _from_archive(where / ARCHIVE, wanted)
    else:
        pickled = ("cifar-10-python.tar.gz", "cifar-10-batches-py", wanted[0].removesuffix(".bin"))
        if found := next((name for name in pickled if (where / name).exists()), None):
            raise BayesreconError(
                f"{where / found}: the Python version is made of pickles, which can run code; get the binary version "
                f"({ARCHIVE})"
            )
        raise BayesreconError(f"{where}: {wanted[0]} is missing (nor {ARCHIVE})")
    return joined([_records(name, content) for name, content in zip(wanted, contents, strict=True)])


def _batch(folder: Path, name: str) -> bytes:
    path = folder / name
    with reading(path, "a batch of CIFAR-10"):
        if not path.is_file():
            raise BayesreconError(f"{folder}: {name} is missing")
        _check_size(path, path.stat().st_size)
        return path.read_bytes()


def _from_archive(path: Path, wanted: tuple[str, ...]) -> list[bytes]:
    """The batches in the order that is wanted; other members are passed over."""
    found: dict[str, bytes] = {}
    with (
        reading(path, "an archive of CIFAR-10"),
        gzip.open(path) as unpacked,
        tarfile.open(fileobj=Bounded.of(unpacked, path), mode="r|") as archive,
    ):
        for member in archive:
            name = Path(member.name).name
            if not member.isreg() or not is_named(member.name, wanted):
                continue
            if name in found:
                raise BayesreconError(f"{path}: holds {name} twice")
            _check_size(f"{path}: {name}", member.size)
            stream = archive.extractfile(member)
            assert stream is not None
            found[name] = stream.read()
            if len(found) == len(wanted):
                break
    if missing := [name for name in wanted if name not in found]:
        raise BayesreconError(f"{path}: {missing[0]} is missing in it")
    return [found[name] for name in wanted]


def _check_size(what: str | Path, size: int) -> None:
    if not size or size % _RECORD or size > _MOST:
        raise BayesreconError(
            f"{what}: {size:,} bytes are no batch of at most 10,000 records of {_RECORD:,} bytes; get the file again"
        )


def _records(name: str, content: bytes) -> LabelledData:
    table = np.frombuffer(content, np.uint8).reshape(-1, _RECORD)
    y = checked_labels(name, table[:, 0], len(CLASSES))
    pixels = table[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    x = pixels.reshape(len(table), -1).astype(np.float32) / np.float32(255)
    return LabelledData("CIFAR-10", x, y, CLASSES, shape=(32, 32, 3))
