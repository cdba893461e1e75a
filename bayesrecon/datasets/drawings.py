"""Omniglot: characters of fifty alphabets, each drawn by twenty people (Lake, Salakhutdinov and Tenenbaum 2015)."""

from pathlib import Path

import numpy as np

from bayesrecon.datasets.data_files import LabelledData, checked_folder, files_of_part
from bayesrecon.datasets.pictures import files_of, pictures
from bayesrecon.errors import BayesreconError

PARTS = {
    "train": ("images_background",),
    "test": ("images_evaluation",),
    "small1": ("images_background_small1",),
    "small2": ("images_background_small2",),
    "all": ("images_background", "images_evaluation"),
}


def omniglot(folder: str | Path, part: str = "train", *, side: int | None = None) -> LabelledData:
    """Drawings of characters, from 0 (paper) to 1 (ink), sorted by alphabet, character and drawer.

    A class is a character. Its name is of the form `Alphabet/character01`.

    Args:
        folder: folder with `images_background` and `images_evaluation` (folders, or `.zip` files of these names), or
            with one of the small sets.
        part: "train" (30 alphabets, 964 characters), "test" (20 alphabets, 659 characters), "all", or "small1" or
            "small2" (5 alphabets each).
        side: height and width of the returned images in pixels. None keeps 105.

    Returns:
        `x (N, side^2)` and classes `y (N,)`.

    Raises:
        BayesreconError: the folder or a file does not exist, or a file is damaged.

    >>> omniglot("no/such/folder")
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: no/such/folder: no such folder; name the one that holds the data files
    """
    path, images, characters = checked_folder(folder), [], []
    for subfolder in files_of_part(part, PARTS):
        with files_of(path, [subfolder]) as files:
            listed = [n for n in files.under(subfolder, end=".png") if n.count("/") == 3]
            if not listed:
                raise BayesreconError(f"{files.where}: no drawings in {subfolder}/ALPHABET/CHARACTER")
            images.append(1 - pictures(files, listed, "PNG", side=side, colours=False))
            characters += [name.split("/", 1)[1].rpartition("/")[0] for name in listed]
    classes, y = np.unique(characters, return_inverse=True)
    x, names = np.concatenate(images), tuple(map(str, classes))
    return LabelledData("Omniglot", x.reshape(len(x), -1), y.astype(np.int64), names, shape=x.shape[1:])
