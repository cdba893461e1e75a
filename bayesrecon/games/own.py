"""A user's own table as a game: how well can an outsider tell which of my customers was deleted?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, near
from bayesrecon.games.adversary import Adversary
from bayesrecon.games.data import Table, table
from bayesrecon.games.inference import Game
from bayesrecon.games.named import game_of, named_learner

_LEVELS = 50
"""Different words of a column from which it is a name rather than a category."""


def own_table(
    columns: dict[str, Any], target: str, *, classification: bool | None = None, share: float = 0.9, name: str = "table"
) -> Table:
    """Columns as a table for games: numbers are standardised, words become one column per level.

    Args:
        columns: `{name: (N,)}`; target: the column that is predicted.
        classification: whether it holds classes; by default where it holds words, or two values.
        share: of the rows that are private in a round.

    Raises:
        BayesreconError: no such column, missing values, or words that are names rather than categories.

    >>> own_table({"age": [20, 30, 41], "town": ["a", "b", "a"], "left": ["no", "yes", "no"]}, "left").x.shape
    (3, 2)
    """
    if target not in columns:
        raise BayesreconError(
            f"{name} has no column {target!r}{near(target, columns)}; --target names one of its columns"
        )
    features: list[np.ndarray] = []
    for column, values in columns.items():
        if column != target:
            features += _numbers(f"{name}: column {column}", np.asarray(values))
    if not features:
        raise BayesreconError(f"{name} has no column besides {target!r} to learn from")
    response = np.asarray(columns[target])
    _complete(f"{name}: column {target}", response)
    x = np.stack(features, axis=1)
    return table(x, response, classification=classification, standardised=True, share=share, name=name)


def own_game(
    columns: dict[str, Any],
    target: str,
    learner: str,
    *,
    adversaries: Adversary | Sequence[Adversary] | None = None,
    name: str = "table",
    share: float = 0.9,
    **flags: Any,
) -> Game:
    """The game of one's own table and a learner by its name.

    Args:
        columns, target, share: as for `own_table`; the target holds classes where the learner's name says so.
        learner: one of `named_learners()`.
        adversaries, flags: as for `load`.

    Raises:
        BayesreconError: as `own_table` and `Game` do.

    >>> rng = np.random.default_rng(0)
    >>> customers = {"age": rng.normal(size=40), "visits": rng.normal(size=40), "churned": rng.integers(2, size=40)}
    >>> own_game(customers, "churned", "logistic").data.classes
    2
    """
    decided = {"linear": False, "ridge": False, "lasso": False, "logistic": True, "svm-calibrated": True}.get(learner)
    data = own_table(columns, target, classification=decided, share=share, name=name)
    return game_of(
        data, named_learner(learner, data.classes), name=f"{name}, {learner}", adversaries=adversaries, **flags
    )


def _numbers(what: str, values: np.ndarray) -> list[np.ndarray]:
    """A column as columns of numbers."""
    _complete(what, values)
    if values.dtype.kind in "biuf":
        return [values.astype(float)]
    levels: Sequence[str] = np.unique(values.astype(str)).tolist()
    if len(levels) > min(_LEVELS, max(2, len(values) // 2)):
        raise BayesreconError(f"{what} has {len(levels)} different words: leave it out, or sort them into categories")
    # The first level is what the others are compared with.
    return [(values.astype(str) == level).astype(float) for level in levels[1:]]


def _complete(what: str, values: np.ndarray) -> None:
    import pandas as pd

    if values.ndim != 1:
        raise BayesreconError(f"{what}: expected one value a row, got {values.shape}")
    if missing := int(pd.isna(values).sum()):
        raise BayesreconError(f"{what}: {missing} values are missing; drop these rows or fill them in")
