"""Deletions from models of MNIST images (the 10,000 test images), beside the published Figure 3.

python benchmarks/mnist.py softmax ridge-rff softmax-rff --mnist DIR [--keep DIR] [--deletions 200] [--figures DIR]

DIR holds t10k-images-idx3-ubyte.zip and t10k-labels-idx1-ubyte.zip. --keep holds retrained parameters between runs.
The split and the deletions are not those that anything was chosen with: `--development` takes those. Results go to the
page benchmarks/DELETION.md and its figures.
"""

import argparse
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from experiment import ALL, BASELINES, PUBLISHED, VARIANTS, attack, prepare, rows_of, scores
from page import HERE, keep

from bayesrecon.attacks.deletion.inversion import invert_embedding
from bayesrecon.plots import plot_images, plot_similarity

PIXELS = (28, 28)
WIDTH, SCALE = 4096, 20.0
"""Of the random Fourier features; the scale and the penalties have the best accuracy on a fifth of the private half."""
PUBLISHED_ACCURACY = {"softmax": 0.916, "ridge-rff": 0.962, "softmax-rff": 0.964}
PENALTY = {"softmax": 1.0, "ridge-rff": 100.0, "softmax-rff": 10.0}


def mnist(folder):
    """Images in [-1, 1] and labels of the 10,000 test images."""

    def read(name, skip):
        with zipfile.ZipFile(Path(folder) / name) as archive:
            return np.frombuffer(archive.read(archive.namelist()[0])[skip:], np.uint8)

    x = read("t10k-images-idx3-ubyte.zip", 16).reshape(-1, 784) / 127.5 - 1
    return x, read("t10k-labels-idx1-ubyte.zip", 8).astype(int)


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

    def __init__(self, width, scale, rng):
        self.frequencies = rng.normal(size=(784, width)) / scale
        self.phase = rng.uniform(0, 2 * np.pi, width)

    def __call__(self, x):
        import jax.numpy as jnp

        return jnp.cos(x @ self.frequencies + self.phase)


def parameters(part, options):
    """The experiment, and the pixels of private and public images."""
    x, y = mnist(options.mnist)
    private, public, rows = split(len(x), options.deletions, development=options.development)
    held = None
    if options.keep is not None:
        held = options.keep / f"{part}-{'development' if options.development else 'fresh'}-{options.deletions}.npz"
    settings = {"outputs": 10, "penalty": PENALTY[part], "keep": held}
    if part == "softmax":
        return prepare("MNIST, softmax", x, y, private, public, rows, loss="softmax", **settings), x[private], x[public]
    phi = fourier()
    loss, target = ("squared", np.eye(10)[y]) if part == "ridge-rff" else ("softmax", y)
    title = f"MNIST, {part.removesuffix('-rff')} over {WIDTH} random Fourier features"
    features = np.cos(x @ phi.frequencies + phi.phase)
    one = prepare(title, features, target, private, public, rows, loss=loss, **settings)
    return one, x[private], x[public]


def fourier():
    return Fourier(WIDTH, SCALE, np.random.default_rng(2))


def run(part, options):
    one, pixels, public = parameters(part, options)
    print(one.note, flush=True)
    wanted = (ALL,) if options.improved else (PUBLISHED, ALL)
    variants = VARIANTS if options.all else {k: VARIANTS[k] for k in wanted}
    found = attack(one, variants)
    table, truth = rows_of([one], [found]), pixels[one.rows]
    notes = [
        one.note.partition(": ")[2] + f" (published, with more images: {PUBLISHED_ACCURACY[part]:.1%}). Penalty "
        f"{PENALTY[part]:g}, pixels in [-1, 1]."
    ]
    curves = scores(found, one.truth)
    best = {ALL: np.stack([f.x for f in found[ALL]])}
    name = part + ("-development" if options.development else "")
    if part != "softmax":
        notes.append(f"Random Fourier features `cos(x W + b)` of scale {SCALE:g}; cosines are those of the features.")
        plot_similarity(_shown(curves), path=options.figures / f"mnist-{name}-features.png")
        phi = fourier()
        best, inverted = {}, {}
        for key in wanted:
            begun = time.perf_counter()
            one_by = invert_embedding(phi, np.stack([f.x for f in found[key]]), public)
            each = (time.perf_counter() - begun) / len(one.rows)
            best[key] = inverted[f"{key}, inverted"] = one_by.x
            notes.append(
                f"{key}: inverting the features took {each:.2g} s a deletion; median misfit "
                f"{np.median(one_by.misfit):.3f}; the start that won was the nearest public image in "
                f"{np.mean(one_by.start == 0):.0%} of deletions."
            )
        inverted["nearest public image to the features"] = nearest(found[ALL], one.public["x"], public)
        inverted |= {t: public[_which(found[t], one.public["x"])] for t in (BASELINES["maxdiff"],)}
        inverted[BASELINES["avg"]] = np.repeat(public.mean(axis=0)[None], len(truth), axis=0)
        seen = replace(one, private={"x": pixels, "y": one.private["y"]})
        keep(one.title + (" (development)" if options.development else ""), notes, table)
        curves = scores(inverted, truth)
        table, notes = rows_of([seen], [inverted]), ["Cosines are those of pixels."]
        one = replace(one, title=one.title + ", in pixels")
    figure = f"mnist-{name}.png"
    plot_similarity(_shown(curves), path=options.figures / figure)
    shown = np.arange(min(10, len(truth)))
    grid = {"deleted": truth[shown]} | {"found": best[ALL][shown]}
    plot_images(grid, PIXELS, path=options.figures / f"mnist-{name}-images.png")
    notes.append(f"![distribution of the cosine similarity]({figure}) ![ten deletions](mnist-{name}-images.png)")
    keep(one.title + (" (development)" if options.development else ""), notes, table)
    for row in table:
        print(row["method"], f"{row['median']:.4f}", row["interval"], row.get("above"), row.get("label"), flush=True)


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
    parser.add_argument("parts", nargs="+", choices=tuple(PENALTY))
    parser.add_argument("--mnist", default=".")
    parser.add_argument("--deletions", type=int, default=200)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--all", action="store_true", help="every improvement by itself too")
    parser.add_argument("--improved", action="store_true", help="the improved method alone, beside the baselines")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--figures", type=Path, default=HERE)
    options = parser.parse_args()
    for part in options.parts:
        run(part, options)


if __name__ == "__main__":
    main()
