"""Variants of the deletion game that the papers name and that have no table of their own.

python -m benchmarks.games.variants [--part small] [WORD ...]

Rows are kept in benchmarks/variants.json as soon as they are played; with words only rows whose name holds one of them
are played, anew. `--part small` plays few rounds of each, shows them, and keeps nothing. The page is
benchmarks/VARIANTS.md.
"""

from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from bayesrecon.evaluate import bootstrap, clopper_pearson
from bayesrecon.games import (
    Game,
    LeastSquares,
    LiRA,
    Logistic,
    LossChange,
    LossThreshold,
    Neighbours,
    OutputChange,
    OutputPerturbation,
    PosteriorDraw,
    Reduction,
    ScikitLearner,
    ShadowModels,
    load,
    play,
)
from bayesrecon.games.adversaries import LabelOnly
from bayesrecon.games.adversary import Oracles, View
from bayesrecon.games.approximate import NewtonStep
from bayesrecon.games.compliance import Clearing, Comparing, ComplianceGame, Watching
from bayesrecon.games.data import Records
from bayesrecon.games.inference import MembershipGame
from bayesrecon.games.learners import Labels, forest
from bayesrecon.games.memorisation import memorisation
from bayesrecon.games.named_games import DATA
from benchmarks.games.variants_page import page
from benchmarks.study import Study
from benchmarks.tasks import run_tasks

SEED, TREE = 40, "decision tree"
NUMBERS, CLASSES = ("diabetes-linear", "diabetes-lasso"), ("iris-logistic", "wine-logistic", "cancer-logistic")
SIZES = (100, 200, 400, 800)
DELETED, BATCHES = 20, 60


def table(name: str) -> Any:
    return DATA[name].make()


def tree() -> ScikitLearner:
    return ScikitLearner(TREE, DecisionTreeClassifier(), "probabilities")


def network() -> ScikitLearner:
    return ScikitLearner("network with 32 hidden units", MLPClassifier((32,)), "probabilities")


LEARNERS: dict[str, Any] = {
    "logistic": Logistic,
    TREE: tree,
    "5 neighbours": lambda: Neighbours(5),
    "forest of 10": lambda: forest(3),
}


def rows_of(game: Any, rounds: int, small: bool) -> list[dict[str, Any]]:
    n = 4 if small else rounds
    return [
        {
            "name": r.adversary,
            "stated": [r.success.estimate, r.success.lower, r.success.upper],
            "ties": r.ties,
            "rounds": n,
        }
        for r in play(game, n, seed=SEED, workers=1).rows
    ]


def batch(size: int, small: bool) -> Any:
    data = table("digits").shared(size / len(table("digits").y))
    players = (
        LossChange(),
        OutputChange(),
        Reduction(LossThreshold(), "labels"),
        Reduction(ShadowModels(2), "confidences"),
    )
    return rows_of(Game(data, network(), players, deletions=DELETED, auxiliary=size), BATCHES, small)


def membership(size: int, small: bool) -> Any:
    data = table("digits").shared(size / len(table("digits").y))
    return rows_of(MembershipGame(data, network(), (ShadowModels(4), LossThreshold()), auxiliary=size), 40, small)


def lira(name: str, splits: int, small: bool) -> Any:
    """LiRA, online, as published: of each table 40 % are trained on, 40 % are auxiliary, 20 % are held out. Half of
    the members and all that are held out are scored by the same 64 shadow models, each of which has half of them."""
    game, members, held, areas = load(name, share=0.4), [], [], []
    for split in range(2 if small else splits):
        rng = np.random.default_rng([SEED, split])
        private, outside = game.data.draw(rng)
        k = len(private.y) // 2
        model = game.learner.fit(private, game.data.classes, split)
        inside, public = private.rows(rng.choice(len(private.y), k, replace=False)), outside.rows(slice(k, None))
        x, y = (np.concatenate([getattr(inside, f), getattr(outside, f)[:k]]) for f in "xy")
        view = View(
            Oracles(model, model), x, y, game.data.classes, game.learner.answers, public, None, None, game.learner,
            len(private.y), rng,
        )  # fmt: skip
        scores = 1 - LiRA(4 if small else 64).prepare(view)(model(x))
        members, held = np.append(members, scores[:k]), np.append(held, scores[k:])
        areas.append(roc_auc_score(np.arange(2 * k) < k, scores))
    area = bootstrap(np.array(areas), np.mean)
    found = {"splits": len(areas), "records": len(held), "area": [area.estimate, area.lower, area.upper]}
    for rate in (0.1, 0.01):
        hits = members > np.quantile(held, 1 - rate, method="higher")
        found[f"at {rate:g}"] = list(clopper_pearson(int(hits.sum()), len(hits)))
    return found


def memory(data: str, learner: str, small: bool) -> Any:
    found: Any = table(data)
    records, trainings = Records(found.x, found.y), 1 if small or learner in ("logistic", "5 neighbours") else 20
    rows = np.random.default_rng(SEED).permutation(len(found.y))[: 5 if small else 100]
    scores = memorisation(LEARNERS[learner](), records, found.classes, rows=rows, trainings=trainings).scores
    above = clopper_pearson(int((scores > 0.5).sum()), len(scores))
    return {"mean": float(scores.mean()), "largest": float(scores.max()), "above": list(above), "records": len(rows)}


def labels(data: str, small: bool) -> Any:
    half, learner = table(data).shared(0.5), Logistic()
    whole = rows_of(Game(half, learner, LossChange(), auxiliary=None), 300, small)
    return whole + rows_of(
        Game(half, Labels(learner), (LossChange("zero-one"), LabelOnly()), auxiliary=None), 300, small
    )


def alone(name: str, small: bool) -> Any:
    """Labels alone of two challenges with different labels, from all answers and from the most likely class."""
    flags: dict[str, Any] = {"given": "labels", "distinct": True, "share": 0.5}
    found = []
    for hidden in (False, True) if "logistic" in name else (False,):
        words = "most likely class" if hidden else "all answers"
        rows = rows_of(load(name, labels_only=hidden, **flags), 300, small)
        found += [{**row, "name": f"{row['name']}, {words}"} for row in rows]
    return found


def added(name: str, small: bool) -> Any:
    return rows_of(load(name, added=True), 300, small)


def approximate(data: str, noise: float, small: bool) -> Any:
    found = []
    for notion in ("weak", "strong"):
        game = ComplianceGame(
            table(data), Logistic(), (Comparing(), Comparing(3)), NewtonStep(noise), notion=notion, deletions=3
        )
        found += [{**row, "name": f"{notion}: {row['name']}"} for row in rows_of(game, 100, small)]
    return found


def among(data: str, small: bool) -> Any:
    learner, loss = (LeastSquares(), "absolute") if data == "diabetes" else (Logistic(), "log")
    players = tuple(Watching(loss, k) for k in (0, 1, 5, 20))
    return rows_of(ComplianceGame(table(data), learner, players, deletions=20), 200, small)


def adaptive(data: str, learner: str, small: bool) -> Any:
    players = (Watching("log"), Clearing(20, 5, "log"), Clearing(60, 12, "log"))
    return rows_of(ComplianceGame(table(data), LEARNERS[learner](), players, deletions=60), 200, small)


def strong(learner: str, small: bool) -> Any:
    made = OutputPerturbation(epsilon=1.0) if learner == "private-output" else LEARNERS[learner]()
    return rows_of(ComplianceGame(table("cancer"), made, (Watching(), Comparing()), notion="strong"), 100, small)


def informed(mechanism: str, epsilon: float, small: bool) -> Any:
    """All records known but one, which is one of ten that are equally likely: the most likely given what was released,
    by its exact density."""
    data, rounds, known = table("cancer"), 20 if small else 400, 200
    learner: Any = {
        "output perturbation": OutputPerturbation(epsilon),
        "posterior draw": PosteriorDraw(epsilon, dimensions=2, points=21),
    }[mechanism]
    right = 0
    for i in range(rounds):
        rng = np.random.default_rng([SEED, i])
        order = rng.permutation(len(data.y))[: known + 10]
        others, candidates = order[:known], order[known:]
        sets = [Records(data.x[np.append(others, c)], data.y[np.append(others, c)]) for c in candidates]
        true = int(rng.integers(10))
        released = learner.fit(sets[true], 2, int(rng.integers(2**31)))
        density = np.array([learner.log_density(released, one) for one in sets])
        right += int(rng.choice(np.flatnonzero(density == density.max()))) == true
    return {"stated": list(clopper_pearson(right, rounds)), "rounds": rounds, "epsilon": epsilon}


TASKS: dict[str, Any] = {}
TASKS |= {f"label-only | {data}": partial(labels, data) for data in ("iris", "wine", "cancer")}
TASKS |= {f"labels | {name}": partial(alone, name) for name in (*NUMBERS, *CLASSES)}
TASKS |= {f"added | {name}": partial(added, name) for name in ("diabetes-linear", *CLASSES)}
TASKS |= {f"rounds | {data}": partial(among, data) for data in ("diabetes", "cancer")}
TASKS |= {f"strong | {one}": partial(strong, one) for one in ("logistic", TREE, "5 neighbours", "private-output")}
TASKS |= {
    f"approximate | cancer | {noise:g}": partial(approximate, "cancer", noise) for noise in (0.0, 0.001, 0.01, 0.1)
}
TASKS |= {f"adaptive | iris | {one}": partial(adaptive, "iris", one) for one in ("logistic", TREE, "5 neighbours")}
TASKS |= {f"memorisation | {data} | {one}": partial(memory, data, one) for data in ("iris", "wine") for one in LEARNERS}
TASKS |= {f"batch | {size}": partial(batch, size) for size in SIZES[:2]}
TASKS |= {
    f"informed | {mechanism} | {epsilon:g}": partial(informed, mechanism, epsilon)
    for mechanism in ("output perturbation", "posterior draw")
    for epsilon in (1.0, 8.0, 64.0)
}
TASKS |= {f"membership | {size}": partial(membership, size) for size in (100, 400)}
TASKS |= {f"batch | {size}": partial(batch, size) for size in SIZES}
TASKS |= {f"lira | {name}": partial(lira, name, 20) for name in ("diabetes-ridge", "cancer-logistic")}
TASKS |= {"lira | digits-logistic": partial(lira, "digits-logistic", 2)}

STUDY = Study(__file__, page)


if __name__ == "__main__":
    run_tasks(STUDY, TASKS, __doc__)
