"""Images reconstructed from networks of several kinds: 8 by 8 digits of scikit-learn.

python -m benchmarks.networks.networks_images                       # what networks_images.json lacks
python -m benchmarks.networks.networks_images --case softmax        # one kind of network
python -m benchmarks.networks.networks_page                        # the page, from whatever is there

Each network is trained on a few random digits to a stationary point. The attack sees parameters, training objective and
that pixels lie between 0 and 1. Restarts are chosen by the residual, a penalty's strength by the residual of equations
that were left out; images are scored one to one, beside digits that were not in the training set.
"""

import time
from itertools import product

import numpy as np
from sklearn.datasets import load_digits

import bayesrecon
from bayesrecon import GradientMatching
from bayesrecon.evaluate import match, ssim
from bayesrecon.regularisers import TotalVariation
from benchmarks.networks.held_out import held_out_residual
from benchmarks.networks.networks_cases import CASES, SHAPE
from benchmarks.study import Study
from benchmarks.tasks import add_rows

STUDY = Study(__file__, empty=list)
SEEDS, NULLS = 5, 20
STRENGTHS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2)
KEPT_WEIGHT = 0.05  # of the largest multiplier, from which a record counts


def trained_on(name, seed):
    """A kind of network, private digits, those that were not used, what was trained, and the attack's key."""
    case, (x, y) = CASES[name], load_digits(return_X_y=True)
    x, order = x / 16, np.random.default_rng([seed, 0]).permutation(len(x))
    data = {"x": x[order[: case.images]], "y": case.labels(y[order[: case.images]])}
    trained = case.train(data, np.random.default_rng([seed, 2]))
    return case, data, x[order[case.images :]], trained, int(np.random.default_rng([seed, 3]).integers(2**31))


def similarity(truth, guess):
    """Structural similarity of one-to-one matched images, in the truth's order, and the guesses matched."""
    pairs = match(truth, guess)
    one, two = (t.reshape(-1, *SHAPE) for t in (truth[pairs.truth], guess[pairs.guess]))
    return ssim(one, two, value_range=1.0), pairs


def scored(found, data, others, seed):
    """What only the score sees: the truth, and other digits."""
    weights = np.asarray(found.pseudo.weights)
    images = np.asarray(found.pseudo.records["x"])
    order = np.argsort(-weights, kind="stable")
    kept = order[: max(len(data["x"]), int((weights > KEPT_WEIGHT * weights.max()).sum()))]
    values, pairs = similarity(data["x"], images[kept])
    rng = np.random.default_rng([seed, 1])
    null = [similarity(others[rng.choice(len(others), len(data["x"]), False)], images[kept])[0] for _ in range(NULLS)]
    distance = np.sqrt(np.mean((data["x"][pairs.truth] - images[kept][pairs.guess]) ** 2, axis=1))
    return {
        "ssim": values.tolist(), "null": [float(np.median(v)) for v in null], "rmse": distance.tolist(),
        "kept": len(kept), "private": np.round(data["x"][pairs.truth], 3).tolist(),
        "guess": np.round(images[kept][pairs.guess], 3).tolist(),
    }  # fmt: skip


def play(name, seed):
    if name == "penalty":
        return penalised(seed)
    case, data, others, trained, key = trained_on(name, seed)
    began = time.process_time()
    found = case.attack(trained.release, key)
    return {
        "case": name, "seed": seed, "parameters": trained.release.model.dimension, "unknowns": found.unknowns,
        "equations": found.equations, "stationary": trained.gradient, "residual": found.residual,
        "residuals": list(found.residuals), "total": found.total, "determined": int(found.determined.sum()),
        "seconds": time.process_time() - began, **scored(found, data, others, seed),
    }  # fmt: skip


def penalised(seed):
    case, data, others, trained, key = trained_on("narrow", seed)
    rows = []
    for strength in STRENGTHS:
        penalty = TotalVariation(SHAPE, strength=strength) if strength else None
        attack = GradientMatching(n=2 * case.images, restarts=1, steps=60, regulariser=penalty)
        held = held_out_residual(trained.release, attack, share=0.2, key=key)
        found = bayesrecon.reconstruct(trained.release, attack=attack, key=key)
        rows.append(
            {"strength": strength, "held": held, "residual": found.residual, "unknowns": found.unknowns}
            | {"equations": found.equations, **scored(found, data, others, seed)}
        )
    return {"case": "penalty", "seed": seed, "rows": rows}


def main():
    parser = STUDY.parser(__doc__)
    parser.add_argument("--case", choices=(*CASES, "penalty"), action="append")
    parser.add_argument("--seconds", type=float, default=10_800, help="begin nothing after this long")
    options = STUDY.given(parser)
    wanted = product(options.case or [c for c in (*CASES, "penalty") if c != "narrow"], range(SEEDS))
    add_rows(STUDY, sorted(wanted, key=lambda one: one[1]), lambda r: (r["case"], r["seed"]), play, options.seconds)


if __name__ == "__main__":
    main()
