"""Omniglot: characters of fifty alphabets, each drawn by twenty people (Lake, Salakhutdinov and Tenenbaum 2015)."""

from pathlib import Path

import numpy as np

from bayesrecon.datasets.idx import chosen
from bayesrecon.datasets.labelled import LabelledData
from bayesrecon.datasets.pictures import files_of, pictures
from bayesrecon.datasets.sources import checked_folder
from bayesrecon.errors import BayesreconError

PARTS = {
    "train": ("images_background",),
    "test": ("images_evaluation",),
    "small1": ("images_background_small1",),
    "small2": ("images_background_small2",),
    "all": ("images_background", "images_evaluation"),
}


def omniglot(folder: str | Path, part: str = "train", *, side: int | None = None) -> LabelledData:
    """Drawings from 0 (paper) to 1 (ink), sorted by alphabet, character and who drew it; a class is a character.

    A class is named `Alphabet/character01`; drawings of one class come in the order of the people who drew them.

    Args:
        folder: holds `images_background` and `images_evaluation` (folders, or `.zip` of these names), or one of the
            small sets.
        part: "train" (30 alphabets, 964 characters), "test" (20 alphabets, 659 characters), "all", or "small1" and
            "small2" (5 alphabets).
        side: of the images that are made of the 105 by 105 pixels; None keeps them.

    Raises:
        BayesreconError: no such folder, a file is missing or no such file.

    >>> omniglot("no/such/folder")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: no/such/folder: no such folder; name the one that holds the data files
    """
    where, images, characters = checked_folder(folder), [], []
    for inner in chosen(part, PARTS):
        with files_of(where, [inner]) as files:
            listed = [n for n in files.under(inner, end=".png") if n.count("/") == 3]
            if not listed:
                raise BayesreconError(f"{files.where}: no drawings in {inner}/ALPHABET/CHARACTER")
            images.append(1 - pictures(files, listed, "PNG", side=side, colours=False))
            characters += [name.split("/", 1)[1].rpartition("/")[0] for name in listed]
    classes, y = np.unique(characters, return_inverse=True)
    x, names = np.concatenate(images), tuple(map(str, classes))
    return LabelledData("Omniglot", x.reshape(len(x), -1), y.astype(np.int64), names, shape=x.shape[1:])
