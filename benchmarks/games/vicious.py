"""What networks' outputs give away about their input: honest and vicious classifiers, as the page VICIOUS.md.

python -m benchmarks.games.vicious --data DIR [--set fashion] [--part all] [--omniglot DIR] [--until SECONDS] [WORD ...]

DIR holds a data set's files, or Omniglot's images_background_small1.zip. Words choose the models whose name begins so.
"""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from bayesrecon.attacks.deletion.inversion import invert_embedding
from bayesrecon.attacks.outputs.decoder import Schedule, structural_similarity, train_decoder
from bayesrecon.attacks.outputs.decoding import fitted_decoder
from bayesrecon.evaluate import psnr, reconstruction_risk
from bayesrecon.games.vicious import detection_scores, train
from benchmarks.games import vicious_page
from benchmarks.games.vicious_omniglot import characters
from benchmarks.pictures import add_arguments, images_of
from benchmarks.study import Study
from benchmarks.tasks import add_missing, timed

CUTS = (1.2e-4, 1e-2)
EPOCHS, HONEST = 30, 15
"""Of vicious models and decoders, and of honest models, whose validation loss is least after about eight."""
TRAINING, VALIDATION, ASKED = 0.65, 0.07, 0.2
"""Shares of the images; the others are the detector's."""
SHARE = VALIDATION / (TRAINING + VALIDATION)
STOPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15)
"""Epochs at which ten more honest models stop, whatever validation says."""
EARLY = 10
"""Epochs of vicious models for the detector alone, a stopping time of their own."""
OTHERS = (
    ("honest", 0.0, "softmax"), ("vicious", 5.0, "softmax"), ("centred", 3.0, "logits"),
    ("vicious", 1.0, "logits"), ("vicious", 5.0, "logits"), ("vicious", math.inf, "logits"),
    ("vicious", 1.0, "softmax"), ("vicious", 3.0, "softmax"),
)  # fmt: skip


def plan():
    """`(kind, ratio, view, seed)` of every model, the most important first."""
    for seed in range(5):
        yield "vicious", 3.0, "logits", seed
        yield "honest", 0.0, "logits", seed
        if seed == 2:
            yield "centred", 3.0, "logits", 0
            yield from (("stopped", 0.0, "logits", 10 + one) for one in range(len(STOPS)))
    yield from (("early", 3.0, "logits", seed) for seed in range(5, 10))
    yield "inversion", 0.0, "logits", 0
    yield from (("attributes", 3.0, "logits", n) for n in (1, 2, 5, 10, 20, 40))
    yield "characters", 3.0, "logits", 0
    for seed in range(5):
        for kind, ratio, view in OTHERS:
            if (kind, seed) != ("centred", 0):
                yield kind, ratio, view, seed


def plan_of(data):
    """The plan of MNIST, and of other images the models of the published table."""
    if data == "mnist":
        yield from plan()
        return
    for seed in range(3):
        for kind, ratio, view in (("vicious", 3.0, "logits"), ("honest", 0.0, "logits"), *OTHERS):
            if kind == "vicious" or (kind, view) == ("honest", "logits"):
                yield kind, ratio, view, seed


def page(held):
    """The page of the models that there are."""
    return vicious_page.page(held, EPOCHS, HONEST, [name_of(*one) for one in plan()])


STUDY = Study(__file__, page)


def name_of(kind, ratio, view, seed, data="mnist"):
    return f"{data} " * (data != "mnist") + f"{kind} {ratio:g} {view} {seed}"


def shuffled(given):
    """Training and validation records first, the others are asked about or are the detector's."""
    data = images_of(given)
    order = np.random.default_rng(0).permutation(len(data.x))
    return np.asarray(data.images(), np.float32)[order], np.asarray(data.y)[order]


def sizes(count):
    """How many images are known, to train and to validate with, and how many are asked about."""
    return round(TRAINING * count) + round(VALIDATION * count), round(ASKED * count)


def planes(images):
    """Colours before rows: one image each."""
    return np.moveaxis(images, -1, 1) if images.ndim == 4 else images


def measured(x, y, model, decoder, known):
    z = np.asarray(model(x))
    row = {"accuracy": model.accuracy(x, y)}
    return row | quality(x, decoder(z), known) if decoder is not None else row


def quality(x, guess, known):
    flat, guess = x.reshape(len(x), -1), np.clip(guess, 0, 1).reshape(len(x), -1)
    similar = structural_similarity(planes(guess.reshape(x.shape).astype(np.float32)), planes(x))
    row = {"psnr": float(psnr(flat, guess, value_range=1)), "ssim": float(similar.mean())}
    if known is not None:
        flat, guess, law = (np.asarray(v, float) for v in (flat, guess, known.reshape(len(known), -1)))
        row["risk"] = {f"{cut:g}": reconstruction_risk(flat, guess, law, rtol=cut) for cut in CUTS}
    return row


def run(kind, ratio, view, seed, x, y):
    """One model on MNIST, or several decoders of one."""
    total, asked = sizes(len(x))
    epochs = {"stopped": STOPS[seed % 10], "early": EARLY}.get(kind, EPOCHS if ratio else HONEST)
    schedule = Schedule(epochs=epochs, validation=SHARE, seed=seed, best=kind not in ("stopped", "early"))
    known, asked, classes = x[:total], x[-asked:], y[-asked:]
    trained = train(known, y[:total], ratio=ratio, view=view, centred=kind == "centred", schedule=schedule)
    model, decoder = trained.classifier, trained.decoder
    row = {"epoch": trained.epoch}
    if kind == "honest":
        decoder = train_decoder(model, known, view=view, schedule=replace(schedule, epochs=EPOCHS))
    row |= measured(asked, classes, model, decoder, known)
    if kind == "inversion":
        return row | inversion(model, known, asked[:100])
    if view == "logits":
        row["scores"] = detection_scores(model, x[total:], y[total:], records=500).to_dict()
        z, own = np.asarray(model(known)), known.reshape(len(known), -1)
        row["linear"] = quality(asked, fitted_decoder(own, z)(np.asarray(model(asked))), None)
    return row


def inversion(model, known, asked):
    """The decoders of one honest model and the descent that needs none, on the same images."""
    z, flat = np.asarray(model(asked)), known.reshape(len(known), -1)
    schedule = Schedule(epochs=EPOCHS, validation=SHARE)
    found = invert_embedding(lambda x: model.logits(model.params, x[None])[0], z, flat)
    guesses = {
        "trained decoder": train_decoder(model, known, schedule=schedule)(z),
        "linear decoder": fitted_decoder(flat, np.asarray(model(known)))(z),
        "descent without a decoder": np.asarray(found.x),
        "mean image": np.broadcast_to(flat.mean(axis=0), (len(z), flat.shape[1])),
    }
    return {"attacks": {name: quality(asked, guess, None) for name, guess in guesses.items()}}


def main():
    parser = STUDY.parser(__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="how names of models begin")
    add_arguments(parser, ("mnist", "fashion", "cifar10", "cifar100", "tiny_imagenet", "celeba"))
    parser.add_argument("--omniglot", type=Path)
    parser.add_argument("--until", type=float, default=math.inf, help="seconds after which no model is begun")
    given = STUDY.given(parser)
    x, y = shuffled(given)
    tasks = {}
    for kind, ratio, view, seed in plan_of(given.set):
        name, drawn = name_of(kind, ratio, view, seed, given.set), kind in ("attributes", "characters")
        if (given.words and not name.startswith(tuple(given.words))) or (drawn and not given.omniglot):
            continue
        about = (given.omniglot, seed if kind == "attributes" else None, ratio, quality)
        tasks[name] = partial(characters, *about) if drawn else partial(run, kind, ratio, view, seed, x, y)
    held = add_missing(STUDY, {name: partial(timed, task) for name, task in tasks.items()}, seconds=given.until)
    known = x[: sizes(len(x))[0]]
    values = np.linalg.eigvalsh(np.cov(known.reshape(len(known), -1), rowvar=False))
    STUDY.add(**{f"directions {given.set}": {f"{cut:g}": int((values > cut * values[-1]).sum()) for cut in CUTS}})
    vicious_page.draw(held, STUDY.folder)


if __name__ == "__main__":
    main()
