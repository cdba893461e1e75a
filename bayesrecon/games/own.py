"""A user's own table as a game: how well can an outsider tell which of my customers was deleted?"""

from collections.abc import Mapping, Sequence
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
    columns: dict[str, Any],
    response: str,
    *,
    classification: bool | None = None,
    share: float = 0.9,
    domain: Mapping[str, tuple[float, float]] | None = None,
    name: str = "table",
) -> Table:
    """Columns as a table for games: numbers are standardised, words become one column per level.

    Args:
        columns: `{name: (N,)}`; response: the column that is predicted.
        classification: whether it holds classes; by default where it holds words, or two values.
        share: of the rows that are private in a round.
        domain: public `{column: (low, high)}` for every column of numbers but the response: values are cut off there
            and scaled to lie between -1 and 1, and nothing is standardised.

    Raises:
        BayesreconError: no such column, missing values, words that are names rather than categories, or columns of
            numbers without a domain where there are some.

    >>> own_table({"age": [20, 30, 41], "town": ["a", "b", "a"], "left": ["no", "yes", "no"]}, "left").x.shape
    (3, 2)
    """
    if response not in columns:
        raise BayesreconError(
            f"{name} has no column {response!r}{near(response, columns)}; --response names one of its columns"
        )
    features: list[np.ndarray] = []
    limits = None if domain is None else _checked_ends(columns, response, domain, name)
    for column, values in columns.items():
        if column != response:
            found = _numbers(f"{name}: column {column}", np.asarray(values))
            features += found if limits is None else [_scaled(one, limits.get(column, (0.0, 1.0))) for one in found]
    if not features:
        raise BayesreconError(f"{name} has no column besides {response!r} to learn from")
    answers = np.asarray(columns[response])
    _complete(f"{name}: column {response}", answers)
    x = np.stack(features, axis=1)
    standardised = domain is None
    return table(x, answers, classification=classification, standardised=standardised, share=share, name=name)


def own_game(
    columns: dict[str, Any],
    response: str,
    learner: str,
    *,
    adversaries: Adversary | Sequence[Adversary] | None = None,
    name: str = "table",
    share: float = 0.9,
    domain: Mapping[str, tuple[float, float]] | None = None,
    epsilon: float | None = None,
    **flags: Any,
) -> Game:
    """The game of one's own table and a learner by its name.

    Args:
        columns, response, share, domain: as for `own_table`; the response holds classes where the learner's name says
            so.
        learner: one of `named_learners()`; epsilon: of a private one.
        adversaries, flags: as for `load`.

    Raises:
        BayesreconError: as `own_table` and `Game` do.

    >>> rng = np.random.default_rng(0)
    >>> customers = {"age": rng.normal(size=40), "visits": rng.normal(size=40), "churned": rng.integers(2, size=40)}
    >>> own_game(customers, "churned", "logistic").data.classes
    2
    """
    decided = {"linear": False, "ridge": False, "lasso": False, "logistic": True, "svm-calibrated": True}.get(learner)
    decided = True if learner.startswith("private-") else decided
    data = own_table(columns, response, classification=decided, share=share, domain=domain, name=name)
    made = named_learner(learner, data.classes, epsilon)
    return game_of(data, made, name=f"{name}, {learner}", adversaries=adversaries, **flags)


def _checked_ends(
    columns: dict[str, Any], response: str, domain: Mapping[str, tuple[float, float]], name: str
) -> dict[str, tuple[float, float]]:
    """Of every column of numbers."""
    numbers = [one for one, values in columns.items() if one != response and np.asarray(values).dtype.kind in "iuf"]
    for column in domain:
        if column not in numbers:
            raise BayesreconError(f"{name} has no column of numbers {column!r} to learn from{near(column, numbers)}")
    for column in numbers:
        low, high = domain.get(column, (np.nan, np.nan))
        if not (np.isfinite([low, high]).all() and low < high):
            raise BayesreconError(
                f"{name}: column {column} needs public ends, low < high: domain={{column: (low, high)}}"
            )
    return dict(domain)


def _scaled(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Cut off at the limits, which become -1 and 1."""
    low, high = limits
    return 2 * (np.clip(values, low, high) - low) / (high - low) - 1


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
