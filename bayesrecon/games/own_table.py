"""A user's own table as a game: how well can an outsider tell which of my customers was deleted?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError, near
from bayesrecon.games.adversary import Adversary
from bayesrecon.games.data import Table, table
from bayesrecon.games.inference import Game
from bayesrecon.games.named_games import game_of, named_learner

_LEVELS = 50
"""A column with more distinct words contains names rather than categories."""


def own_table(
    columns: Mapping[str, npt.ArrayLike],
    response: str,
    *,
    classification: bool | None = None,
    share: float = 0.9,
    domain: Mapping[str, tuple[float, float]] | None = None,
    name: str = "table",
) -> Table:
    """A table for games from columns. Numbers are standardised, and words become one column per level.

    Args:
        columns: values by the name of the column, each `(N,)`.
        response: name of the column that is predicted.
        classification: whether the response contains classes. By default it does if it contains words or two values.
        share: private share of the rows in each round.
        domain: public bounds `{column: (low, high)}` for every numeric column except the response. Values are clipped
            there and scaled to [-1, 1], instead of standardised.
    """
    if response not in columns:
        raise BayesreconError(
            f"{name} has no column {response!r}{near(response, columns)}; name one of its columns (--response)"
        )
    features: list[np.ndarray] = []
    bounds = None if domain is None else _checked_bounds(columns, response, domain, name)
    for column, values in columns.items():
        if column != response:
            numeric = _numbers(f"{name}: column {column}", np.asarray(values))
            if bounds is not None:
                numeric = [_scaled(x, bounds.get(column, (0.0, 1.0))) for x in numeric]
            features += numeric
    if not features:
        raise BayesreconError(f"{name} has no column besides {response!r} to learn from")
    answers = np.asarray(columns[response])
    _check_complete(f"{name}: column {response}", answers)
    x = np.stack(features, axis=1)
    standardised = domain is None
    return table(x, answers, classification=classification, standardised=standardised, share=share, name=name)


def own_game(
    columns: Mapping[str, npt.ArrayLike],
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
    """A game with the user's own table and a named learner.

    Args:
        columns, response, share, domain: as in `own_table`. If the learner is only for classes, the response is
            classes.
        learner: one of `named_learners()`.
        epsilon: privacy parameter of a private learner.
        adversaries, flags: as in `load`.

    >>> rng = np.random.default_rng(0)
    >>> customers = {"age": rng.normal(size=40), "visits": rng.normal(size=40), "churned": rng.integers(2, size=40)}
    >>> own_game(customers, "churned", "logistic").data.classes
    2
    """
    kinds = {"linear": False, "ridge": False, "lasso": False, "logistic": True, "svm-calibrated": True}
    classification = True if learner.startswith("private-") else kinds.get(learner)
    data = own_table(columns, response, classification=classification, share=share, domain=domain, name=name)
    return game_of(
        data, named_learner(learner, data.classes, epsilon), name=f"{name}, {learner}", adversaries=adversaries, **flags
    )


def _checked_bounds(
    columns: Mapping[str, npt.ArrayLike], response: str, domain: Mapping[str, tuple[float, float]], name: str
) -> dict[str, tuple[float, float]]:
    """The domain of every numeric column, checked."""
    numbers = [k for k, values in columns.items() if k != response and np.asarray(values).dtype.kind in "iuf"]
    for column in domain:
        if column not in numbers:
            raise BayesreconError(f"{name} has no numeric column {column!r} to learn from{near(column, numbers)}")
    for column in numbers:
        low, high = domain.get(column, (np.nan, np.nan))
        if not (np.isfinite([low, high]).all() and low < high):
            raise BayesreconError(
                f"{name}: column {column} needs public bounds low < high: domain={{{column!r}: (low, high)}}"
            )
    return dict(domain)


def _scaled(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """Clip values at the bounds and scale them to [-1, 1]."""
    low, high = bounds
    return 2 * (np.clip(values, low, high) - low) / (high - low) - 1


def _numbers(label: str, values: np.ndarray) -> list[np.ndarray]:
    """A column as columns of numbers: indicators of all levels but the first, if it contains words."""
    _check_complete(label, values)
    if values.dtype.kind in "biuf":
        return [values.astype(float)]
    levels: Sequence[str] = np.unique(values.astype(str)).tolist()
    if len(levels) > min(_LEVELS, max(2, len(values) // 2)):
        raise BayesreconError(f"{label} has {len(levels)} distinct words; drop the column, or group the words")
    return [(values.astype(str) == level).astype(float) for level in levels[1:]]


def _check_complete(label: str, values: np.ndarray) -> None:
    import pandas as pd

    if values.ndim != 1:
        raise BayesreconError(f"{label}: expected one value per row, got shape {values.shape}")
    if missing := int(pd.isna(values).sum()):
        raise BayesreconError(f"{label}: {missing} values are missing; drop these rows or fill them in")
