"""Deletions from models of MNIST images (the 10,000 test images), beside the published Figure 3.

python benchmarks/mnist.py softmax ridge-rff softmax-rff --mnist DIR [--keep DIR] [--deletions 200]

DIR holds t10k-images-idx3-ubyte.zip and t10k-labels-idx1-ubyte.zip. --keep holds retrained parameters between runs.
The split and the deletions are not those that anything was chosen with: `--development` takes those.
"""

import argparse
import zipfile
from pathlib import Path

import numpy as np
from experiment import prepare

PIXELS = (28, 28)
WIDTH, SCALE = 4096, 20.0
"""Of the random Fourier features; the scale and the penalties have the best accuracy on a fifth of the private half."""
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


def experiment(part, options):
    x, y = mnist(options.mnist)
    private, public, rows = split(len(x), options.deletions, development=options.development)
    keep = None
    if options.keep is not None:
        keep = options.keep / f"{part}-{'development' if options.development else 'fresh'}-{options.deletions}.npz"
    if part == "softmax":
        return prepare("MNIST, softmax", x, y, private, public, rows, loss="softmax", outputs=10, keep=keep)
    phi = Fourier(WIDTH, SCALE, np.random.default_rng(2))
    embedded = np.cos(x @ phi.frequencies + phi.phase)
    loss, target = ("squared", np.eye(10)[y]) if part == "ridge-rff" else ("softmax", y)
    title = f"MNIST, {part.removesuffix('-rff')} over {WIDTH} RFF"
    settings = {"loss": loss, "outputs": 10, "penalty": PENALTY[part], "keep": keep}
    return prepare(title, embedded, target, private, public, rows, **settings)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="+", choices=tuple(PENALTY))
    parser.add_argument("--mnist", default=".")
    parser.add_argument("--deletions", type=int, default=200)
    parser.add_argument("--development", action="store_true")
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    for part in options.parts:
        print(experiment(part, options).note, flush=True)


if __name__ == "__main__":
    main()
