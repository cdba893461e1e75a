"""Loaders of public data sets, on small files of the same formats that are written here."""

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np
import pytest
from written import refused

from bayesrecon import games
from bayesrecon.datasets import acs_income, cifar10, cifar100, fashion_mnist, mnist
from bayesrecon.datasets.acs import FEATURES, STATES

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (12, 28, 28), dtype=np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 10


def idx(values, magic=None):
    shape = struct.pack(f">{values.ndim}I", *values.shape)
    return struct.pack(">I", 2048 + values.ndim if magic is None else magic) + shape + values.tobytes()


IMAGES, ANSWERS = ("train-images-idx3-ubyte", idx(PIXELS)), ("train-labels-idx1-ubyte", idx(LABELS))


def plain(path, content):
    path.write_bytes(content)


def gzipped(path, content):
    path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))


def zipped(path, content, *others):
    with zipfile.ZipFile(path.with_name(f"{path.name}.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, what in ((path.name, content), *others):
            archive.writestr(name, what)


def dotted(path, content):
    path.with_name(path.name.replace("-idx", ".idx")).write_bytes(content)


@pytest.mark.parametrize("write", [plain, gzipped, zipped, dotted])
def test_images_and_labels_of_idx_files_are_read(tmp_path, write):
    for name, content in (IMAGES, ANSWERS):
        write(tmp_path / name, content)
    data = mnist(tmp_path)
    assert data.x.dtype == np.float32
    np.testing.assert_array_equal(np.round(255 * data.images()), PIXELS)
    np.testing.assert_array_equal(data.y, LABELS)
    assert (data.x.min() >= 0, data.x.max() <= 1, data.shape) == (True, True, (28, 28))
    assert fashion_mnist(tmp_path).names[9] == "ankle boot"
    table = games.table(data.x, data.y, classification=True, name=data.name)
    assert (table.classes, table.x.shape) == (10, (12, 784))


def test_an_installed_package_is_found_without_its_folder(tmp_path, monkeypatch):
    folder = tmp_path / "share" / "datasets" / "fashion-mnist"
    monkeypatch.setenv("XDG_DATA_DIRS", f"{tmp_path / 'local'}::{tmp_path / 'share'}")
    refused("apt install dataset-fashion-mnist", fashion_mnist)
    folder.mkdir(parents=True)
    for name, content in (IMAGES, ANSWERS):
        gzipped(folder / name, content)
    assert len(fashion_mnist().x) == 12


def test_idx_parts(tmp_path):
    plain(tmp_path / "t10k-images-idx3-ubyte", idx(PIXELS[:2]))
    plain(tmp_path / "t10k-labels-idx1-ubyte", idx(LABELS[:2]))
    refused('train-images-idx3-ubyte is missing .*t10k files are there: part="test"', mnist, tmp_path)
    for name, content in (IMAGES, ANSWERS):
        plain(tmp_path / name, content)
    assert mnist(tmp_path, "test").y.tolist() == [0, 1]
    assert mnist(tmp_path, "all").y.tolist() == [*LABELS, 0, 1]
    refused("part='tset': expected train, test, all; did you mean test", mnist, tmp_path, "tset")
    refused("no such folder", mnist, tmp_path / "none")


@pytest.mark.parametrize(
    ("images", "labels", "said"),
    [
        (IMAGES[1][:-1], ANSWERS[1], "declares 9,408 bytes, but the file has 9,407 bytes"),
        (IMAGES[1] + b"\0", ANSWERS[1], "declares 9,408 bytes, but the file has more"),
        (IMAGES[1][:9], ANSWERS[1], "magic number of"),
        (b"", ANSWERS[1], "magic number of"),
        (idx(PIXELS, magic=2049), ANSWERS[1], "is 2051; is this another file"),
        (ANSWERS[1], IMAGES[1], "magic number of .* is 2051"),
        (idx(PIXELS[:, :27]), ANSWERS[1], r"28 by 28, those of train-images \(27, 28\)"),
        (idx(PIXELS[:0]), ANSWERS[1], "declares 0 bytes"),
        (IMAGES[1], idx(LABELS[:-1]), "12 images and 11 labels"),
        (IMAGES[1], idx(np.where(LABELS == 3, 10, LABELS).astype(np.uint8)), "record 3 has label 10, expected 0 to 9"),
        (struct.pack(">IIII", 2051, 2**31, 28, 28), ANSWERS[1], "declares .* refused"),
        (struct.pack(">IIII", 2051, 10**6, 28, 28), ANSWERS[1], "declares .* refused"),
    ],
)
@pytest.mark.parametrize("write", [plain, gzipped, zipped])
def test_wrong_idx_files_are_refused(tmp_path, images, labels, said, write):
    write(tmp_path / IMAGES[0], images)
    write(tmp_path / ANSWERS[0], labels)
    refused(said, mnist, tmp_path)


def test_damaged_archives_are_refused(tmp_path):
    plain(tmp_path / ANSWERS[0], ANSWERS[1])
    packed = gzip.compress(IMAGES[1])
    path = tmp_path / f"{IMAGES[0]}.gz"
    for content in (packed[: len(packed) // 2], b"not gzip", packed[:-8] + b"\0" * 8):
        path.write_bytes(content)
        refused("cannot be read as an IDX file", mnist, tmp_path)
    path.unlink()
    (tmp_path / f"{IMAGES[0]}.zip").write_bytes(b"PK\3\4 nothing")
    refused("cannot be read as an IDX file", mnist, tmp_path)


def test_other_members_of_a_zip_are_passed_over(tmp_path):
    plain(tmp_path / ANSWERS[0], ANSWERS[1])
    others = [(f"../{IMAGES[0]}", b"out"), (f"/{IMAGES[0]}", b"out"), ("C:\\" + IMAGES[0], b"out"), ("read.me", b"me")]
    zipped(tmp_path / IMAGES[0], IMAGES[1], *others, (f"raw/{ANSWERS[0]}", b"other"))
    assert len(mnist(tmp_path).y) == 12
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([ANSWERS[0], f"{IMAGES[0]}.zip"])
    zipped(tmp_path / IMAGES[0], IMAGES[1], (f"raw/{IMAGES[0]}", IMAGES[1]))
    refused("holds 2 files train-images-idx3-ubyte, expected one", mnist, tmp_path)
    with zipfile.ZipFile(tmp_path / f"{IMAGES[0]}.zip", "w") as archive:
        archive.writestr(f"../{IMAGES[0]}", IMAGES[1])
    refused("holds 0 files", mnist, tmp_path)


BATCH = np.concatenate([np.arange(4, dtype=np.uint8)[:, None], RNG.integers(0, 256, (4, 3072), dtype=np.uint8)], axis=1)


def tarred(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_cifar(tmp_path):
    for name in (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"):
        plain(tmp_path / name, BATCH.tobytes())
    data = cifar10(tmp_path, "all")
    assert (data.x.shape, data.x.dtype, data.shape) == ((24, 3072), np.float32, (32, 32, 3))
    # A record is its label, then all reds, greens and blues, row by row.
    assert data.images()[5, 2, 7, 1] == pytest.approx(BATCH[1, 1 + 1024 + 2 * 32 + 7] / 255)
    np.testing.assert_array_equal(data.y, np.tile(np.arange(4), 6))
    (tmp_path / "data_batch_3.bin").unlink()
    refused("data_batch_3.bin is missing", cifar10, tmp_path)


def test_cifar100(tmp_path):
    """A record is the coarse label, the fine one, and the pixels."""
    fine = np.concatenate([np.full((4, 1), 19, np.uint8), 99 - BATCH], axis=1)
    fine[:, 2:] = BATCH[:, 1:]
    tarred(tmp_path / "cifar-100-binary.tar.gz", [("cifar-100-binary/train.bin", fine.tobytes())])
    data = cifar100(tmp_path)
    assert data.y.tolist() == [99, 98, 97, 96]
    assert (data.names[99], len(data.names), data.shape) == ("worm", 100, (32, 32, 3))
    assert data.images()[1, 2, 7, 1] == pytest.approx(BATCH[1, 1 + 1024 + 2 * 32 + 7] / 255)
    refused("test.bin is missing in it", cifar100, tmp_path, "all")
    (tmp_path / "cifar-100-python").mkdir()
    (tmp_path / "cifar-100-binary.tar.gz").unlink()
    refused(r"consists of pickles.*\(cifar-100-binary.tar.gz\)", cifar100, tmp_path)


def test_cifar_archive(tmp_path):
    inner, other = "cifar-10-batches-bin", BATCH.copy()
    other[:, 0] = 9
    members = [(f"../{inner}/test_batch.bin", b"out"), (f"{inner}/readme.html", b"hello")]
    members += [(f"{inner}/data_batch_{i}.bin", BATCH.tobytes()) for i in (5, 4, 3, 2)]
    members += [(f"{inner}/test_batch.bin", BATCH.tobytes()), (f"{inner}/data_batch_1.bin", other.tobytes())]
    tarred(tmp_path / "cifar-10-binary.tar.gz", members)
    assert cifar10(tmp_path, "test").y.tolist() == [0, 1, 2, 3]
    assert cifar10(tmp_path).y.tolist() == [9] * 4 + 4 * [0, 1, 2, 3]
    assert [p.name for p in tmp_path.iterdir()] == ["cifar-10-binary.tar.gz"]
    tarred(tmp_path / "cifar-10-binary.tar.gz", members[:-1])
    refused("data_batch_1.bin is missing in it", cifar10, tmp_path)
    packed = (tmp_path / "cifar-10-binary.tar.gz").read_bytes()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(packed[: len(packed) // 2])
    refused("cannot be read as an archive of CIFAR-10", cifar10, tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (BATCH.tobytes()[:-1], "are not a batch of at most 10,000 records of 3,073 bytes"),
        (b"", "are not a batch"),
        (bytes(3073 * 10_001), "are not a batch"),
        (np.full((1, 3073), 10, np.uint8).tobytes(), "record 0 has label 10"),
    ],
)
def test_wrong_cifar_files_are_refused(tmp_path, content, said):
    plain(tmp_path / "test_batch.bin", content)
    refused(said, cifar10, tmp_path, "test")
    (tmp_path / "test_batch.bin").unlink()
    tarred(tmp_path / "cifar-10-binary.tar.gz", [("test_batch.bin", content)])
    refused(said, cifar10, tmp_path, "test")


@pytest.mark.parametrize("name", ["cifar-10-python.tar.gz", "cifar-10-batches-py", "test_batch"])
def test_pickles_are_refused_with_the_remedy(tmp_path, name):
    plain(tmp_path / name, b"\x80\x04.")
    refused(r"consists of pickles.*get the binary version \(cifar-10-binary.tar.gz\)", cifar10, tmp_path, "test")


@pytest.mark.slow
def test_bombs_are_refused_before_they_unpack(tmp_path):
    plain(tmp_path / ANSWERS[0], ANSWERS[1])
    zeros = gzip.compress(bytes(2**24))
    (tmp_path / f"{IMAGES[0]}.gz").write_bytes(gzip.compress(struct.pack(">IIII", 2051, 10**6, 28, 28)) + 48 * zeros)
    refused("declares 3.7 GiB of arrays", mnist, tmp_path)
    # Members of one gzip file follow each other: a header of a tar that says there is a long member, and zeros.
    info = tarfile.TarInfo("padding")
    info.size = 2**40
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(gzip.compress(info.tobuf()) + 20 * zeros)
    refused("unpacks to far more than its size", cifar10, tmp_path)


PEOPLE = {
    "counted": dict(zip(FEATURES, (30, 1, 21, 1, 10, 6, 0, 40, 1, 1), strict=True)) | {"PINCP": 50_001, "PWGTP": 9},
}
PEOPLE |= {name: PEOPLE["counted"] | change for name, change in {
    "at the threshold": {"PINCP": 50_000},
    "sixteen": {"AGEP": 16},
    "seventeen": {"AGEP": 17, "PINCP": 101},
    "hardly an income": {"PINCP": 100},
    "no income": {"PINCP": ""},
    "no hours": {"WKHP": 0},
    "hours unknown": {"WKHP": ""},
    "no weight": {"PWGTP": 0},
    "a child": {"AGEP": 4, "COW": "", "OCCP": "", "PINCP": ""},
}.items()}  # fmt: skip


def survey(people, columns=("SERIALNO", *FEATURES[::-1], "PWGTP", "PINCP")):
    rows = [",".join(str(one.get(column, "2018GQ01")) for column in columns) for one in people]
    return "\n".join([",".join(columns), *rows]).encode()


def test_working_adults_are_read_with_their_income(tmp_path):
    (tmp_path / "2018/1-Year").mkdir(parents=True)
    plain(tmp_path / "2018/1-Year/psam_p06.csv", survey(PEOPLE.values()))
    data = acs_income(tmp_path)
    assert data.x[:, FEATURES.index("AGEP")].tolist() == [30, 30, 17]
    assert data.x[0].tolist() == [30, 1, 21, 1, 10, 6, 0, 40, 1, 1]
    assert (data.y.tolist(), data.names[1]) == ([1, 0, 0], "above 50,000")
    income = acs_income(tmp_path, threshold=None)
    assert (income.y.tolist(), income.names) == ([50_001, 50_000, 101], ())
    with zipfile.ZipFile(tmp_path / "csv_pny.zip", "w") as archive:
        archive.writestr("PUMS.pdf", b"read")
        archive.writestr("psam_p36.csv", survey([PEOPLE["counted"]]))
    assert acs_income(tmp_path, ["NY", "CA"]).y.tolist() == [1, 1, 0, 0]
    refused(r"psam_p48.csv is missing .*nor csv_ptx.zip", acs_income, tmp_path, ["CA", "TX"])
    refused("no state 'XX'", acs_income, tmp_path, "XX")
    refused("several different states", acs_income, tmp_path, ["CA", "CA"])
    refused("psam_p06.csv is missing", acs_income, tmp_path, year=2017)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            survey([PEOPLE["counted"]], [*FEATURES[:6], *FEATURES[7:], "PINCP", "PWGTP"]),
            "RELP is missing .*survey of 2018",
        ),
        (survey([PEOPLE["counted"] | {"AGEP": "old"}]), "column AGEP has values that are not numbers"),
        (survey([PEOPLE["counted"] | {"COW": ""}, PEOPLE["counted"]]), "an adult at work has no COW"),
        (survey([PEOPLE["sixteen"]]), "nobody above 16"),
        (survey([]), "nobody above 16|not numbers"),
        (b"", "the file is empty"),
        (b"\xff\xfe\0\1" * 50, "not persons of the survey|cannot be read"),
    ],
)
def test_wrong_surveys_are_refused(tmp_path, content, said):
    plain(tmp_path / "psam_p06.csv", content)
    refused(said, acs_income, tmp_path)


def test_codes_of_states():
    assert len(STATES) == 52
    assert len(set(STATES.values())) == 52
    assert [STATES[state] for state in ("CA", "NY", "TX", "PR")] == ["06", "36", "48", "72"]
