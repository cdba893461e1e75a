"""TinyImageNet: 200 classes of photographs with 64 by 64 pixels (Le and Yang 2015)."""

from pathlib import Path

import numpy as np

from bayesrecon.datasets.data_files import LabelledData, checked_folder, files_of_part, joined
from bayesrecon.datasets.pictures import Files, files_of, pictures
from bayesrecon.errors import BayesreconError

INNER = "tiny-imagenet-200"
PARTS = {"train": ("train",), "test": ("val",), "all": ("train", "val")}


def tiny_imagenet(folder: str | Path, part: str = "train", *, side: int = 32) -> LabelledData:
    """Photographs in three colours from 0 to 1. The classes have the order of `wnids.txt`.

    Args:
        folder: folder with `tiny-imagenet-200` (a folder, or `tiny-imagenet-200.zip`), which contains `wnids.txt`,
            `words.txt`, `train` and `val`.
        part: "train" (100,000 images), "test" (the 10,000 images of `val`, since those of `test` have no labels), or
            "all".
        side: height and width of the returned images in pixels. The files have 64 by 64.

    Returns:
        `x (N, 3 side^2)` and classes `y (N,)`.

    Raises:
        BayesreconError: the folder or a file does not exist, a file is damaged, or `wnids.txt` lacks a class.

    >>> tiny_imagenet("no/such/folder")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: no/such/folder: no such folder; name the one that holds the data files
    """
    path, splits = checked_folder(folder), files_of_part(part, PARTS)
    with files_of(path, [INNER]) as files:
        classes = [line.strip() for line in files.lines(f"{INNER}/wnids.txt") if line.strip()]
        words = dict(line.split("\t", 1) for line in files.lines(f"{INNER}/words.txt") if "\t" in line)
        names = tuple(words.get(wnid, wnid) for wnid in classes)
        return joined([_split(files, split, classes, names, side) for split in splits])


def _split(files: Files, split: str, classes: list[str], names: tuple[str, ...], side: int) -> LabelledData:
    if split == "train":
        listed = files.under(INNER, "train", end=".jpeg")
        labels = [name.split("/")[2] for name in listed]
    else:
        rows = [line.split("\t") for line in files.lines(f"{INNER}/val/val_annotations.txt")]
        rows = [row for row in rows if len(row) > 1]
        listed, labels = [f"{INNER}/val/images/{row[0]}" for row in rows], [row[1] for row in rows]
    if not listed:
        raise BayesreconError(f"{files.where}: no images in {split}")
    position = {name: i for i, name in enumerate(classes)}
    if unknown := [label for label in labels if label not in position]:
        raise BayesreconError(f"{files.where}: wnids.txt has no class {unknown[0]!r}")
    x = pictures(files, listed, "JPEG", side=side, colours=True)
    y = np.array([position[label] for label in labels], np.int64)
    return LabelledData("TinyImageNet", x.reshape(len(x), -1), y, names, shape=x.shape[1:])
