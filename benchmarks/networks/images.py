"""Images reconstructed from a trained network: 8 by 8 digits of scikit-learn.

python -m benchmarks.networks.images                                  # three networks; minutes
python -m benchmarks.networks.images --seeds 1 --plot digits.png      # reconstructed beside the nearest private image

A tanh network is trained on one random digit of each of ten classes, on its summed loss with weight decay, to a
stationary point. The attack sees its parameters, its loss, and that pixels lie between 0 and 1, not how many images
there were: it places two records of every class with free multipliers and keeps those that carry weight. Of two
restarts the smaller residual is taken; weight decay and multipliers were chosen on networks of the same kind.
"""

import argparse

import numpy as np

import bayesrecon
from bayesrecon.evaluate import bootstrap
from bayesrecon.plots import plot_images
from bayesrecon.posteriors import dirac, train_network
from benchmarks.networks.networks_cases import CLASSES, SHAPE, classifier, start_of
from benchmarks.networks.networks_images import KEPT_WEIGHT, NULLS, digits, similarity


def play(model, options, seed):
    """Train on random digits, reconstruct, and score against them and against digits that were not used."""
    rng = np.random.default_rng(seed)
    x, y = digits()
    order = rng.permutation(len(x))
    own = np.concatenate([order[y[order] == k][: options.images] for k in range(CLASSES)])
    others = np.setdiff1d(order, own)
    start = start_of({p.name: p.shape for p in model.parameters}, rng)
    trained = train_network(model, start, {"x": x[own], "y": y[own]})
    single = {k: np.asarray(v, np.float32) for k, v in model.constrain(trained.release.theta[0]).items()}
    rounded = dirac(model, {k: np.asarray(v, float) for k, v in single.items()})
    for name, release in {"float64": trained.release, "float32": rounded}.items():
        match = bayesrecon.GradientMatching(n=2 * options.images * CLASSES, steps=options.steps, restarts=2)
        found = bayesrecon.reconstruct(release, attack=match, key=seed)
        weights = found.pseudo.weights
        kept = weights > KEPT_WEIGHT * weights.max()
        guess = found.pseudo.records["x"][kept]
        values, pairs = similarity(x[own], guess)
        null = [similarity(x[rng.choice(others, len(own), False)], guess)[0] for _ in range(NULLS)]
        labels = np.mean(found.pseudo.records["y"][kept][pairs.guess] == y[own][pairs.truth])
        centre = bootstrap(values)
        yield {
            "seed": seed,
            "released in": name,
            "residual": f"{found.residual:.0e}",
            "equations": found.equations,
            "records kept": int(kept.sum()),
            "sum of multipliers": f"{found.total:.2f}",
            "label right": f"{labels:.0%}",
            "median SSIM": f"{centre.estimate:.3f} ({centre.lower:.3f} to {centre.upper:.3f})",
            "null": f"{np.median(null):.3f}",
            "s": f"{found.seconds:.0f}",
        }
        if options.plot and not seed and name == "float64":
            nearest = {"private": x[own][pairs.truth], "reconstructed": guess[pairs.guess]}
            plot_images(nearest, SHAPE, captions=[f"{v:.2f}" for v in values], path=options.plot)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", type=int, default=1, help="of each class")
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--decay", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--plot", help="file for the figure")
    options = parser.parse_args()
    for seed in range(options.seeds):
        for row in play(classifier(options.width, options.decay), options, seed):
            print(", ".join(f"{name} {value}" for name, value in row.items()), flush=True)


if __name__ == "__main__":
    main()
