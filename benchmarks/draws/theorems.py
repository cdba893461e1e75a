"""Theorems and lemmas of the papers, each on real data: what is equal and how nearly, what holds and how often.

python -m benchmarks.draws.theorems [--part small] [WORD ...]

Rows are kept in benchmarks/theorems.json, the page is benchmarks/THEOREMS.md.
"""

import warnings
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from bayesrecon.attacks.deletion.instance import deleted_instance
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.evaluate import bootstrap, clopper_pearson, divergence
from bayesrecon.games import (
    DeletedInstance,
    DeletedLabel,
    Game,
    LeastSquares,
    Logistic,
    Neighbours,
    Reconstructed,
    ReconstructionGame,
    play,
)
from bayesrecon.games import table as named
from bayesrecon.games.data import Records
from bayesrecon.games.named_games import DATA
from bayesrecon.games.reconstructor import Guess
from bayesrecon.posteriors import from_sklearn
from bayesrecon.precision import x64
from benchmarks.draws.informed import closed_form
from benchmarks.references import reference
from benchmarks.study import Study, table
from benchmarks.tasks import run_tasks

LABELLED = "iris", "wine", "cancer"
SEED, SLICES = 50, (1, 10, 100, 1000)


# Wynne (2025)


def other_records(release: Any, truth: Any) -> tuple[Any, np.ndarray]:
    """Pseudo-data that have nothing to do with the truth but its range, and their weights."""
    rng = np.random.default_rng(SEED)
    records = {name: rng.uniform(np.min(values), np.max(values), 50) for name, values in truth.items()}
    return records, rng.uniform(1, 12, 50)


def score_gaps(release: Any, pseudo: Any, weights: np.ndarray, truth: Any) -> np.ndarray:
    """Difference of the scores of both posteriors at each draw, priors and all, `(T, d)`."""
    ones = np.ones(len(next(iter(truth.values()))))
    with x64():
        return np.stack(
            [
                np.asarray(total_score(release.model, theta, pseudo, weights))
                - np.asarray(total_score(release.model, theta, truth, ones))
                for theta in np.asarray(release.theta)
            ]
        )


def divergence_is_mmd(small: bool) -> dict[str, Any]:
    """Theorem 3.4: the Fisher divergence of two posteriors, and half the squared MMD of their data."""
    release, truth, _ = reference("kidiq-kidscore_momiq", 1000)
    pseudo, weights = other_records(release, truth)
    fisher = 0.5 * float((score_gaps(release, pseudo, weights, truth) ** 2).sum(axis=1).mean())
    with x64():
        mine, theirs = (
            np.stack([np.asarray(gradients(release.model, theta, some)) for theta in np.asarray(release.theta)])
            for some in (pseudo, truth)
        )
    embedded = np.einsum("m,tmd->td", weights, mine) - theirs.sum(axis=1)
    own, cross, other = (np.einsum("tmd,tnd->mn", a, b) for a, b in ((mine, mine), (mine, theirs), (theirs, theirs)))
    mmd = 0.5 * float(weights @ own @ weights - 2 * weights @ cross.sum(axis=1) + other.sum()) / len(embedded)
    ours = float(divergence(release, pseudo, truth, weights=weights))
    return equality({"Fisher divergence": fisher, "half the squared MMD": mmd, "product": ours})


def trained_is_gradient(small: bool) -> dict[str, Any]:
    """Theorem 4.3: at a trained parameter, the gradient of the loss under pseudo-data and the same divergence."""
    x, y = load_digits(return_X_y=True)
    x = x / 16
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release = from_sklearn(LogisticRegression(tol=1e-10, max_iter=5000).fit(x, y))
    rows = np.random.default_rng(SEED).permutation(len(y))[:100]
    weights = np.full(len(rows), len(y) / len(rows))
    pseudo, truth = {"x": x[rows], "y": y[rows]}, {"x": x, "y": y}
    with x64():
        gradient = np.asarray(total_score(release.model, np.asarray(release.theta)[0], pseudo, weights))
        rest = np.asarray(total_score(release.model, np.asarray(release.theta)[0], truth, np.ones(len(y))))
    ours = float(divergence(release, pseudo, truth, weights=weights))
    found = {"half the squared gradient": 0.5 * float(gradient @ gradient), "product": ours}
    return equality(found) | {"residual": float(np.linalg.norm(rest) / np.linalg.norm(gradient))}


def slices(small: bool) -> dict[str, Any]:
    """Lemma A.2: over normal slices the sliced divergence is the plain one on average."""
    release, truth, _ = reference("kidiq-kidscore_momiq", 1000)
    gaps, rng = score_gaps(release, *other_records(release, truth), truth), np.random.default_rng(SEED)
    plain, rows = float((gaps**2).sum(axis=1).mean()), []
    for count in SLICES:
        ratios = [
            float(np.mean([(gaps * v).sum(axis=1) ** 2 for v in rng.normal(size=(count, *gaps.shape))])) / plain
            for _ in range(20)
        ]
        centre = bootstrap(np.array(ratios), statistic=np.mean)
        rows.append({"slices": count, "ratio": [centre.estimate, centre.lower, centre.upper]})
    return {"rows": rows}


def equality(values: dict[str, float]) -> dict[str, Any]:
    (first, *others) = values.values()
    return {"values": values, "worst": max(abs(other / first - 1) for other in others)}


# Gao et al. (2022)


def of_label(guess: Guess, x: np.ndarray, y: float) -> float:
    return float("inf") if guess.y is None else abs(guess.y - y)


def of_instance(guess: Guess, x: np.ndarray, y: float) -> float:
    return float("inf") if guess.x is None else float(np.linalg.norm(guess.x - x))


def cube() -> Any:
    """Points of ten binary columns, each with a label of its own."""
    points = np.array(list(product([0.0, 1.0], repeat=10)))[::5]
    return named(points, np.arange(len(points)), classification=True, share=0.2, name="cube")


def by_label(data: str) -> tuple[Any, Any, Any, Any, int]:
    return DATA[data].make().shared(0.5), Logistic(), DeletedLabel(), of_label, 2


def by_instance() -> tuple[Any, Any, Any, Any, int]:
    return cube(), Neighbours(1), DeletedInstance("box", 1000), of_instance, 1


def reconstruction_infers(case: Any, radius: float, small: bool) -> dict[str, Any]:
    """Theorem 4.2: rates of a reconstructor, of close challenges, and of the adversary that it makes."""
    data, learner, attack, distance, column = case()
    shared: dict[str, Any] = {"n": 20 if small else 400, "seed": SEED, "workers": 1}
    outcomes = play(ReconstructionGame(data, learner, attack, auxiliary=None), **shared).outcomes[:, 0]
    near = int(((outcomes[:, 0] == 1) & (np.abs(outcomes[:, column]) <= radius)).sum())
    player = Reconstructed(attack, radius, distance)
    won = play(Game(data, learner, player, auxiliary=None), **shared).rows[0].success
    rng, close = np.random.default_rng(SEED), 0
    for _ in range(20 * shared["n"]):
        private, _ = data.draw(rng)
        (one, other), labels = private.x[:2], private.y[:2]
        close += distance(Guess(one, float(labels[0])), other, float(labels[1])) <= 2 * radius
    rho, delta = clopper_pearson(near, shared["n"]), clopper_pearson(int(close), 20 * shared["n"])
    return {
        "data": data.name, "radius": radius, "rounds": shared["n"], "rho": list(rho), "delta": list(delta),
        "success": [won.estimate, won.lower, won.upper], "name": attack.name,
    }  # fmt: skip


def losses_move(small: bool) -> dict[str, Any]:
    """Lemma 3.3, every deletion from a least-squares fit: the others' mean loss does not rise, and that of the deleted
    record rises by n - 1 times as much as theirs falls, or more."""
    x, y = load_diabetes(return_X_y=True)
    records, learner = Records(x, y), LeastSquares()
    before, held, shares = learner.fit(records, 0, 0), 0, []
    rows = range(20 if small else len(y))
    for row in rows:
        after = learner.without(before, records, np.array([row]), 0, 0)
        rise = (y - after(x)) ** 2 - (y - before(x)) ** 2
        kept = float(np.delete(rise, row).mean())
        rounding = 1e-9 * float((y**2).mean())
        held += int(kept <= rounding and rise[row] >= -(len(y) - 1) * (kept + rounding))
        shares.append(-(len(y) - 1) * kept / rise[row])
    return {"held": held, "of": len(rows), "median share": float(np.median(shares))}


def majorities(small: bool) -> dict[str, Any]:
    """Lemma 4.4, all 1,024 points of ten binary columns, the nearest record's label: coordinates that the majority over
    changed labels gets wrong, and those it decides."""
    cube = np.array(list(product([0.0, 1.0], repeat=10)))
    wrong = decided = total = 0
    for seed in range(5 if small else 100):
        x = np.random.default_rng([SEED, seed]).integers(0, 2, (20, 10)).astype(float)
        cells = np.abs(cube[:, None] - x).sum(axis=2).argmin(axis=1)
        for i in np.unique(cells):
            others = np.delete(np.arange(20), i)
            after = others[np.abs(cube[:, None] - x[others]).sum(axis=2).argmin(axis=1)]
            found = deleted_instance(cube, np.eye(20)[cells], np.eye(20)[after]).x
            assert found is not None
            sure = found != 0.5
            wrong, decided, total = (
                wrong + int((found[sure] != x[i][sure]).sum()),
                decided + int(sure.sum()),
                total + 10,
            )
    return {"wrong": wrong, "decided": decided, "coordinates": total}


# Balle et al. (2022)


def informed(small: bool) -> dict[str, Any]:
    """Every record of breast cancer in turn, all others known, from a converged logistic regression, in closed form."""
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)
    errors, labels, *_ = closed_form(x, y, "newton-cholesky", 1e-10)
    means = np.sqrt(np.mean(((x.sum(axis=0) - x) / (len(x) - 1) - x) ** 2, axis=1))
    return {
        "records": len(errors), "median": float(np.median(errors)), "largest": float(errors.max()),
        "labels": int(labels), "mean record": float(np.median(means)),
    }  # fmt: skip


TASKS: dict[str, Any] = {
    "3.4": divergence_is_mmd, "4.3": trained_is_gradient, "A.2": slices,
    **{f"4.2 | {data}": partial(reconstruction_infers, partial(by_label, data), 0.0) for data in LABELLED},
    **{f"4.2 | cube, {far:g}": partial(reconstruction_infers, by_instance, far) for far in (0.0, 1.0)},
    "3.3": losses_move, "4.4": majorities, "informed": informed,
}  # fmt: skip


INTRODUCTION = """# Theorems and lemmas on real data

Made by `python -m benchmarks.draws.theorems`. Identities are compared by routes that share no code; inequalities are
counted.

## Wynne (2025)

*Theorems*: 50 pseudo-records against the private data; theorem 3.4 by 1,000 draws of `kidiq-kidscore_momiq`, theorem
4.3 by a softmax regression of digits, whose own gradient is {residual:.0e} of the pseudo-data's. *Lemma A.2*: the
sliced divergence over the plain one, mean of 20 runs.
"""
GAMES = """
## Gao et al. (2022)

*Theorem 4.2*, {rounds} rounds each: a reconstructor that comes within the radius in `rho` of the rounds, and challenges
that are within twice the radius with probability `delta`, give an adversary whose success is at least `rho - delta`.
Labels are reconstructed from logistic regressions; instances of ten binary columns, each with a label of its own, from
nearest neighbours.
"""
COUNTS = """
*Lemma 3.3*: {held} of {of} deletions from the diabetes data, least squares, obey it; the others' losses fall by
{share:.0%} of the rise of the deleted record's (median). *Lemma 4.4*: of {total:,} coordinates the majority over
changed labels decides {decided:,}, and gets {wrong} wrong.
"""
INFORMED = """
## All records known but one

A converged logistic regression of breast cancer, {records} records in turn: median RMSE of the missing one
{median:.1e}, largest {largest:.1e}, {labels} labels right; the mean record has {mean:.2f}.
"""


def page(kept: dict[str, Any]) -> str:
    missing = [name for name in TASKS if name not in kept]
    if missing:
        return f"# Theorems and lemmas on real data\n\nNot measured yet: {', '.join(missing)}.\n"
    text = lambda values: " / ".join(f"{value:.10g}" for value in values.values())  # noqa: E731
    rows = [[f"theorem {name}", text(kept[name]["values"]), f"{kept[name]['worst']:.1e}"] for name in ("3.4", "4.3")]
    lines = [INTRODUCTION.format(residual=kept["4.3"]["residual"])]
    lines += [table(["", "by each route", "largest relative difference"], rows, 2), ""]
    sliced = [[row["slices"], *(f"{value:.3f}" for value in row["ratio"])] for row in kept["A.2"]["rows"]]
    lines += [table(["slices", "ratio", "from", "to"], sliced, 0)]
    games = [row for name, row in kept.items() if name.startswith("4.2")]
    lines += [GAMES.format(rounds=games[0]["rounds"])]
    share = lambda stated: "{:.1%} ({:.1%} to {:.1%})".format(*stated)  # noqa: E731
    head = ["data", "radius", "rho", "delta", "rho - delta", "success"]
    lines += [table(head, [
        [r["data"], f"{r['radius']:g}", share(r["rho"]), share(r["delta"]), f"{r['rho'][0] - r['delta'][0]:.1%}",
         share(r["success"])] for r in games
    ])]  # fmt: skip
    moved, cells = kept["3.3"], kept["4.4"]
    lines += [COUNTS.format(
        held=moved["held"], of=moved["of"], share=moved["median share"], total=cells["coordinates"],
        decided=cells["decided"], wrong=cells["wrong"],
    )]  # fmt: skip
    known = kept["informed"]
    lines += [
        INFORMED.format(mean=known["mean record"], **{k: known[k] for k in ("records", "median", "largest", "labels")})
    ]
    return "\n".join(lines)


STUDY = Study(__file__, page)


if __name__ == "__main__":
    run_tasks(STUDY, TASKS, __doc__)
