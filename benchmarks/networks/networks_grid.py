"""Networks of two layers over a grid of records and widths: what comes back, beside the rank of the kernel.

python -m benchmarks.networks.networks_grid                         # what networks_grid.json lacks
python -m benchmarks.networks.networks_grid --seconds 600           # begin no cell after ten minutes
python -m benchmarks.networks.networks_grid --only 500,10           # one cell
python -m benchmarks.networks.networks_page                        # the page, from whatever is there
"""

import time
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import bayesrecon
from bayesrecon.divergence.score import gradients
from bayesrecon.evaluate import match
from bayesrecon.models import from_loss
from bayesrecon.posteriors import train_network
from bayesrecon.precision import x64
from benchmarks.study import Study
from benchmarks.tasks import add_rows

STUDY = Study(__file__, empty=list)
SIZES, SEEDS = {"start": (6, 16, 50, 500), "zero": (6, 16, 50)}, 5
WIDTHS = {"start": (10, 32, 100, 1000), "zero": (10, 100)}
STRENGTH = 0.1
GENERIC, LEVELS = 600, (1e-3, 1e-6, 1e-9)  # records for the kernel's spectrum, and where its rank is read
STEPS, RESTARTS = 200, 30
BUDGET = 8.0  # CPU seconds of one cell's descents, from which steps and restarts are set beforehand
SPEED = 3e9  # products a second that the budget supposes


def output(params, x):
    return jnp.tanh(x @ params["w"] + params["b"]) @ params["v"]


def logistic(out, y):
    return jax.nn.softplus(out) - y * out


@cache
def model_of(width, pull):
    """The model, and where training starts: the same for all seeds, so that they share compiled code."""
    rng, scales = np.random.default_rng([width]), {"w": 2.0, "b": 1.0, "v": width**-0.5}  # kinks all over the square
    shapes = {"w": (2, width), "b": (width,), "v": (width,)}
    start = {k: scales[k] * rng.normal(size=s) for k, s in shapes.items()}
    centre = start if pull == "start" else {k: np.zeros_like(v) for k, v in start.items()}
    model = from_loss(
        output, logistic, lambda p: 0.5 * STRENGTH * sum(jnp.sum((p[k] - centre[k]) ** 2) for k in p), params=start,
        record={"x": (2,), "y": ()}, domain={"x": (-1.0, 1.0), "y": [0, 1]}, name="two layers",
    )  # fmt: skip
    return model, start


def budget(size, width):
    """Steps and restarts: fewer where one step is dear, so that a cell takes about as long as another."""
    one = 4 * width * (2 * size) * min(2 * size, 4 * width) / SPEED + 0.004
    most = max(2, int(BUDGET / one))
    restarts = int(np.clip(most // STEPS, 1, RESTARTS))
    return min(STEPS, most // restarts), restarts


def spectrum_of(model, theta, rng):
    """Square roots of the kernel's eigenvalues on generic records, the largest scaled to one."""
    with x64():
        pool = {"x": rng.uniform(-1, 1, (GENERIC, 2)), "y": np.arange(GENERIC) % 2}
        each = np.asarray(gradients(model, theta, pool))
    singular = np.linalg.svd(each, compute_uv=False)
    return singular / singular[0]


def cell(size, width, pull, seed):
    # One stream a purpose: an attack seeded as the data were would start at the data.
    private, generic, fresh, attack = (np.random.default_rng([seed, size, width, i]) for i in range(4))
    data = {"x": private.uniform(-1, 1, (size, 2)), "y": np.arange(size) % 2}
    model, start = model_of(width, pull)
    trained = train_network(model, start, data, steps=3000)
    spectrum = spectrum_of(model, np.asarray(trained.release.theta)[0], generic)
    steps, restarts = budget(size, width)
    began = time.process_time()
    matching = bayesrecon.GradientMatching(n=size, multipliers="one", steps=steps, restarts=restarts)
    found = bayesrecon.reconstruct(trained.release, attack=matching, key=int(attack.integers(2**31)))
    guess = found.pseudo.records["x"]
    pairs = match(data["x"], guess)
    own, off = pairs.cost, data["x"][pairs.truth] - guess[pairs.guess]
    apart = np.linalg.norm(off, axis=1)[np.argsort(pairs.guess)]
    null = np.concatenate([match(fresh.uniform(-1, 1, (size, 2)), guess).cost for _ in range(10)])
    return {
        "pull": pull, "n": size, "width": width, "seed": seed, "parameters": model.dimension,
        "stationary": trained.gradient, "ranks": [int((spectrum > level).sum()) for level in LEVELS],
        "spectrum": [float(f"{s:.3g}") for s in spectrum[:: max(1, len(spectrum) // 60)]], "unknowns": found.unknowns,
        "equations": found.equations, "residual": found.residual, "least": found.residual_floor,
        "starts": len(found.residuals), "restarts": restarts, "steps": steps,
        "solved": int(sum(r < 1e-9 for r in found.residuals)), "determined": int(found.determined.sum()),
        "wrongly": int((apart[found.determined] > 1e-3).sum()), "error": float(np.median(own)),
        "null": float(np.median(null)), "close": float(np.mean(own < 1e-3)),
        "null_close": float(np.mean(null < 1e-3)), "seconds": time.process_time() - began,
    }  # fmt: skip


def cells():
    """The dear ones last; all seeds of a cell in turn, since they share compiled code."""
    every = [(n, w, pull, seed) for pull in SIZES for n in SIZES[pull] for w in WIDTHS[pull] for seed in range(SEEDS)]
    return sorted(every, key=lambda one: (one[0] > 100 or one[1] > 500, one[0] * one[0] * one[1]))


def main():
    parser = STUDY.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=10_800, help="begin no cell after this long")
    parser.add_argument("--only", action="append", metavar="N,WIDTH", help="cells to run, all seeds; repeatable")
    options = STUDY.given(parser)
    wanted = [one for one in cells() if not options.only or f"{one[0]},{one[1]}" in options.only]
    add_rows(STUDY, wanted, lambda r: (r["n"], r["width"], r["pull"], r["seed"]), cell, options.seconds)


if __name__ == "__main__":
    main()
