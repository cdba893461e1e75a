"""Deletions from models of images (the 10,000 test images), beside the published Figure 3.

python benchmarks/mnist.py softmax ridge-rff softmax-rff --mnist DIR [--fashion DIR] [--cifar DIR] [--keep DIR]
    [--deletions 200] [--figures DIR]

The folders hold the files of `bayesrecon.datasets`; what has no folder is not run. --keep holds retrained parameters
between runs. The split and the deletions are not those that anything was chosen with: `--development` takes those.
Penalties and the scale of the features are those that MNIST's private half chose; for other images their own half
chooses the penalty. Results go to the page benchmarks/DELETION.md and its figures.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from experiment import ALL, BASELINES, PUBLISHED, VARIANTS, attack, prepare, rows_of, scores, tuned
from page import HERE, keep, write

from bayesrecon import datasets
from bayesrecon.attacks.deletion.inversion import invert_embedding
from bayesrecon.plots import plot_images, plot_similarity

WIDTH = 4096
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
    load: Callable[..., datasets.LabelledData]
    accuracy: tuple[float, float, float]
    scale: float | None = None


PICTURES = {
    "mnist": Pictures("MNIST", datasets.mnist, (0.916, 0.962, 0.964), 20.0),
    "fashion": Pictures("Fashion-MNIST", datasets.fashion_mnist, (0.845, 0.873, 0.884)),
    "cifar": Pictures("CIFAR-10", datasets.cifar10, (0.395, 0.487, 0.504)),
}


def pixels_of(images):
    """Pixels in [-1, 1], of which the files have 256."""
    return np.round(255 * images.x.astype(float)) / 127.5 - 1


def split(count, deletions, *, development):
    """Private and public images, and which private ones are deleted.

    None of the images that were deleted in development is deleted again.
    """
    half, rng = count // 2, np.random.default_rng(0)
    order = rng.permutation(count)
    used = np.union1d(rng.choice(half, 100, replace=False), np.random.default_rng(1).choice(half, 200, replace=False))
    if development:
        return order[:half], order[half:], used[:deletions]
    rng = np.random.default_rng(10)
    fresh_order = rng.permutation(count)
    fresh = np.flatnonzero(~np.isin(fresh_order[:half], order[used]))
    return fresh_order[:half], fresh_order[half:], rng.choice(fresh, deletions, replace=False)


class Fourier:
    """Random features of a Gaussian kernel, `cos(x W + b)` (Rahimi and Recht 2007, unscaled)."""

    def __init__(self, pixels, width, scale, rng):
        self.scale = scale
        self.frequencies = rng.normal(size=(pixels, width)) / scale
        self.phase = rng.uniform(0, 2 * np.pi, width)

    def __call__(self, x):
        import jax.numpy as jnp

        return jnp.cos(x @ self.frequencies + self.phase)


def parameters(name, part, options):
    """The experiment, the pixels of private and public images, their shape, and the embedding."""
    about = PICTURES[name]
    images = about.load(getattr(options, name), "test")
    x, y = pixels_of(images), images.y
    private, public, rows = split(len(x), options.deletions, development=options.development)
    held = None
    if options.keep is not None:
        stem = part if name == "mnist" else f"{name}-{part}"
        held = options.keep / f"{stem}-{'development' if options.development else 'fresh'}-{options.deletions}.npz"
    phi = None if part == "softmax" else fourier(about.scale or spread(x[private]), x.shape[1])
    features = x if phi is None else np.cos(x @ phi.frequencies + phi.phase)
    loss, target = ("squared", np.eye(10)[y]) if part == "ridge-rff" else ("softmax", y)
    settings = {"loss": loss, "outputs": 10}
    penalty = PENALTY[part] if name == "mnist" else tuned(features, target, private, PENALTIES, **settings)
    how = "softmax" if phi is None else f"{part.removesuffix('-rff')} over {WIDTH} random Fourier features"
    title = f"{about.title}, {how}"
    one = prepare(title, features, target, private, public, rows, penalty=penalty, keep=held, **settings)
    note = (
        one.note.partition(": ")[2] + f" (published, with more images: {about.accuracy[PARTS.index(part)]:.1%}). "
        f"Penalty {penalty:g}, pixels in [-1, 1]."
    )
    return one, x[private], x[public], images.shape, phi, note


def fourier(scale, pixels):
    return Fourier(pixels, WIDTH, scale, np.random.default_rng(2))


def spread(x):
    """Median distance of two images."""
    some = np.random.default_rng(3).integers(len(x), size=(2, 2000))
    return float(np.median(np.linalg.norm(x[some[0]] - x[some[1]], axis=1)))


def run(data, part, options):
    one, pixels, public, shape, phi, note = parameters(data, part, options)
    print(one.note, flush=True)
    wanted = (ALL,) if options.improved else (PUBLISHED, ALL)
    variants = VARIANTS if options.all else {k: VARIANTS[k] for k in wanted}
    found = attack(one, variants)
    table, truth = rows_of([one], [found]), pixels[one.rows]
    notes = [note]
    curves = scores(found, one.truth)
    best = {ALL: np.stack([f.x for f in found[ALL]])}
    inverted = {BASELINES["maxdiff"]: public[_which(found[BASELINES["maxdiff"]], one.public["x"])]}
    name = f"{data}-{part}" + ("-development" if options.development else "")
    if phi is not None:
        notes.append(
            f"Random Fourier features `cos(x W + b)` of scale {phi.scale:g}; cosines are those of the features."
        )
        plot_similarity(_shown(curves), path=options.figures / f"{name}-features.png")
        best = {}
        for key in wanted:
            begun = time.perf_counter()
            one_by = invert_embedding(phi, np.stack([f.x for f in found[key]]), public)
            each = (time.perf_counter() - begun) / len(one.rows)
            best[key] = one_by.x
            notes.append(
                f"{key}: inverting the features took {each:.2g} s a deletion; median misfit "
                f"{np.median(one_by.misfit):.3f}; the start that won was the nearest public image in "
                f"{np.mean(one_by.start == 0):.0%} of deletions."
            )
        maxdiff = inverted
        inverted = {f"{key}, inverted": x for key, x in best.items()}
        inverted["nearest public image to the features"] = nearest(found[ALL], one.public["x"], public)
        inverted |= maxdiff | {BASELINES["avg"]: np.repeat(public.mean(axis=0)[None], len(truth), axis=0)}
        seen = replace(one, private={"x": pixels, "y": one.private["y"]})
        keep(one.title + (" (development)" if options.development else ""), notes, table)
        curves = scores(inverted, truth)
        table, notes = rows_of([seen], [inverted]), ["Cosines are those of pixels."]
        one = replace(one, title=one.title + ", in pixels")
    figure = f"{name}.png"
    plot_similarity(_shown(curves), path=options.figures / figure)
    shown = np.arange(min(10, len(truth)))
    grid = {"deleted": truth[shown], "found": best[ALL][shown], "MaxDiff": inverted[BASELINES["maxdiff"]][shown]}
    plot_images({k: grey(v, shape) for k, v in grid.items()}, shape[:2], path=options.figures / f"{name}-images.png")
    notes.append(f"![distribution of the cosine similarity]({figure}) ![ten deletions]({name}-images.png)")
    keep(one.title + (" (development)" if options.development else ""), notes, table)
    for row in table:
        print(row["method"], f"{row['median']:.4f}", row["interval"], row.get("above"), row.get("label"), flush=True)


def grey(x, shape):
    """Images as they are drawn: the mean of the colours."""
    return x if len(shape) == 2 else x.reshape(-1, *shape).mean(axis=-1).reshape(len(x), -1)


def nearest(found, features, public):
    """For each estimate the public image whose features point most the same way."""
    guess = np.stack([f.x for f in found])
    directions = features / np.linalg.norm(features, axis=1, keepdims=True)
    return public[(guess @ directions.T).argmax(axis=1)]


def _which(records, features):
    """Positions of records among the public ones."""
    wanted = np.stack(records)
    return ((features**2).sum(axis=1)[:, None] - 2 * features @ wanted.T).argmin(axis=0)


def _shown(curves):
    """At most four curves: the published method and the improved one, and both baselines."""
    wanted = [k for k in curves if k.startswith((PUBLISHED, ALL)) or k in BASELINES.values()]
    return {k.partition(":")[0]: curves[k] for k in wanted}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="+", choices=PARTS)
    for name, about in PICTURES.items():
        parser.add_argument(f"--{name}", type=Path, metavar="DIR", help=f"files of {about.title}")
    parser.add_argument("--deletions", type=int, default=200)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--all", action="store_true", help="every improvement by itself too")
    parser.add_argument("--improved", action="store_true", help="the improved method alone, beside the baselines")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--figures", type=Path, default=HERE)
    options = parser.parse_args()
    for name in (name for name in PICTURES if getattr(options, name) is not None):
        for part in options.parts:
            run(name, part, options)
    write()


if __name__ == "__main__":
    main()
