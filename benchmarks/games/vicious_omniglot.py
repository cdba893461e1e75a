"""Characters of Omniglot as classes, or N halves of them as binary attributes, for benchmarks/games/vicious.py."""

import numpy as np

from bayesrecon.attacks.outputs.decoder import Schedule
from bayesrecon.datasets import omniglot
from bayesrecon.games.vicious import train

SIDE = 28
ASKED, EPOCHS = 4, 60


def characters(folder, attributes, ratio, quality):
    """One vicious model; four people's drawings are asked about, the others' are known."""
    data = omniglot(folder, "small1", side=SIDE)
    x, y, people = data.images(), data.y, np.concatenate([np.arange(count) for count in np.bincount(data.y)])
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
