"""What a network trained to a stationary point determines: how many records, and which ones.

python -m benchmarks.networks.network                 # all three tables; minutes
python -m benchmarks.networks.network --seeds 2

Three small tanh networks on the square [-1, 1]^2, trained on their summed losses with weight decay: the log intensity
of events (the loss of a record is minus its log intensity, the integral belongs to the regulariser), a classifier by
softmax, and one by a logistic loss per class. The attack sees the parameters, the losses and the square.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import bayesrecon
from bayesrecon import GradientMatching
from bayesrecon.evaluate import match
from bayesrecon.models import from_loss
from bayesrecon.posteriors import dirac, train_network
from benchmarks.study import Study
from tests.support.networks import decay_of, output, softmax

CLASSES = 3
STUDY = Study(__file__)


def start_of(kind, width, rng):
    outputs = () if kind == "events" else (CLASSES,)
    shapes = {"w": (2, width), "b": (width,), "v": (width, *outputs), "c": outputs}
    return {k: rng.normal(size=s) for k, s in shapes.items()}


@cache
def model_of(kind, width, decay):
    start = start_of(kind, width, np.random.default_rng(0))
    middle = (np.arange(30) + 0.5) / 15 - 1
    grid = np.stack(np.meshgrid(middle, middle), -1).reshape(-1, 2)

    if kind == "events":
        return from_loss(
            lambda params: params, lambda params, x: -output(params, x),
            lambda params: 4 * jnp.mean(jnp.exp(jax.vmap(lambda z: output(params, z))(grid))) + decay_of(params, decay),
            params=start, record={"x": (2,)}, response="x", domain={"x": (-1.0, 1.0)}, name=kind,
        )  # fmt: skip
    losses = {"softmax": softmax, "logistic": lambda out, y: jnp.sum(jax.nn.softplus(out)) - out[y]}
    return from_loss(
        output, losses[kind], lambda params: decay_of(params, decay), params=start, record={"x": (2,), "y": ()},
        domain={"x": (-1.0, 1.0), "y": list(range(CLASSES))}, name=kind,
    )  # fmt: skip


def records_of(kind, count, rng):
    x = np.clip(rng.normal([0.2, -0.3], 0.35, (count, 2)), -0.99, 0.99)
    if kind == "events":
        return {"x": x}
    return {"x": x, "y": (x[:, 0] > 0.2).astype(int) + (x[:, 1] > -0.3)}


def count(seeds):
    """How many records there were, from `recover`, and the sum of the multipliers of `reconstruct`."""
    rows = []
    for kind in ("events", "softmax", "logistic"):
        for size in (20, 60):
            found = [one_count(kind, size, np.random.default_rng(seed)) for seed in range(seeds)]
            verdicts = ", ".join(sorted({f[1] for f in found}))
            row = {"network": kind, "N": size, "visibility": [f[0] for f in found], "verdicts": verdicts}
            row |= {"n": [f[2] for f in found if f[2] is not None], "multipliers": [f[3] for f in found]}
            rows.append(row)
            print(row, flush=True)
    STUDY.add(count=rows)


def one_count(kind, size, rng):
    model = model_of(kind, 8, 0.1)
    trained = train_network(model, start_of(kind, 8, rng), records_of(kind, size, rng))
    row = bayesrecon.recover(trained.release)["n"]
    match = bayesrecon.GradientMatching(n=2 * size, restarts=2, steps=60)
    matched = bayesrecon.reconstruct(trained.release, attack=match)
    return row.visibility, row.verdict, row.estimate, matched.total


CASES = [("events", 12, n) for n in (6, 12, 24, 48)] + [("softmax", 12, 12), ("logistic", 12, 12)]


def single(seeds):
    """Individual records, each counted once, and what the diagnosis said beforehand: medians over seeds, and errors as
    distances to the match in the square."""
    rows = []
    for kind, width, size in CASES:
        found = [one_single(kind, width, size, np.random.default_rng(seed)) for seed in range(seeds)]
        cells = [np.median([f[i] for f in found]) for i in range(7)]
        of = {"seeds": seeds, "parameters": found[0][0], "rank": float(cells[1]), "determined": float(cells[4])}
        errors = {"errors": [float(e) for f in found for e in f[7]], "null": float(cells[6])}
        rows.append({"network": kind, "N": size} | of | errors)
        told = {"equations": cells[2], "residual": cells[3], "error of all": cells[5]}
        print(rows[-1] | told, flush=True)
    STUDY.add(single=rows)


def one_single(kind, width, size, rng):
    model, start = model_of(kind, width, 0.02), start_of(kind, width, rng)
    data = records_of(kind, size, rng)
    release = train_network(model, start, data).release
    rank = bayesrecon.diagnose(release, order=1).rank
    found = bayesrecon.reconstruct(release, attack=GradientMatching(n=size, multipliers="one", steps=400))
    pairs = match(data["x"], found.pseudo.records["x"])
    apart = np.linalg.norm(data["x"][pairs.truth] - found.pseudo.records["x"][pairs.guess], axis=1)
    null = match(data["x"], rng.uniform(-1, 1, (size, 2))).cost
    # A solution of the equations may still be another one than the private data: only a small residual counts.
    own = apart[found.determined[pairs.guess]] if found.residual < 1e-8 else []
    fixed = found.determined.sum() if found.residual < 1e-8 else 0
    middle, apart_by_chance = np.median(apart), np.median(null)
    return model.dimension, rank, found.equations, found.residual, fixed, middle, apart_by_chance, list(own)


def unfinished(seeds):
    """Training that stopped early, or a regulariser that is another one."""
    for kind in ("events", "softmax"):
        for wrong in ("nothing", "parameters off by 1 %", "decay ten times as large"):
            found = [one_unfinished(kind, wrong, np.random.default_rng(seed)) for seed in range(seeds)]
            kinds = ("noticed by recover", "by gradient matching", "certified")
            told = zip(kinds, zip(*found, strict=True), strict=True)
            print(kind, wrong, *(f"{what}: {sum(one)} of {seeds}" for what, one in told), sep=", ", flush=True)


def one_unfinished(kind, wrong, rng):
    model = model_of(kind, 8, 0.1)
    release = train_network(model, start_of(kind, 8, rng), records_of(kind, 20, rng)).release
    if wrong == "parameters off by 1 %":
        moved = {k: v * (1 + 0.01 * rng.normal(size=v.shape)) for k, v in model.constrain(release.theta[0]).items()}
        release = dirac(model, moved)
    elif wrong != "nothing":
        other = model_of(kind, 8, 1.0)
        release = dirac(other, {k: np.asarray(v) for k, v in model.constrain(release.theta[0]).items()})
    noticed = any("not stationary" in w for w in bayesrecon.recover(release).warnings)
    found = bayesrecon.reconstruct(release, attack=bayesrecon.GradientMatching(n=40, restarts=2, steps=60))
    return noticed, any("not" in w for w in found.warnings), found.residual_floor > 0


def main():
    parser = STUDY.parser(__doc__, seeds=5)
    parser.add_argument("--part", choices=("all", "count", "single", "unfinished"), default="all")
    options = STUDY.given(parser)
    for part in (count, single, unfinished):
        if options.part in ("all", part.__name__):
            part(options.seeds)


if __name__ == "__main__":
    main()
