"""Deletions from models of images (the test images unless `--part` says more), beside the published Figure 3.

python -m benchmarks.deletion.mnist softmax ridge-rff softmax-rff --data DIR [--set fashion] [--part all] [--keep DIR]
    [--deletions 200] [--to DIR]

The folder holds the files of a data set of `bayesrecon.datasets`. --keep holds retrained parameters
between runs. The split and the deletions are not those that anything was chosen with: `--development` takes those.
Penalties and the scale of the features are those that MNIST's private half chose; for other images their own half
chooses the penalty. Results go to the page benchmarks/DELETION.md and its figures.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.plots import plot_images, plot_similarity
from benchmarks.deletion.experiment import note_of, prepare, tuned
from benchmarks.deletion.fourier import Fourier
from benchmarks.deletion.guesses import BASELINES, VARIANTS, Guesses, attack, rows_of, scores
from benchmarks.deletion.page import ALL, PUBLISHED, STUDY, keep
from benchmarks.pictures import add_arguments, images_of

WIDTH, SHOWN = 4096, 10
PARTS = ("softmax", "ridge-rff", "softmax-rff")
PENALTY = dict(zip(PARTS, (1.0, 100.0, 10.0), strict=True))
PENALTIES = 10.0 ** np.arange(-1, 5)
"""The penalties of MNIST have the best accuracy on a fifth of its private half, and those of others are chosen so."""


@dataclass(frozen=True)
class Pictures:
    """A data set of images, its published accuracies, and the scale of its random Fourier features.

    MNIST's was chosen with its penalties; without one it is the median distance of two images, which is 20.5 there.
    """

    title: str
    accuracy: tuple[float, ...] = ()
    scale: float | None = None


PICTURES = {
    "mnist": Pictures("MNIST", (0.916, 0.962, 0.964), 20.0),
    "fashion": Pictures("Fashion-MNIST", (0.845, 0.873, 0.884)),
    "cifar10": Pictures("CIFAR-10", (0.395, 0.487, 0.504)),
}
PICTURES |= {"cifar100": Pictures("CIFAR-100"), "tiny_imagenet": Pictures("TinyImageNet")}


def pixels_of(images):
    """Pixels in [-1, 1], of which the files have 256."""
    return np.round(255 * images.x.astype(float)) / 127.5 - 1


def split(count, deletions, *, development):
    """Private and public images, and which private ones are deleted.

    None of the images that were deleted in development is deleted again.
    """
    half, rng = count // 2, np.random.default_rng(0)
    order = rng.permutation(count)
    one, other = (min(size, half // 3) for size in (100, 200))
    used = np.union1d(rng.choice(half, one, replace=False), np.random.default_rng(1).choice(half, other, replace=False))
    if development:
        return order[:half], order[half:], used[:deletions]
    rng = np.random.default_rng(10)
    fresh_order = rng.permutation(count)
    fresh = np.flatnonzero(~np.isin(fresh_order[:half], order[used]))
    return fresh_order[:half], fresh_order[half:], rng.choice(fresh, min(deletions, len(fresh)), replace=False)


def parameters(name, part, options):
    """The experiment, the shape of its images, a note, and the facts in it."""
    about = PICTURES[name]
    images = images_of(options)
    x, y, classes = pixels_of(images), images.y, len(images.names)
    private, public, rows = split(len(x), options.deletions, development=options.development)
    held = None
    if options.keep is not None:
        stem = part if name == "mnist" else f"{name}-{part}"
        held = options.keep / f"{stem}-{'development' if options.development else 'fresh'}-{options.deletions}.npz"
    scale, rng = about.scale or spread(x[private]), np.random.default_rng(2)
    phi = None if part == "softmax" else Fourier(x.shape[1], WIDTH, scale, rng)
    loss, target = ("squared", np.eye(classes)[y]) if part == "ridge-rff" else ("softmax", y)
    settings = {"loss": loss, "outputs": classes, "phi": phi}
    penalty = options.penalty or (PENALTY[part] if name == "mnist" else None)
    penalty = penalty or tuned(x, target, private, PENALTIES, **settings)
    how = "softmax" if phi is None else f"{part.removesuffix('-rff')} over {WIDTH} random Fourier features"
    title = f"{about.title}, {how}"
    one = prepare(title, x, target, private, public, rows, penalty=penalty, keep=held, **settings)
    facts, note = one.facts, note_of([one])
    if about.accuracy:
        facts |= {"published accuracy": about.accuracy[PARTS.index(part)]}
        note += f" (published, with more images: {facts['published accuracy']:.1%})"
    note += f". Penalty {penalty:g}, pixels in [-1, 1]."
    if phi is not None:
        note += f" Random Fourier features `cos(x W + b)` of scale {phi.scale:g}."
    return one, images.shape, note, facts


def spread(x):
    """Median distance of two images."""
    some = np.random.default_rng(3).integers(len(x), size=(2, 2000))
    return float(np.median(np.linalg.norm(x[some[0]] - x[some[1]], axis=1)))


def run(data, part, options):
    one, shape, note, facts = parameters(data, part, options)
    print(one.title, note, sep=": ", flush=True)
    variants = VARIANTS if options.all else {k: VARIANTS[k] for k in (PUBLISHED, ALL)}
    found = attack(one, variants)
    notes = [note, *(inverted(key, found[key]) for key in (PUBLISHED, ALL) if found[key].inversion is not None)]
    if one.embedded is not None:
        found["nearest public image to the features"] = nearest(found[ALL].features, one)
    name = f"{data}-{part}" + ("-development" if options.development else "")
    curves = scores(found, one.truth)
    shown = {k.partition(":")[0]: curves[k] for k in (PUBLISHED, ALL, BASELINES["avg"], BASELINES["maxdiff"])}
    plot_similarity(shown, path=STUDY.folder / f"{name}.png")
    guesses = {"found": found[ALL], "MaxDiff": found[BASELINES["maxdiff"]]}
    grid = {"deleted": one.truth[:SHOWN]} | {k: v.x[:SHOWN] for k, v in guesses.items()}
    plot_images({k: grey(v, shape) for k, v in grid.items()}, shape[:2], path=STUDY.folder / f"{name}-images.png")
    notes.append(f"![distribution of the cosine similarity]({name}.png) ![ten deletions]({name}-images.png)")
    table = rows_of([one], [found])
    keep(one.title + (" (development)" if options.development else ""), notes, table, **facts)
    for row in table:
        print(row["method"], f"{row['median']:.4f}", row["interval"], row.get("above"), row.get("label"), flush=True)


def inverted(key, guesses):
    misfit, nearest_won = np.median(guesses.inversion.misfit), np.mean(guesses.inversion.start == 0)
    return (
        f"{key}: inverting the features took {guesses.seconds:.2g} s a deletion; median misfit {misfit:.3f}; "
        f"the start that won was the nearest public image in {nearest_won:.0%} of deletions."
    )


def grey(x, shape):
    """Images as they are drawn: the mean of the colours."""
    return x if len(shape) == 2 else x.reshape(-1, *shape).mean(axis=-1).reshape(len(x), -1)


def nearest(found, one):
    """For each estimate the public image whose features point most the same way."""
    features = one.public["x"]
    directions = features / np.linalg.norm(features, axis=1, keepdims=True)
    which = (found @ directions.T).argmax(axis=1)
    return Guesses(one.embedded.public[which], features=features[which])


def main():
    parser = STUDY.parser(__doc__, deletions=200)
    parser.add_argument("parts", nargs="+", choices=PARTS)
    add_arguments(parser, tuple(PICTURES))
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--all", action="store_true", help="every improvement by itself too")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--penalty", type=float, help="in place of the one that the private half chooses")
    options = STUDY.given(parser)
    for part in options.parts:
        run(options.set, part, options)
    STUDY.write()


if __name__ == "__main__":
    main()
