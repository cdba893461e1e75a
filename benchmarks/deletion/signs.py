"""How often labels and signs of deleted records are right where HRec says with what probability. Makes SIGNS.md.

python -m benchmarks.deletion.signs     # fewer --deletions and --splits make a small version
"""

from itertools import pairwise

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression

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

The most probable label is the one that is reported, so no probability of one label in two is below 0.5. Deletions of
which nothing can be said are left out. Deletions from one split share the error of its public half, so errors come in
groups. The intervals assume independent deletions and are too narrow.

In the last table nothing was deleted: the same records are fitted again in another order, by another solver, or by
another solver with another tolerance. *Named* counts pairs of which a record was reported without a doubt, *doubted*
those with a doubt, and *refused* those of which nothing can be said. The last row has true deletions at the default
tolerance of scikit-learn.
"""


def cases():
    """Four data sets."""
    cancer, y = load_breast_cancer(return_X_y=True)
    digits, digit = load_digits(return_X_y=True)
    wine, cultivar = load_wine(return_X_y=True)
    some, response = load_diabetes(return_X_y=True)
    yield "breast cancer, logistic", scaled(cancer), y, {"loss": "logistic"}
    yield "wine, softmax", scaled(wine), cultivar, {"loss": "softmax", "outputs": 3, "penalty": 0.1}
    yield "digits, odd or even, logistic", digits / 8 - 1, digit % 2, {"loss": "logistic", "penalty": 0.01}
    yield "diabetes, least squares", scaled(some), scaled(response), {"loss": "squared", "penalty": 1e-6}


def scaled(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def play(title, x, y, settings, deletions, seed):
    """Of every deletion: the probability, whether it was right, and whether a warning was given."""
    one = prepare(title, x, y, *halves(len(x), deletions, seed), **settings)
    attack, found = HRec(public=one.public), []
    for pair, row, truth in zip(one.pairs, one.rows, one.truth, strict=True):
        result = bayesrecon.reconstruct(pair, attack=attack, total=float(len(one.private["x"])))
        if not result.record:  # within what training leaves
            continue
        centre = one.public["x"].mean(axis=0)
        right = (
            result.record["y"] == one.private["y"][row]
            if "y" in result.record
            else cosine_similarity(result.record["x"] - centre, truth - centre) > 0
        )
        found.append((float(result.probability), bool(right), bool(result.warnings)))
    return found


def unchanged(seed):
    """What is said of pairs around no deletion, and of deletions at a loose tolerance: named, doubted or refused."""
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    x, y, n = scaled(x)[order], y[order], 300
    again = np.random.default_rng(99 + seed).permutation(n)
    attack = HRec(public={"x": x[n:], "y": y[n:]})
    exact = {"solver": "newton-cholesky", "tol": 1e-12}
    fits = {
        "another order, converged": (exact, exact, again),
        "another order, default tolerance": ({}, {}, again),
        "another solver, converged": (exact, {"solver": "newton-cg", "tol": 1e-10}, again),
        "another solver and tolerance": (exact, {}, again),
        "a deletion, default tolerance": ({}, {}, np.arange(1, n)),
    }
    for title, (first, second, rows) in fits.items():
        pair = [
            bayesrecon.posteriors.from_sklearn(LogisticRegression(max_iter=5000, **options).fit(x[at], y[at]))
            for options, at in ((first, np.arange(n)), (second, rows))
        ]
        try:
            result = bayesrecon.reconstruct(bayesrecon.deletion(*pair), attack=attack, total=n)
        except bayesrecon.BayesreconError:
            yield title, "refused"
        else:
            yield title, ("doubted" if result.doubts else "named") if result.record else "refused"


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


def page(held):
    every, said = held["deletions"], held["unchanged"]
    lines, rows = [INTRODUCTION, reliability([f for found in every.values() for f in found]), ""], []
    for title, found in every.items():
        sure, right, warned = (np.array(column) for column in zip(*found, strict=True))
        silent, told = int((~right & ~warned).sum()), int((right & warned).sum())
        rows.append((title, len(found), f"{sure.mean():.3f}", f"{right.mean():.3f}", int((~right).sum()), silent, told))
    lines += [table(("data", "deletions", "stated", "right", "wrong", "silent", "warned"), rows), ""]
    kinds = ("named", "doubted", "refused")
    rows = [(title, len(found), *(found.count(kind) for kind in kinds)) for title, found in said.items()]
    return "\n".join([*lines, table(("fitted again", "pairs", *kinds), rows), ""])


STUDY = Study(__file__, page)


def main():
    parser = STUDY.parser(__doc__, deletions=20, splits=5, seed=100)
    options = STUDY.given(parser)
    every, said = {}, {}
    for seed in range(options.seed, options.seed + options.splits):
        for title, x, y, settings in cases():
            every.setdefault(title, []).extend(play(title, x, y, settings, options.deletions, seed))
        for again in range(3):
            for title, what in unchanged(3 * seed + again):
                said.setdefault(title, []).append(what)
    STUDY.keep({"deletions": every, "unchanged": said})


if __name__ == "__main__":
    main()
