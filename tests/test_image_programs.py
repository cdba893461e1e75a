"""Programs over images run to their end on small data sets of the published layouts, all of them and not a part."""

import gzip
import importlib
import io
import json
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from benchmarks.study import Study

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Digits of scikit-learn as MNIST's two halves, compressed."""
    root = tmp_path_factory.mktemp("mnist")
    x, y = load_digits(return_X_y=True)
    small = (x.reshape(-1, 8, 8) / 16 * 255).astype(np.uint8)
    images = np.pad(np.kron(small, np.ones((1, 3, 3), np.uint8)), ((0, 0), (2, 2), (2, 2)))
    for name, rows in (("train", slice(0, 700)), ("t10k", slice(700, 1000))):
        for kind, values in (("images-idx3", images[rows]), ("labels-idx1", y[rows].astype(np.uint8))):
            head = struct.pack(f">{1 + values.ndim}I", 2048 + values.ndim, *values.shape)
            (root / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + values.tobytes()))
    return root


@pytest.fixture
def end(monkeypatch, tmp_path):
    """Runs a program as its command line does, with rows and figures in a folder of its own."""

    def run(name, *arguments):
        module = importlib.import_module(f"benchmarks.{name}")
        kept = module.STUDY
        mine = Study(f"{name.split('.')[0]}/{kept.name}.py", kept._page, empty=kept._empty, name=kept.name)
        for other in (name, "deletion.page"):  # a page that two programs share
            held = importlib.import_module(f"benchmarks.{other}")
            if held.STUDY is kept:
                monkeypatch.setattr(held, "STUDY", mine)
        monkeypatch.setattr("sys.argv", [name, *map(str, arguments), "--to", str(tmp_path)])
        module.main()
        return json.loads((tmp_path / mine.rows.name).read_text())

    return run


@pytest.mark.large
def test_deletions(folder, end):
    rows = end("deletion.mnist", "softmax", "--data", folder, "--part", "all", "--deletions", 2)
    (section,) = rows.values()
    assert section["facts"]["accuracy"] > 0.8
    assert "500 private and 500 public records" in section["notes"][0]


@pytest.mark.large
def test_linear_outputs(folder, end, tmp_path):
    rows = end("outputs.outputs", "--data", folder, "--part", "all")
    assert rows["0.0"]["accuracy"] > 0.8
    assert "800 images are known" in (tmp_path / "OUTPUTS.md").read_text()


@pytest.mark.large
def test_programs_of_vicious_classifiers_keep_rows_and_write_pages(folder, end, tmp_path):
    asked = ("--data", folder, "--part", "all")
    rows = end("games.vicious", "vicious 5 logits 0", "honest 0 softmax 0", *asked)
    assert set(rows) == {"vicious 5 logits 0", "honest 0 softmax 0", "directions mnist"}
    assert (tmp_path / "VICIOUS.md").exists()
    rows = end("games.vicious_more", "delta 1 3 0", "curious 0", "outputs vicious 3 logits 0", *asked)
    assert len(rows) == 3
    assert (tmp_path / "vicious-images.png").exists()


def test_small_parts(folder, end):
    rows = end("deletion.hrec_more", "targets", "--data", folder, "--part", "small")
    assert [row["private"] for row in rows["targets"][-3:]] == [150] * 3


@pytest.mark.large
def test_deleted_drawings(end, tmp_path):
    with zipfile.ZipFile(tmp_path / "images_background_small1.zip", "w") as archive:
        rng = np.random.default_rng(0)
        for alphabet in ("Greek", "Latin"):
            form = rng.uniform(size=(105, 105)) > 0.5
            for character in range(1, 10):
                for person in range(1, 21):
                    stream = io.BytesIO()
                    drawn = np.where(rng.uniform(size=form.shape) < 0.49, ~form, form)
                    Image.fromarray(drawn).save(stream, "PNG")
                    name = f"images_background_small1/{alphabet}/character{character:02d}/0{character}_{person:02d}.png"
                    archive.writestr(name, stream.getvalue())
    rows = end("games.instances", "--data", tmp_path, "--deletions", 12, "--approximations", 6)
    assert rows["omniglot"]["alphabets"] == ["Greek", "Latin"]
