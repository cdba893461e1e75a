"""CIFAR-10 and CIFAR-100, binary versions (Krizhevsky 2009): labels and 3,072 bytes of pixels per record."""

import gzip
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.datasets.data_files import (
    BoundedStream,
    LabelledData,
    checked_folder,
    checked_labels,
    files_of_part,
    is_named,
    joined,
)
from bayesrecon.errors import BayesreconError, reading

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FINE = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard "
    "lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear "
    "pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark "
    "shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone "
    "television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
FINE = tuple(_FINE.split())
_PIXELS = 3 * 32 * 32
_TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))


@dataclass(frozen=True)
class _Layout:
    """Files of a data set, and the layout of a record: `labels` bytes, the last of which is the class, then pixels."""

    name: str
    archive: str
    inner: str
    batches: dict[str, tuple[str, ...]]
    classes: tuple[str, ...]
    labels: int
    most: int
    pickled: tuple[str, ...]

    @property
    def record(self) -> int:
        return self.labels + _PIXELS


_TEN = _Layout(
    "CIFAR-10",
    "cifar-10-binary.tar.gz",
    "cifar-10-batches-bin",
    {"train": _TRAIN, "test": ("test_batch.bin",), "all": (*_TRAIN, "test_batch.bin")},
    CLASSES,
    1,
    10_000,
    ("cifar-10-python.tar.gz", "cifar-10-batches-py"),
)
_HUNDRED = _Layout(
    "CIFAR-100",
    "cifar-100-binary.tar.gz",
    "cifar-100-binary",
    {"train": ("train.bin",), "test": ("test.bin",), "all": ("train.bin", "test.bin")},
    FINE,
    2,
    50_000,
    ("cifar-100-python.tar.gz", "cifar-100-python"),
)


def cifar10(folder: str | Path, part: str = "train") -> LabelledData:
    """Photographs of ten classes, with 32 by 32 pixels and three colours, from 0 to 1.

    Args:
        folder: folder with `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, directly, in
            `cifar-10-batches-bin`, or in `cifar-10-binary.tar.gz`.
        part: "train" (50,000 images), "test" (10,000 images), or "all", with the training images first.

    Returns:
        `x (N, 3072)` and classes `y (N,)`; `images()` is `(N, 32, 32, 3)`.

    Raises:
        BayesreconError: the folder or a file does not exist or is damaged, a label is above 9, or the files are the
            Python version. That version consists of pickles, which can run code and are never opened.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test_batch.bin").write_bytes(bytes([3]) + bytes(1024 * [255]) + bytes(2048))
    >>> data = cifar10(folder, "test")
    >>> data.names[data.y[0]], data.images()[0, 0, 0].tolist()
    ('cat', [1.0, 0.0, 0.0])
    """
    return _read(_TEN, folder, part)


def cifar100(folder: str | Path, part: str = "train") -> LabelledData:
    """Photographs of a hundred classes, with 32 by 32 pixels and three colours, from 0 to 1.

    Args:
        folder: folder with `train.bin` and `test.bin`, directly, in `cifar-100-binary`, or in
            `cifar-100-binary.tar.gz`.
        part: "train" (50,000 images), "test" (10,000 images), or "all", with the training images first.

    Returns:
        `x (N, 3072)` and classes `y (N,)`; `images()` is `(N, 32, 32, 3)`.

    Raises:
        BayesreconError: as in `cifar10`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test.bin").write_bytes(bytes([0, 4]) + bytes(3072))
    >>> data = cifar100(folder, "test")
    >>> data.names[data.y[0]], data.images().shape
    ('beaver', (1, 32, 32, 3))
    """
    return _read(_HUNDRED, folder, part)


def _read(layout: _Layout, folder: str | Path, part: str) -> LabelledData:
    path, names = checked_folder(folder), files_of_part(part, layout.batches)
    inner = path / layout.inner if (path / layout.inner).is_dir() else path
    if (inner / names[0]).is_file():
        contents = [_batch(layout, inner, name) for name in names]
    elif (path / layout.archive).is_file():
        contents = _from_archive(layout, path / layout.archive, names)
    else:
        pickled = (*layout.pickled, names[0].removesuffix(".bin"))
        if pickle := next((name for name in pickled if (path / name).exists()), None):
            raise BayesreconError(
                f"{path / pickle}: the Python version consists of pickles, which can run code; get the binary version "
                f"({layout.archive})"
            )
        raise BayesreconError(f"{path}: {names[0]} is missing (nor {layout.archive})")
    return joined([_records(layout, name, content) for name, content in zip(names, contents, strict=True)])


def _batch(layout: _Layout, folder: Path, name: str) -> bytes:
    path = folder / name
    with reading(path, f"a batch of {layout.name}"):
        if not path.is_file():
            raise BayesreconError(f"{folder}: {name} is missing")
        _check_size(layout, path, path.stat().st_size)
        return path.read_bytes()


def _from_archive(layout: _Layout, path: Path, names: tuple[str, ...]) -> list[bytes]:
    """The batches in the given order. Other members are ignored."""
    contents: dict[str, bytes] = {}
    with (
        reading(path, f"an archive of {layout.name}"),
        gzip.open(path) as unpacked,
        tarfile.open(fileobj=BoundedStream.of(unpacked, path), mode="r|") as archive,
    ):
        for member in archive:
            name = Path(member.name).name
            if not member.isreg() or not is_named(member.name, names):
                continue
            if name in contents:
                raise BayesreconError(f"{path}: holds {name} twice")
            _check_size(layout, f"{path}: {name}", member.size)
            stream = archive.extractfile(member)
            if stream is None:
                raise BayesreconError(f"{path}: {name} is no plain file")
            contents[name] = stream.read()
            if len(contents) == len(names):
                break
    if missing := [name for name in names if name not in contents]:
        raise BayesreconError(f"{path}: {missing[0]} is missing in it")
    return [contents[name] for name in names]


def _check_size(layout: _Layout, what: str | Path, size: int) -> None:
    if not size or size % layout.record or size > layout.most * layout.record:
        raise BayesreconError(
            f"{what}: {size:,} bytes are not a batch of at most {layout.most:,} records of {layout.record:,} bytes; "
            "download the file again"
        )


def _records(layout: _Layout, name: str, content: bytes) -> LabelledData:
    table = np.frombuffer(content, np.uint8).reshape(-1, layout.record)
    y = checked_labels(name, table[:, layout.labels - 1], len(layout.classes))
    pixels = table[:, layout.labels :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    x = pixels.reshape(len(table), -1).astype(np.float32) / np.float32(255)
    return LabelledData(layout.name, x, y, layout.classes, shape=(32, 32, 3))
