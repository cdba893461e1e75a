"""Loaders of images that are files of their own, on small data sets of the published layouts that are written here."""

import io
import shutil
import zipfile

import numpy as np
import pytest
from PIL import Image
from written import refused

from bayesrecon.datasets import celeba, omniglot, tiny_imagenet
from bayesrecon.datasets.pictures import smaller

RNG = np.random.default_rng(0)


def encoded(pixels, kind):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **({"quality": 100, "subsampling": 0} if kind == "JPEG" else {}))
    return stream.getvalue()


def written(root, files, as_zip):
    """Files by their paths below a folder, or in the zip file that is published."""
    if as_zip:
        inner = next(iter(files)).split("/")[0]
        with zipfile.ZipFile(root / f"{inner}.zip", "w") as archive:
            archive.writestr("__MACOSX/._a.png", b"nothing")
            archive.writestr(f"../{inner}/out.png", b"out")
            for name, content in files.items():
                archive.writestr(name, content)
        return
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def face(level):
    return encoded(np.full((218, 178, 3), level, np.uint8), "JPEG")


def faces(root, as_zip=True):
    names = "5_o_Clock_Shadow Smiling Young"
    rows = ["000001.jpg -1  1  1", "000002.jpg  1 -1 -1", "000003.jpg -1 -1  1"]
    (root / "list_attr_celeba.txt").write_text("\n".join(["3", names, *rows]) + "\n")
    (root / "list_eval_partition.txt").write_text("000001.jpg 0\n000002.jpg 1\n000003.jpg 2\n")
    written(root, {f"img_align_celeba/00000{i}.jpg": face(60 * i) for i in (3, 1, 2)}, as_zip)


@pytest.mark.slow
@pytest.mark.parametrize("as_zip", [True, False])
def test_celeba(tmp_path, as_zip):
    faces(tmp_path, as_zip)
    data = celeba(tmp_path, "all")
    assert (data.x.shape, data.x.dtype, data.shape) == ((3, 3072), np.float32, (32, 32, 3))
    np.testing.assert_allclose(data.x.mean(axis=1), np.array([60, 120, 180]) / 255, atol=0.01)
    assert data.y.tolist() == [[0, 1, 1], [1, 0, 0], [0, 0, 1]]
    assert data.names[1] == "Smiling"
    assert celeba(tmp_path, "validation", side=16).x.shape == (1, 768)
    assert celeba(tmp_path).y.tolist() == [[0, 1, 1]]


def test_wrong_faces_are_refused(tmp_path):
    faces(tmp_path)
    text = (tmp_path / "list_attr_celeba.txt").read_text()
    for wrong, said in (
        (text.replace("3\n", "4\n", 1), "says '4' images and lists 3"),
        (text.replace("-1 -1\n", "-1  2\n"), "000002.jpg without 3 attributes of 1 or -1"),
        ("", "says '' images"),
    ):
        (tmp_path / "list_attr_celeba.txt").write_text(wrong)
        refused(said, celeba, tmp_path)
    (tmp_path / "list_attr_celeba.txt").write_text(text)
    (tmp_path / "list_eval_partition.txt").write_text("")
    refused("no image of part 'train'", celeba, tmp_path)
    with zipfile.ZipFile(tmp_path / "img_align_celeba.zip", "w") as archive:
        archive.writestr("img_align_celeba/000001.jpg", face(9))
        archive.writestr("img_align_celeba/000002.jpg", encoded(np.zeros((9, 9, 3), np.uint8), "PNG"))
    refused("000002.jpg is not a JPEG image", celeba, tmp_path, "all")
    (tmp_path / "img_align_celeba.zip").write_bytes(b"PK nothing")
    refused("cannot be read as an archive of images", celeba, tmp_path, "all")
    (tmp_path / "img_align_celeba.zip").unlink()
    refused("img_align_celeba is missing", celeba, tmp_path, "all")


def photographs(root, as_zip):
    files = {"wnids.txt": b"n02\nn01\n", "words.txt": b"n01\tgoldfish, carp\nn02\tnewt\nn99\tother\n"}
    files["val/val_annotations.txt"] = b"val_0.JPEG\tn01\t0\t0\t63\t63\nval_1.JPEG\tn02\t0\t0\t63\t63\n"
    for i, name in enumerate(("train/n01/images/n01_0.JPEG", "train/n02/images/n02_0.JPEG", "val/images/val_0.JPEG")):
        files[name] = encoded(np.full((64, 64, 3), 50 * i + 50, np.uint8), "JPEG")
    files["val/images/val_1.JPEG"] = encoded(np.full((64, 64), 200, np.uint8), "JPEG")  # some are grey
    files["test/images/test_0.JPEG"] = b"not asked for"
    written(root, {f"tiny-imagenet-200/{k}": v for k, v in files.items()}, as_zip)


@pytest.mark.parametrize("as_zip", [True, False])
def test_tiny_imagenet(tmp_path, as_zip):
    photographs(tmp_path, as_zip)
    data = tiny_imagenet(tmp_path, "all")
    assert data.x.shape == (4, 3072)
    np.testing.assert_allclose(data.x.mean(axis=1), np.array([50, 100, 150, 200]) / 255, atol=0.01)
    assert data.y.tolist() == [1, 0, 1, 0]
    assert data.names == ("newt", "goldfish, carp")
    assert tiny_imagenet(tmp_path, "test", side=64).shape == (64, 64, 3)


def test_wrong_photographs_are_refused(tmp_path):
    photographs(tmp_path, False)
    inner = tmp_path / "tiny-imagenet-200"
    (inner / "wnids.txt").write_text("n02\n")
    refused("wnids.txt has no class 'n01'", tiny_imagenet, tmp_path)
    (inner / "wnids.txt").write_bytes(b"\xff\xfe\x00")
    refused("wnids.txt is not a text file", tiny_imagenet, tmp_path)
    (inner / "wnids.txt").unlink()
    refused("wnids.txt is missing", tiny_imagenet, tmp_path)
    photographs(tmp_path, False)
    shutil.rmtree(inner / "train")
    refused("no images in train", tiny_imagenet, tmp_path)
    (inner / "val/images/val_0.JPEG").write_bytes(encoded(np.zeros((2000, 2000, 3), np.uint8), "JPEG"))
    refused("declares 2000 by 2000 pixels", tiny_imagenet, tmp_path, "test")


def drawings(root, inner, alphabets, as_zip):
    files, number = {}, 0
    for alphabet in alphabets:
        for character in ("character01", "character02"):
            for person in (1, 2):
                pixels = np.full((105, 105), 255, np.uint8)
                pixels[: 10 + number] = 0
                image = Image.fromarray(pixels).convert("1")
                stream = io.BytesIO()
                image.save(stream, "PNG")
                files[f"{inner}/{alphabet}/{character}/0{number:03d}_0{person}.png"] = stream.getvalue()
                number += 1
    written(root, files, as_zip)


@pytest.mark.parametrize("as_zip", [True, False])
def test_omniglot(tmp_path, as_zip):
    drawings(tmp_path, "images_background", ("Greek", "Latin"), as_zip)
    drawings(tmp_path, "images_evaluation", ("Angelic",), as_zip)
    data = omniglot(tmp_path)
    assert (data.x.shape, data.shape) == ((8, 105 * 105), (105, 105))
    np.testing.assert_allclose(data.x.mean(axis=1), (10 + np.arange(8)) / 105, atol=1e-6)  # ink is 1
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert data.names[2] == "Latin/character01"
    whole = omniglot(tmp_path, "all", side=28)
    assert whole.x.shape == (12, 784)
    assert whole.names[0] == "Angelic/character01"
    assert whole.y[-1] == 1
    refused("images_background_small1 is missing", omniglot, tmp_path, "small1")
    refused("part='evaluation': expected train, test", omniglot, tmp_path, "evaluation")


def test_smaller_images_keep_their_mean():
    image = RNG.uniform(size=(21, 30, 3)).astype(np.float32)
    for side in (1, 7, 10, 20):
        made = smaller(image, side)
        assert made.shape == (side, side, 3)
        np.testing.assert_allclose(made.mean(axis=(0, 1)), image.mean(axis=(0, 1)), rtol=1e-5)
    refused("side=0: expected 1 or more", smaller, image, 0)
