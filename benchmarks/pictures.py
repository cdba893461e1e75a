"""The images of a program: which data set, from which folder, how much of it."""

import argparse
from pathlib import Path

import numpy as np

from bayesrecon import datasets
from bayesrecon.datasets.data_files import LabelledData

SETS = {
    "mnist": datasets.mnist,
    "fashion": datasets.fashion_mnist,
    "cifar10": datasets.cifar10,
    "cifar100": datasets.cifar100,
    "tiny_imagenet": datasets.tiny_imagenet,
    "celeba": datasets.celeba,
    "omniglot": datasets.omniglot,
}
SMALL = 600
"""Images of a small version."""


def add_arguments(parser: argparse.ArgumentParser, sets=tuple(SETS), *, required: bool = True) -> None:
    """`--data FOLDER`, `--set NAME` where there are several, and `--part`."""
    parser.add_argument("--data", type=Path, metavar="FOLDER", required=required, help="files of the data set")
    if len(sets) > 1:
        parser.add_argument("--set", choices=sets, default=sets[0], help="which data set")
    parser.add_argument(
        "--part",
        choices=("small", "test", "train", "all"),
        default="test",
        help=f"of the data set; small are {SMALL} of its test images, in little time",
    )


def images_of(given: argparse.Namespace, one: str = "mnist") -> LabelledData:
    """The images that were asked for."""
    name = getattr(given, "set", one)
    found = SETS[name](given.data, "test" if given.part == "small" else given.part)
    if given.part != "small":
        return found
    return found.rows(np.random.default_rng(0).permutation(len(found.x))[:SMALL])


def grey(data: LabelledData) -> np.ndarray:
    """Images `(N, height, width)`, the mean of the colours where there are some."""
    images = data.images()
    return images.mean(axis=-1) if images.ndim == 4 else images
