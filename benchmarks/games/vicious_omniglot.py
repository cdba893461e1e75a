"""Characters of Omniglot as classes, or N halves of them as binary attributes, for benchmarks/games/vicious.py."""

import io
import zipfile

import matplotlib.image
import numpy as np

from bayesrecon.attacks.outputs.training import Schedule
from bayesrecon.games.vicious import train

ARCHIVE, SIDE = "images_background_small1.zip", 28
ASKED, EPOCHS = 4, 60


def read(folder):
    """Images in [0, 1] with 28 by 28 pixels, ink 1, their character and who of twenty people drew them."""
    images, characters, people = [], [], []
    with zipfile.ZipFile(folder / ARCHIVE) as archive:
        for name in sorted(n for n in archive.namelist() if n.endswith(".png") and "__MACOSX" not in n):
            picture = matplotlib.image.imread(io.BytesIO(archive.read(name)))
            images.append(smaller(1 - picture.reshape(*picture.shape[:2], -1)[..., 0]))
            characters.append("/".join(name.split("/")[-3:-1]))
            people.append(int(name.rsplit("_", 1)[1][:-4]) - 1)
    return np.array(images, np.float32), np.unique(characters, return_inverse=True)[1], np.array(people)


def smaller(image):
    """Means over pixels of a coarser grid, whose edges may cut pixels."""
    grids = []
    for size in image.shape:
        edges = np.linspace(0, size, SIDE + 1)
        begin, end = edges[:-1, None], edges[1:, None]
        share = np.clip(np.minimum(end, np.arange(size) + 1) - np.maximum(begin, np.arange(size)), 0, 1)
        grids.append(share / share.sum(axis=1, keepdims=True))
    return np.clip(grids[0] @ image @ grids[1].T, 0, 1)


def characters(folder, attributes, ratio, quality):
    """One vicious model; four people's drawings are asked about, the others' are known."""
    x, y, people = read(folder)
    if attributes is not None:
        rng = np.random.default_rng(0)
        count = y.max() + 1
        halves = np.stack([rng.permutation(count) < count // 2 for _ in range(40)], axis=1)
        y = halves[:, :attributes][y].astype(int)
    known, asked = people < 20 - ASKED, people >= 20 - ASKED
    trained = train(x[known], y[known], ratio=ratio, schedule=Schedule(epochs=EPOCHS, batch=100))
    guess = trained.decoder(np.asarray(trained.classifier(x[asked])))
    row = {"epoch": trained.epoch, "accuracy": trained.classifier.accuracy(x[asked], y[asked])}
    mean = np.broadcast_to(x[known].mean(axis=0), x[asked].shape)
    return row | quality(x[asked], guess, None) | {"mean": quality(x[asked], mean, None)}
