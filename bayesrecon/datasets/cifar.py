"""CIFAR-10 and CIFAR-100, binary versions (Krizhevsky 2009): labels and 3,072 bytes of pixels per record."""

import gzip
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.datasets.data_files import Bounded, checked_folder, is_named
from bayesrecon.datasets.idx import checked_labels, chosen
from bayesrecon.datasets.labelled import LabelledData, joined
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


def _read(about: _Layout, folder: str | Path, part: str) -> LabelledData:
    where, wanted = checked_folder(folder), chosen(part, about.batches)
    inner = where / about.inner if (where / about.inner).is_dir() else where
    if (inner / wanted[0]).is_file():
        contents = [_batch(about, inner, name) for name in wanted]
    elif (where / about.archive).is_file():
        contents = _from_archive(about, where / about.archive, wanted)
    else:
        pickled = (*about.pickled, wanted[0].removesuffix(".bin"))
        if found := next((name for name in pickled if (where / name).exists()), None):
            raise BayesreconError(
                f"{where / found}: the Python version consists of pickles, which can run code; get the binary version "
                f"({about.archive})"
            )
        raise BayesreconError(f"{where}: {wanted[0]} is missing (nor {about.archive})")
    return joined([_records(about, name, content) for name, content in zip(wanted, contents, strict=True)])


def _batch(about: _Layout, folder: Path, name: str) -> bytes:
    path = folder / name
    with reading(path, f"a batch of {about.name}"):
        if not path.is_file():
            raise BayesreconError(f"{folder}: {name} is missing")
        _check_size(about, path, path.stat().st_size)
        return path.read_bytes()


def _from_archive(about: _Layout, path: Path, wanted: tuple[str, ...]) -> list[bytes]:
    """The batches in the given order. Other members of the archive are ignored."""
    found: dict[str, bytes] = {}
    with (
        reading(path, f"an archive of {about.name}"),
        gzip.open(path) as unpacked,
        tarfile.open(fileobj=Bounded.of(unpacked, path), mode="r|") as archive,
    ):
        for member in archive:
            name = Path(member.name).name
            if not member.isreg() or not is_named(member.name, wanted):
                continue
            if name in found:
                raise BayesreconError(f"{path}: holds {name} twice")
            _check_size(about, f"{path}: {name}", member.size)
            stream = archive.extractfile(member)
            assert stream is not None
            found[name] = stream.read()
            if len(found) == len(wanted):
                break
    if missing := [name for name in wanted if name not in found]:
        raise BayesreconError(f"{path}: {missing[0]} is missing in it")
    return [found[name] for name in wanted]


def _check_size(about: _Layout, what: str | Path, size: int) -> None:
    if not size or size % about.record or size > about.most * about.record:
        raise BayesreconError(
            f"{what}: {size:,} bytes are not a batch of at most {about.most:,} records of {about.record:,} bytes; "
            "download the file again"
        )


def _records(about: _Layout, name: str, content: bytes) -> LabelledData:
    table = np.frombuffer(content, np.uint8).reshape(-1, about.record)
    y = checked_labels(name, table[:, about.labels - 1], len(about.classes))
    pixels = table[:, about.labels :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    x = pixels.reshape(len(table), -1).astype(np.float32) / np.float32(255)
    return LabelledData(about.name, x, y, about.classes, shape=(32, 32, 3))
