"""Vicious classifiers beyond the table: losses, attributes that are learnt, wide networks, entropy, segments.

python -m benchmarks.games.vicious_more --data DIR [--set fashion] [--part all] [--share 0/4]
    [--until SECONDS] [WORD ...]

DIR holds a data set's files. Models that are kept are not trained again; words choose those whose name begins with one
of them, `--share i/n` every n-th of them for several processes with files of their own (`--to`). Results go to the page
benchmarks/VICIOUS_MORE.md and its figure.
"""

from functools import partial

import numpy as np
import scipy.special

from bayesrecon.attacks.outputs.decoder import ReconstructionLoss, Schedule, train_decoder
from bayesrecon.attacks.outputs.wide import wide_decoder, wide_resnet
from bayesrecon.evaluate import reconstruction_risk
from bayesrecon.games.vicious import train
from benchmarks.games import vicious_more_page
from benchmarks.games.vicious import EPOCHS, HONEST, SHARE, quality, shuffled, sizes
from benchmarks.games.vicious_joint import curious, numbers
from benchmarks.pictures import add_arguments
from benchmarks.study import Study
from benchmarks.tasks import add_missing, timed

LOSSES = {
    "MSE": ReconstructionLoss(alpha=0.0, gamma=10.0, delta=1.0),
    "Huber": ReconstructionLoss(alpha=0.0, gamma=5.0, delta=0.5),
    "SSIM": ReconstructionLoss(alpha=1.0, gamma=0.0),
    "Huber and SSIM": ReconstructionLoss(),
}
"""Table 3 of Malekzadeh and Gunduz (2024); on pixels between 0 and 1 Huber's loss with delta 1 is half the MSE."""
DELTAS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
ATTRIBUTES = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 40)
SEEDS, SHOWN = 5, 8
WIDE = (("vicious", 3.0, "logits"), ("honest", 0.0, "logits"), ("vicious", 5.0, "softmax"), ("vicious", 1.0, "logits"))
WIDE += (("vicious", 5.0, "logits"), ("vicious", np.inf, "logits"), ("vicious", 1.0, "softmax"))
WIDE_EPOCHS = 50
SEGMENTS = {"middle": ((0.25, 0.75), (0.25, 0.75)), "top": ((0, 0.5), (0, 1)), "whole": ((0, 1), (0, 1))}
"""Rows and columns of an image, as shares of its sides."""


def plan():
    """Names of the models, the most important first, and how each is measured."""
    for seed in range(SEEDS):
        for name, loss in LOSSES.items():
            for ratio in (3.0, np.inf):
                yield f"loss {name} {ratio:g} {seed}", one_loss, (loss, ratio, seed)
        for delta in DELTAS:
            loss = ReconstructionLoss(delta=delta)
            yield f"delta {delta:g} 3 {seed}", one_loss, (loss, 3.0, seed)
        for kind, ratio, view in (("honest", 0.0, "logits"), ("vicious", 3.0, "logits"), ("vicious", 5.0, "softmax")):
            yield f"outputs {kind} {ratio:g} {view} {seed}", entropy, (ratio, view, seed)
        for n in ATTRIBUTES:
            for ratio in (1.0, 3.0):
                yield f"attributes {n} {ratio:g} logits {seed}", attributes, (n, ratio, "logits", seed)
        for n in (5, 10):
            yield f"attributes {n} 3 sigmoid {seed}", attributes, (n, 3.0, "sigmoid", seed)
        yield f"tasks {seed}", tasks, (seed,)
        yield f"curious {seed}", curious, (seed,)
        yield f"numbers {seed}", numbers, (seed, quality)
        for kind, ratio, view in WIDE:
            if seed < (2 if ratio != 3.0 else 3):
                yield f"wide {kind} {ratio:g} {view} {seed}", wide, (ratio, view, seed)


class Data:
    """Images and classes, those that are known, and those that are asked about."""

    def __init__(self, given):
        x, y = shuffled(given)
        known, asked = sizes(len(x))
        self.known, self.classes, self.asked, self.truth = x[:known], y[:known], x[-asked:], y[-asked:]
        self.count, small = int(y.max()) + 1, given.part == "small"
        self.epochs, self.honest, self.wide = (3, 2, 1) if small else (EPOCHS, HONEST, WIDE_EPOCHS)
        self.depth, self.width = (10, 1) if small else (28, 5)

    def schedule(self, seed, ratio=1.0, **more):
        told = {"epochs": self.epochs if ratio else self.honest, "validation": SHARE, "seed": seed}
        return Schedule(**(told | more))


def one_loss(data, loss, ratio, seed):
    """One way to train for reconstructions, measured like all others."""
    made = train(data.known, data.classes, ratio=ratio, loss=loss, schedule=data.schedule(seed))
    return judged(data, made.classifier, made.decoder, data.truth)


def judged(data, model, decoder, truth, known=None):
    z = np.asarray(model(data.asked))
    law = data.known if known is None else known
    return {"accuracy": model.accuracy(data.asked, truth)} | quality(data.asked, decoder(z), law)


def entropy(data, ratio, view, seed):
    """Entropies of outputs, reconstructions to look at, and the risk of segments of an image."""
    made = train(data.known, data.classes, ratio=ratio, view=view, schedule=data.schedule(seed, ratio))
    decoder = made.decoder or train_decoder(made.classifier, data.known, view=view, schedule=data.schedule(seed))
    z = np.asarray(made.classifier(data.asked), float)
    p = scipy.special.softmax(z, axis=1)
    centred = z - z.mean(axis=1, keepdims=True)
    spread = np.linalg.eigvalsh(np.cov(centred, rowvar=False))[1:] / centred.var(axis=0).mean()
    guess = np.clip(decoder(z), 0, 1)
    row = judged(data, made.classifier, decoder, data.truth)
    row |= {"softmax bits": float(np.mean(scipy.special.entr(p).sum(axis=1)) / np.log(2))}
    row |= {"normal bits": float(0.5 * np.log2(2 * np.pi * np.e * np.maximum(spread, 1e-300)).sum())}
    shaped, first = guess.reshape(data.asked.shape), np.unique(data.truth, return_index=True)[1][:SHOWN]
    row["segments"] = {name: segment(data, shaped, part) for name, part in SEGMENTS.items()}
    if seed == 0:
        row["images"] = np.round(255 * shaped[first]).astype(int).reshape(len(first), -1).tolist()
        row["inputs"] = np.round(255 * data.asked[first]).astype(int).reshape(len(first), -1).tolist()
    return row


def segment(data, guess, part):
    """The reconstruction risk of some pixels, under their own distribution."""
    ends = [slice(round(low * n), round(high * n)) for (low, high), n in zip(part, guess.shape[1:3], strict=True)]
    known, asked, found = (v[(slice(None), *ends)].reshape(len(v), -1) for v in (data.known, data.asked, guess))
    return reconstruction_risk(asked.astype(float), found.astype(float), known.astype(float), rtol=1.2e-4)


def halves_of(classes, count, known):
    """Attributes that can be learnt: whether a class is in a half of all that was drawn, `(m, count)`."""
    rng = np.random.default_rng(5)
    drawn = (rng.permutation(known)[: known // 2] for _ in range(max(ATTRIBUTES)))
    which = np.stack([np.isin(np.arange(known), half) for half in drawn], axis=1)
    return which[:, :count][classes].astype(int)


def attributes(data, count, ratio, view, seed):
    y, truth = (halves_of(labels, count, data.count) for labels in (data.classes, data.truth))
    made = train(data.known, y, ratio=ratio, view=view, schedule=data.schedule(seed))
    return judged(data, made.classifier, made.decoder, truth)


def tasks(data, seed):
    """Ten attributes, one honest network for each and one for all: the accuracy of each."""
    y, truth = (halves_of(labels, 10, data.count) for labels in (data.classes, data.truth))
    schedule = data.schedule(seed, 0)
    several = train(data.known, y, ratio=0.0, schedule=schedule).classifier
    right = (np.asarray(several(data.asked)) > 0) == (truth > 0)
    alone = []
    for i in range(10):
        one = train(data.known, y[:, [i]], ratio=0.0, schedule=schedule).classifier
        alone.append(one.accuracy(data.asked, truth[:, [i]]))
    return {"several": right.mean(axis=0).tolist(), "alone": alone}


def wide(data, ratio, view, seed):
    """Wide residual networks of images of 32 by 32 pixels, as published."""
    edges = [((32 - side) // 2,) * 2 for side in data.known.shape[1:3]]
    edges = [(0, 0), *edges, *[(0, 0)] * (data.known.ndim - 3)]
    known, asked = np.pad(data.known, edges), np.pad(data.asked, edges)
    nets, shape = {"depth": data.depth, "width": data.width}, known.shape[1:]
    one, other = wide_resnet(shape, data.count, **nets), wide_decoder(data.count, shape, **nets)
    schedule = data.schedule(seed, epochs=data.wide)
    made = train(known, data.classes, ratio=ratio, view=view, classifier=one, decoder=other, schedule=schedule)
    decoder = made.decoder or train_decoder(blocks(made.classifier), known, network=other, schedule=schedule)
    z = blocks(made.classifier)(asked)
    right = float(np.mean(z.argmax(axis=1) == data.truth))
    guess = np.concatenate([decoder(z[i : i + 500]) for i in range(0, len(z), 500)])
    return {"epoch": made.epoch, "accuracy": right} | quality(asked, guess, known)


def blocks(model):
    """A model asked about few images at a time."""
    return lambda x: np.concatenate([np.asarray(model(x[i : i + 500])) for i in range(0, len(x), 500)])


STUDY = Study(__file__, vicious_more_page.page)


def main():
    parser = STUDY.parser(__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="how names of models begin")
    add_arguments(parser, ("mnist", "fashion", "cifar10", "cifar100", "tiny_imagenet"))
    parser.add_argument("--share", default="0/1", metavar="I/N", help="every N-th model, from the I-th on")
    parser.add_argument("--until", type=float, default=np.inf, help="seconds after which no model is begun")
    given = STUDY.given(parser)
    data = Data(given)
    chosen = [one for one in plan() if not given.words or one[0].startswith(tuple(given.words))]
    own, count = map(int, given.share.split("/"))
    tasks = {name: partial(timed, partial(measure, data, *settings)) for name, measure, settings in chosen[own::count]}
    vicious_more_page.draw(add_missing(STUDY, tasks, seconds=given.until), STUDY.folder)


if __name__ == "__main__":
    main()
