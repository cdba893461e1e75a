"""How often labels and signs of deleted records are right where HRec says with what probability. Makes SIGNS.md.

python -m benchmarks.deletion.signs     # fewer --deletions and --splits make a small version
"""

from itertools import pairwise

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

import bayesrecon
from bayesrecon import HRec
from bayesrecon.evaluate import clopper_pearson, cosine_similarity
from benchmarks.deletion.experiment import halves, prepare
from benchmarks.study import Study, table

BINS = (0.0, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99, 1.0)
INTRODUCTION = """# Whether labels and signs of deleted records are right as often as stated

Made by `python -m benchmarks.deletion.signs`. Half of the records are private, the other half public. For every
deletion `HRec(public=...)` states the probability that the inferred label is right. For least squares it is the
probability that the record lies on the right side of the mean. *Stated* is the mean probability in a bin. *Right* is
the share of correct labels, with its 95 % Clopper-Pearson interval. *Wrong* counts incorrect labels, and *silent*
counts those of them without a warning. *Warned* counts correct labels with a warning.

The probabilities tend to be too low, mostly below 0.8 and with many classes. They use only the intercepts and the
scores along the slope, and the reconstruction uses more of the gradient. Deletions from one split share the error of
its public half, so errors come in groups. The intervals assume independent deletions and are too narrow.
"""


def cases(seed):
    """Data sets, with penalties from strong to almost none."""
    cancer, y = load_breast_cancer(return_X_y=True)
    digits, digit = load_digits(return_X_y=True)
    sets = {"wine": load_wine(return_X_y=True), "iris": load_iris(return_X_y=True)}
    some, response = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(seed)
    drawn = rng.normal(0.3, 1, (300, 10))
    chosen = (drawn @ rng.normal(size=10) / 2 + rng.logistic(size=300) > 0).astype(int)
    for penalty in (1.0, 0.01, 1e-4):
        title = f"breast cancer, 8 columns, logistic, penalty {penalty:g}"
        yield title, scaled(cancer[:, :8]), y, {"loss": "logistic", "penalty": penalty}
    yield "breast cancer, 30 columns, logistic", scaled(cancer), y, {"loss": "logistic"}
    yield "breast cancer, 8 columns, squared hinge", scaled(cancer[:, :8]), y, {"loss": "squared_hinge", "below": 1.0}
    for name, (x, label) in sets.items():
        yield f"{name}, softmax", scaled(x), label, {"loss": "softmax", "outputs": 3, "penalty": 0.1}
    for penalty in (1.0, 0.01):
        title = f"digits, odd or even, logistic, penalty {penalty:g}"
        yield title, digits / 8 - 1, digit % 2, {"loss": "logistic", "penalty": penalty}
    yield "digits, softmax", digits / 8 - 1, digit, {"loss": "softmax", "outputs": 10}
    yield "diabetes, least squares", scaled(some), scaled(response), {"loss": "squared", "penalty": 1e-6}
    yield "simulated, logistic", drawn, chosen, {"loss": "logistic", "penalty": 0.5}


def scaled(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def play(title, x, y, settings, deletions, seed):
    """Of every deletion: the probability, whether it was right, and whether a warning was given."""
    one = prepare(title, x, y, *halves(len(x), deletions, seed), **settings)
    attack, found = HRec(public=one.public), []
    for pair, row, truth in zip(one.pairs, one.rows, one.truth, strict=True):
        result = bayesrecon.reconstruct(pair, attack=attack, total=float(len(one.private["x"])))
        centre = one.public["x"].mean(axis=0)
        right = (
            result.record["y"] == one.private["y"][row]
            if "y" in result.record
            else cosine_similarity(result.record["x"] - centre, truth - centre) > 0
        )
        found.append((float(result.probability), bool(right), bool(result.warnings)))
    return found


def reliability(found):
    stated, right, _ = (np.array(column) for column in zip(*found, strict=True))
    place, rows = np.clip(np.digitize(stated, BINS[1:-1]), 0, len(BINS) - 2), []
    for i, (low, high) in enumerate(pairwise(BINS)):
        own = place == i
        if own.any():
            rate, lower, upper = clopper_pearson(int(right[own].sum()), int(own.sum()))
            interval = f"{lower:.3f} to {upper:.3f}"
            rows.append((f"{low:g} to {high:g}", own.sum(), f"{stated[own].mean():.3f}", f"{rate:.3f}", interval))
    return table(("probability", "deletions", "stated", "right", "95 %"), rows)


def page(every):
    lines, rows = [INTRODUCTION, reliability([f for found in every.values() for f in found]), ""], []
    for title, found in every.items():
        sure, right, warned = (np.array(column) for column in zip(*found, strict=True))
        silent, told = int((~right & ~warned).sum()), int((right & warned).sum())
        rows.append((title, len(found), f"{sure.mean():.3f}", f"{right.mean():.3f}", int((~right).sum()), silent, told))
    return "\n".join([*lines, table(("data", "deletions", "stated", "right", "wrong", "silent", "warned"), rows), ""])


STUDY = Study(__file__, page)


def main():
    parser = STUDY.parser(__doc__, deletions=40, splits=4, seed=100)
    options = STUDY.given(parser)
    every = {}
    for seed in range(options.seed, options.seed + options.splits):
        for title, x, y, settings in cases(seed):
            every.setdefault(title, []).extend(play(title, x, y, settings, options.deletions, seed))
    STUDY.keep(every)


if __name__ == "__main__":
    main()
