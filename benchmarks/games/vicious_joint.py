"""Networks that are trained for two things at once, one of which is no class or the other no image."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.attacks.outputs.architectures import perceptron
from bayesrecon.attacks.outputs.decoder import ReconstructionLoss, class_loss, fit, start

WEIGHT = 3.0
"""Of what is hidden to the task."""
BANDS = 10
"""Bands of rows, whose ink a regression predicts."""


class Pair:
    """A classifier `p-512-256-N`, and a reader of its outputs that finds what is hidden.

    Args:
        task: `(z, y) -> loss`. reader: a network of N outputs. hidden: `(found, x, y) -> loss`.
    """

    def __init__(self, data, labels, outputs, task, reader, hidden):
        self.data, self.labels, self.task, self.reader, self.hidden = data, labels, task, reader, hidden
        self.flat = data.known.reshape(len(data.known), -1)
        self.asked = jnp.asarray(data.asked.reshape(len(data.asked), -1))
        self.one = perceptron((self.flat.shape[1], 512, 256, outputs))

    def trained(self, schedule, weight, frozen=None):
        """The classifier's parameters, its outputs for the records asked about, and what the reader makes of them.

        With `frozen` a classifier stays as it is and the reader alone is trained.
        """
        begin = {"reader": start(self.reader, schedule.seed, 1)[0]}
        if frozen is None:
            begin["classifier"] = start(self.one, schedule.seed, 0)[0]

        def objective(params, state, batch, training):
            x, y = batch
            z = self.one.apply(params["classifier"] if frozen is None else frozen, (), x, training)[0]
            total = self.task(z, y) if frozen is None else 0.0
            if weight:
                total = total + weight * self.hidden(self.reader.apply(params["reader"], (), z, training)[0], x, y)
            return total, state

        done = fit(objective, begin, (), (self.flat, self.labels), schedule, label="training").params
        kept = done["classifier"] if frozen is None else frozen
        z = self.one.apply(kept, (), self.asked, False)[0]
        return kept, np.asarray(z), np.asarray(self.reader.apply(done["reader"], (), z, False)[0])


def curious(data, seed):
    """Odd or even, and in secret whether a class is in the upper half, from the probabilities of two classes."""
    labels, truth = (
        np.stack([y % 2, y >= data.count // 2], axis=1).astype(np.int32) for y in (data.classes, data.truth)
    )
    reader = perceptron((2, 64, 32, 2))

    def of_probabilities(params, state, z, training):
        return reader.apply(params, state, jax.nn.softmax(z), training)

    pair = Pair(
        data,
        labels,
        2,
        lambda z, y: class_loss(z, y[:, 0]),
        replace(reader, apply=of_probabilities),
        lambda found, x, y: class_loss(found, y[:, 1]),
    )
    honest, z, _ = pair.trained(data.schedule(seed, 0), 0.0)
    row = {"honest accuracy": _right(z, truth[:, 0])}
    row["honest secret"] = _right(pair.trained(data.schedule(seed), 1.0, honest)[2], truth[:, 1])
    _, z, found = pair.trained(data.schedule(seed), WEIGHT)
    share = float(np.mean(truth[:, 1]))
    return row | {
        "accuracy": _right(z, truth[:, 0]),
        "secret": _right(found, truth[:, 1]),
        "guess": max(share, 1 - share),
    }


def numbers(data, seed, quality):
    """Regression: the ink of ten bands of rows, and in secret the image."""
    inks = [
        np.stack([band.sum(axis=tuple(range(1, band.ndim))) for band in np.array_split(v, BANDS, axis=1)], axis=1)
        for v in (data.known, data.asked)
    ]
    labels, truth = (np.asarray(ink / inks[0].std(axis=0), np.float32) for ink in inks)
    shape, loss = data.known.shape[1:], ReconstructionLoss()
    pair = Pair(
        data,
        labels,
        BANDS,
        lambda z, y: jnp.mean((z - y) ** 2),
        perceptron((BANDS, 256, 512, int(np.prod(shape))), sigmoid=True),
        lambda found, x, y: loss(found.reshape(-1, *shape), x.reshape(-1, *shape)),
    )
    honest, z, _ = pair.trained(data.schedule(seed), 0.0)
    row = {"honest r2": _r2(z, truth)}
    row["honest"] = quality(data.asked, pair.trained(data.schedule(seed), 1.0, honest)[2], data.known)
    _, z, found = pair.trained(data.schedule(seed), WEIGHT)
    return row | {"r2": _r2(z, truth)} | quality(data.asked, found, data.known)


def _right(z, truth):
    return float(np.mean(z.argmax(axis=1) == truth))


def _r2(found, truth):
    return float(1 - ((found - truth) ** 2).sum() / ((truth - truth.mean(axis=0)) ** 2).sum())
