"""Which record was deleted, from two sets of posterior draws: the page benchmarks/BAYESIAN_DELETION.md.

python -m benchmarks.deletion.bayesian_deletion                              # every row, an hour on one core
python -m benchmarks.deletion.bayesian_deletion --settings 50,4000,4 --games 20     # one row, at another size
"""

import numpy as np
from joblib import Parallel, delayed

import bayesrecon
from bayesrecon.evaluate import bootstrap, clopper_pearson, cosine_similarity
from bayesrecon.posteriors import from_draws
from benchmarks.study import Study, table
from tests.support import conjugate

SETTINGS = "50,4000,4;25,4000,4;100,4000,4;50,1000,4;50,10000,4;50,4000,2;50,4000,8"

INTRODUCTION = """# Which record was deleted, from posterior draws alone

Made by `python -m benchmarks.deletion.bayesian_deletion`. A linear regression with an intercept and
independent standard normal covariates is fitted to N records. One record is deleted at random, and the model is fitted
again. Both posteriors are conjugate. T independent exact draws are taken from each.

* *Ratio* is the share of games in which `infer_deletion(pair, members)` ranks the deleted record first among all N
  members, with its exact (Clopper-Pearson) 95 % interval.
* *Stated* is the mean probability that the attack gives to its first choice, if one of the members was deleted.
* *Record* is the median absolute cosine between (1, x) of the deleted record and of `reconstruct(pair)`, which needs no
  members, with a bootstrap interval.
* *Other* is the same cosine with another member, as a chance level.
* *In its interval* is the share of covariates and responses inside the 95 % intervals of `reconstruct(pair)`.
"""
HEADS = {
    "count": "N", "draws": "T", "width": "coefficients", "games": "games", "ratio": "ratio", "stated": "stated",
    "chance": "chance", "record": "record", "other": "other",
    "covered": "in its interval",
}  # fmt: skip


def play(count, draws, width, known, seed, rebuild=True):
    """One game; everything the attack is given comes from the draws and the members."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, width - 1))
    y = rng.normal(size=width) @ np.column_stack([np.ones(count), x]).T + rng.normal(size=count)
    k, other = rng.permutation(count)[:2]
    model = conjugate.regression_model(width - 1, known)
    without = np.delete(x, k, 0), np.delete(y, k)
    before = from_draws(conjugate.sample_regression(x, y, draws, rng, known=known), model)
    after = from_draws(conjugate.sample_regression(*without, draws, rng, known=known), model)
    pair, members = bayesrecon.deletion(before, after), {"x": x, "y": y}
    ratio = bayesrecon.infer_deletion(pair, members, premise=1)
    truth = np.r_[1, x[k]]
    game = {"ratio": bool(ratio.ranking[0] == k), "stated": float(ratio.probability.max())}
    game |= {"other": abs(float(cosine_similarity(np.r_[1, x[other]], truth)))}
    if not rebuild:
        return game
    found = bayesrecon.reconstruct(pair)
    errors = np.r_[found.record["x"] - x[k], found.record["y"] - y[k]]
    covered = float(np.mean(np.abs(errors) < 1.96 * np.r_[found.se["x"], found.se["y"]]))
    return game | {"record": abs(float(cosine_similarity(np.r_[1, found.record["x"]], truth))), "covered": covered}


def summarise(games):
    row = {"ratio": list(clopper_pearson(sum(g["ratio"] for g in games), len(games)))}
    cosines = [name for name in ("record", "other") if name in games[0]]
    row |= {name: list(bootstrap([g[name] for g in games])) for name in cosines}
    return row | {name: float(np.mean([g[name] for g in games])) for name in ("stated", "covered") if name in games[0]}


def page(rows):
    lines = [INTRODUCTION]
    for known in (False, True):
        chosen = [r for r in rows if r["known"] == known]
        if chosen:
            lines += [f"## Noise variance {'known' if known else 'unknown'}", ""]
            cells = [[cell(r, name) for name in HEADS] for r in chosen]
            lines += [table(list(HEADS.values()), cells, words=len(HEADS)), ""]
    return "\n".join(lines)


def cell(row, name):
    if name == "chance":
        return f"{1 / row['count']:.1%}"
    value = row.get(name, "")
    if not isinstance(value, list):
        return f"{value:.1%}" if isinstance(value, float) else f"{value:,}" if value else ""
    digits = ".1%" if name == "ratio" else ".3f"
    return f"{value[0]:{digits}} ({value[1]:{digits}} to {value[2]:{digits}})"


STUDY = Study(__file__, page, empty=list)


def main():
    parser = STUDY.parser(__doc__, games=200, jobs=1)
    parser.add_argument("--settings", default=SETTINGS, help="N,draws,coefficients; ...")
    parser.add_argument("--noise", choices=("known", "unknown", "both"), default="both")
    parser.add_argument("--members", action="store_true", help="rank the members only: ten times as fast")
    options = STUDY.given(parser)
    rows = STUDY.kept()
    kinds = {"known": (True,), "unknown": (False,), "both": (False, True)}[options.noise]
    cases = [tuple(int(v) for v in s.split(",")) for s in options.settings.split(";")]
    with Parallel(n_jobs=options.jobs) as parallel:
        for known in kinds:
            for case in cases:
                seeds, rebuild = range(options.games), not options.members
                games = parallel(delayed(play)(*case, known, seed, rebuild) for seed in seeds)
                about = dict(zip(("count", "draws", "width"), case, strict=True)) | {"known": known}
                row = about | {"games": options.games} | summarise(games)
                at = [i for i, r in enumerate(rows) if about.items() <= r.items()] or [len(rows)]
                rows[at[0] : at[0] + 1] = [row]
                print(*(f"{HEADS[name]} {cell(row, name)}" for name in HEADS), sep=", ", flush=True)
                STUDY.keep(rows)


if __name__ == "__main__":
    main()
