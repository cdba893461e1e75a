"""Images reconstructed from a trained network: 8 by 8 digits of scikit-learn.

python -m benchmarks.networks.images                                  # three networks; minutes
python -m benchmarks.networks.images --seeds 1 --plot digits.png      # reconstructed beside the nearest private image

A tanh network is trained on one random digit of each of ten classes, on its summed loss with weight decay, to a
stationary point. The attack sees its parameters, its loss, and that pixels lie between 0 and 1, not how many images
there were: it places two records of every class with free multipliers and keeps those that carry weight. Of two
restarts the smaller residual is taken; weight decay and multipliers were chosen on networks of the same kind.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import bayesrecon
from bayesrecon.evaluate import bootstrap, match, ssim
from bayesrecon.models import from_loss
from bayesrecon.plots import plot_images
from bayesrecon.posteriors import dirac, train_network

SHAPE, CLASSES, NULLS = (8, 8), 10, 20
HEADS = (
    "seed",
    "released in",
    "residual",
    "equations",
    "records kept",
    "sum of multipliers",
    "label right",
    "median SSIM",
    "null",
    "s",
)
KEPT = 0.05  # of the largest multiplier, from which a record counts


def model_of(width, decay):
    shapes = {"w": (64, width), "b": (width,), "v": (width, CLASSES), "c": (CLASSES,)}
    return from_loss(
        lambda params, x: jnp.tanh(x @ params["w"] + params["b"]) @ params["v"] + params["c"],
        lambda out, y: jax.nn.logsumexp(out) - out[y],
        lambda params: 0.5 * decay * sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(params)),
        params={k: np.zeros(s) for k, s in shapes.items()},
        record={"x": (64,), "y": ()},
        domain={"x": (0.0, 1.0), "y": list(range(CLASSES))},
        name="digits",
    )


def similarity(truth, guess):
    """Structural similarity of one-to-one matched images, in the order of the truth, and the match."""
    pairs = match(truth, guess)
    values = ssim(truth[pairs.truth].reshape(-1, *SHAPE), guess[pairs.guess].reshape(-1, *SHAPE), value_range=1.0)
    return values, pairs


def play(model, options, digits, seed):
    """Train on random digits, reconstruct, and score against them and against digits that were not used."""
    rng = np.random.default_rng(seed)
    x, y = digits
    order = rng.permutation(len(x))
    own = np.concatenate([order[y[order] == k][: options.images] for k in range(CLASSES)])
    others = np.setdiff1d(order, own)
    start = {p.name: 0.3 * rng.normal(size=p.shape) for p in model.parameters}
    trained = train_network(model, start, {"x": x[own], "y": y[own]})
    releases = {"float64": trained.release}
    single = {k: np.asarray(v, np.float32) for k, v in model.constrain(trained.release.theta[0]).items()}
    releases["float32"] = dirac(model, {k: np.asarray(v, float) for k, v in single.items()})
    rows = []
    for name, release in releases.items():
        count = 2 * options.images * CLASSES
        match = bayesrecon.GradientMatching(n=count, steps=options.steps, restarts=2)
        found = bayesrecon.reconstruct(release, attack=match, key=seed)
        weights = found.pseudo.weights
        kept = weights > KEPT * weights.max()
        guess = found.pseudo.records["x"][kept]
        values, pairs = similarity(x[own], guess)
        null = [similarity(x[rng.choice(others, len(own), False)], guess)[0] for _ in range(NULLS)]
        labels = np.mean(found.pseudo.records["y"][kept][pairs.guess] == y[own][pairs.truth])
        rows.append((name, found, int(kept.sum()), values, np.concatenate(null), labels))
        if options.plot and not seed and name == "float64":
            nearest = {"private": x[own][pairs.truth], "reconstructed": guess[pairs.guess]}
            plot_images(nearest, SHAPE, captions=[f"{v:.2f}" for v in values], path=options.plot)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1, help="of each class")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot", help="file for the figure")
    options = parser.parse_args()
    x, y = load_digits(return_X_y=True)
    model = model_of(options.width, options.decay)
    print(f"{options.images * CLASSES} digits, {model.dimension} parameters\n\n| " + " | ".join(HEADS) + " |")
    print("|" + " --- |" * len(HEADS), flush=True)
    for seed in range(options.seeds):
        for name, found, kept, values, null, labels in play(model, options, (x / 16, y), seed):
            centre = bootstrap(values)
            cells = (
                seed,
                name,
                f"{found.residual:.0e}",
                found.equations,
                kept,
                f"{found.total:.2f}",
                f"{labels:.0%}",
                f"{centre.estimate:.3f} ({centre.lower:.3f} to {centre.upper:.3f})",
                f"{np.median(null):.3f}",
                f"{found.seconds:.0f}",
            )
            print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
