"""What happened between two sets of draws: stated probabilities of hypotheses against what was true. Makes PREMISES.md.

python -m benchmarks.deletion.premises     # fewer --games make a small version
"""

from itertools import pairwise

import numpy as np

import bayesrecon
from bayesrecon.posteriors import from_draws
from benchmarks.study import Study, table
from tests.support import conjugate

COUNT, CANDIDATES, DRAWS = 60, 12, 1000
KINDS = {
    "premise": "one candidate deleted", "absent": "a record deleted that is no candidate",
    "two": "two candidates deleted", "replaced": "a candidate replaced by another record",
    "added": "another record added", "exchanged": "before and after exchanged", "none": "nothing deleted",
}  # fmt: skip
BINS = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
MODEL = conjugate.regression_model(2)
INTRODUCTION = f"""# Whether a record was deleted at all, from posterior draws

Made by `python -m benchmarks.deletion.premises`. A linear regression with an intercept and two standard normal
covariates is fitted to {COUNT} records, before and after something happened to them. {DRAWS:,} independent exact draws
are taken from each posterior. `infer_deletion` is given {CANDIDATES} candidates. Where a candidate was deleted, it is
one of them, and the others stay.

The first table has one row for what happened. The next columns are mean stated probabilities, if all seven hypotheses
have the same prior probability: of what happened, of the premise that one candidate was deleted, and that the likeliest
candidate was deleted (*stated*), beside how often it was (*right*). *n* is the mean recovered change of n, and *in its
interval* how often its 95 % interval has the true one. In the last columns the prior probability of the premise is 0.5,
as by default.
"""


def play(kind, seed):
    rng = np.random.default_rng(seed)
    x, weights = rng.normal(size=(COUNT + 1, 2)), rng.normal(size=3)
    y = np.column_stack([np.ones(COUNT + 1), x]) @ weights + rng.normal(size=COUNT + 1)
    order = rng.permutation(COUNT)
    some, rest, extra = order[:CANDIDATES], order[CANDIDATES:], np.array([COUNT])
    everybody = np.arange(COUNT)
    gone = {"premise": some[:1], "replaced": some[:1], "two": some[:2], "absent": rest[:1], "exchanged": some[:1]}
    after = np.setdiff1d(everybody, gone.get(kind, []))
    if kind in ("replaced", "added"):
        after = np.concatenate([after, extra])
    rows = (after, everybody) if kind == "exchanged" else (everybody, after)
    pair = [from_draws(conjugate.sample_regression(x[r], y[r], DRAWS, rng), MODEL) for r in rows]
    asked = {"x": x[some], "y": y[some]}
    found = bayesrecon.infer_deletion(bayesrecon.deletion(*pair), asked, premise=1 / len(KINDS))
    deleted = np.isin(some, gone.get(kind, [])) & (kind not in ("absent", "exchanged"))
    top = int(found.probability.argmax())
    (row,) = found.deleted
    game = {"kind": kind, "hypotheses": found.hypotheses, "bayes_factors": found.bayes_factors}
    game |= {"stated": float(found.probability[top]), "right": bool(deleted[top])}
    # With the default weights the deleted candidates' shares within a hypothesis do not change.
    return game | {"n": row.estimate, "inside": bool(row.lower <= len(rows[0]) - len(rows[1]) <= row.upper)}


def default(game):
    """Posterior probabilities with the default prior."""
    names = list(game["bayes_factors"])
    prior = np.array([0.5 if name == "premise" else 0.5 / (len(names) - 1) for name in names])
    logs = np.array(list(game["bayes_factors"].values())) + np.log(prior)
    weight = np.exp(logs - logs.max())
    return dict(zip(names, weight / weight.sum(), strict=True))


def page(games):
    rows = []
    for kind, title in KINDS.items():
        own = [g for g in games if g["kind"] == kind]
        if own:
            mean = [np.mean([g["hypotheses"][name] for g in own]) for name in (kind, "premise")]
            mean += [np.mean([g[name] for g in own]) for name in ("stated", "right")]
            usual = [np.mean([default(g)[name] for g in own]) for name in (kind, "premise")]
            n = f"{np.mean([g['n'] for g in own]):.2f}", f"{np.mean([g['inside'] for g in own]):.3f}"
            rows.append([title, len(own), *(f"{v:.3f}" for v in mean), *n, *(f"{v:.3f}" for v in usual)])
    heads = ("what happened", "games", "its probability", "the premise's", "stated", "right", "n", "in its interval")
    lines = [INTRODUCTION, table([*heads, "its probability, default", "the premise's"], rows), ""]
    lines += ["All games together, with equal prior probabilities:", ""]
    stated = np.array([[g["hypotheses"][name] for name in KINDS] for g in games])
    true = np.array([[g["kind"] == name for name in KINDS] for g in games])
    tops = np.array([g["stated"] for g in games]), np.array([g["right"] for g in games])
    parts = {
        "any hypothesis": (stated.ravel(), true.ravel()),
        "the premise": (stated[:, 0], true[:, 0]),
        "the likeliest hypothesis": (stated.max(axis=1), true[np.arange(len(games)), stated.argmax(axis=1)]),
        "the likeliest candidate": tops,
    }
    rows = []
    for title, (p, right) in parts.items():
        for low, high in pairwise(BINS):
            inside = (p >= low) & ((p < high) | (high == 1))
            if inside.any():
                numbers = [f"{p[inside].mean():.3f}", f"{right[inside].mean():.3f}"]
                rows.append([title, f"{low:g} to {high:g}", int(inside.sum()), *numbers])
    return "\n".join([*lines, table(("", "stated", "number", "mean stated", "true"), rows), ""])


STUDY = Study(__file__, page, empty=list)


def main():
    parser = STUDY.parser(__doc__, games=200, every=10)
    options = STUDY.given(parser)
    games = STUDY.kept()
    for first in range(0, options.games, options.every):
        for kind in KINDS:
            done = sum(g["kind"] == kind for g in games)
            for seed in range(done, min(first + options.every, options.games)):
                games.append(play(kind, 10_000 * list(KINDS).index(kind) + seed))
        STUDY.keep(games)


if __name__ == "__main__":
    main()
