"""Named games: a data set, a learner, and all adversaries that suit them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError, near
from bayesrecon.games.adversary import PARAMETERS, PUBLIC, Adversary, named_adversary
from bayesrecon.games.answers import PROBABILITIES, VALUES
from bayesrecon.games.data import Data, Law, Table, table
from bayesrecon.games.inference import INSTANCES, RECORDS, Game
from bayesrecon.games.learner import Learner
from bayesrecon.games.learners import Labels
from bayesrecon.games.private import Private

# The distributions of the workshop paper's experiments: a noisy linear response, and two normal classes.


@dataclass(frozen=True)
class LinearLaw:
    """`x ~ N(0, I)`, `y = <w, x> + noise` with variance 0.1; w is the same in all rounds, drawn from N(0, I)."""

    features: int = 10
    variance: float = 0.1
    seed: int = 0

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        weights = np.random.default_rng(self.seed).normal(size=self.features)
        x = rng.normal(size=(n, self.features))
        return x, x @ weights + rng.normal(0.0, self.variance**0.5, n)


@dataclass(frozen=True)
class TwoNormals:
    """Two classes, equally likely: N(0, I) and N(0.1, I)."""

    features: int = 10
    shift: float = 0.1

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.arange(n) % 2)
        return rng.normal(size=(n, self.features)) + self.shift * y[:, None], y


Maker = Callable[[int], Learner]


@dataclass(frozen=True)
class DataSet:
    """A named data set: description in one line, number of classes, and the function that builds it."""

    summary: str
    classes: int
    make: Callable[[], Data]


def _bundled(name: str, standardised: bool = False) -> Callable[[], Table]:
    def make() -> Table:
        import sklearn.datasets

        bunch: Any = getattr(sklearn.datasets, f"load_{name}")()
        return table(
            bunch.data,
            bunch.target,
            classification=hasattr(bunch, "target_names"),
            name=name.replace("_", " "),
            standardised=standardised,
        )

    return make


DATA: Mapping[str, DataSet] = MappingProxyType(
    {
        "diabetes": DataSet("diabetes, 442 patients, 10 features", 0, _bundled("diabetes")),
        "iris": DataSet("iris, 150 flowers, 4 features, standardised", 3, _bundled("iris", standardised=True)),
        "wine": DataSet("wine, 178 bottles, 13 features, standardised", 3, _bundled("wine", standardised=True)),
        "cancer": DataSet(
            "breast cancer, 569 patients, 30 features, standardised",
            2,
            _bundled("breast_cancer", standardised=True),
        ),
        "digits": DataSet("digits, 1,797 images of 8 by 8, standardised", 10, _bundled("digits", standardised=True)),
        "plane": DataSet("the workshop's linear response, 1,000 records", 0, lambda: Law("linear law", LinearLaw())),
        "normals": DataSet(
            "the workshop's two normal classes, 1,000 records", 2, lambda: Law("two normals", TwoNormals(), classes=2)
        ),
    }
)


@cache
def named_learners() -> Mapping[str, tuple[str, Maker]]:
    """All named learners (read-only). Each has its description in one line, and a function of the number of classes.

    The function returns the learner. The number of classes is 0 for a numeric response.
    """
    return MappingProxyType(
        {name: entry for part in discover("bayesrecon.games", "LEARNERS") for name, entry in part.items()}
    )


def named_learner(name: str, classes: int, epsilon: float | None = None) -> Learner:
    """The learner with this name.

    Args:
        classes: number of classes of the response; 0 for a number.
        epsilon: privacy parameter of a private learner; 1 by default.
    """
    known = named_learners()
    if name not in known:
        raise BayesreconError(f"there is no learner {name!r}{near(name, known)}; known: {', '.join(known)}")
    learner = known[name][1](classes)
    learner.check(classes)
    if epsilon is None:
        return learner
    if not isinstance(learner, Private):
        private = ", ".join(k for k in known if k.startswith("private-"))
        raise BayesreconError(f"{name} is not private, so it has no epsilon; private learners: {private}")
    return replace(learner, epsilon=epsilon)


def default_adversaries(learner: Learner, auxiliary: bool = False, given: str = RECORDS) -> tuple[Adversary, ...]:
    """The adversaries that suit what is shown of the challenges, and a learner's answers.

    These are direct ones, and reductions if there are auxiliary records.
    """
    if given != RECORDS:
        return (named_adversary("ins" if given == INSTANCES else "lbl"),)
    names = ["exm"]
    names += ["exm-absolute"] if learner.answers == VALUES else []
    names += ["ins", *(["label-only"] if isinstance(learner, Labels) else [])]
    if auxiliary:
        names += ["yeom"] + (["shokri"] if learner.answers == PROBABILITIES else [])
    return tuple(named_adversary(name) for name in names)


@cache
def shipped() -> Mapping[str, str]:
    """All named games, `DATA-LEARNER`, with their descriptions in one line (read-only).

    >>> shipped()["diabetes-linear"]
    'linear regression on diabetes, 442 patients, 10 features'
    """
    games = {}
    for data, data_set in DATA.items():
        for name, (summary, make) in named_learners().items():
            try:
                make(data_set.classes).check(data_set.classes)
            except BayesreconError:  # a regression learner for classes, or the other way around
                continue
            games[f"{data}-{name}"] = f"{summary} on {data_set.summary}"
    return MappingProxyType(games)


def load(
    name: str,
    *,
    adversaries: Adversary | Sequence[Adversary] | None = None,
    epsilon: float | None = None,
    **flags: Any,
) -> Game:
    """The game with this name.

    Args:
        name: `DATA-LEARNER`, one of `shipped()`.
        adversaries: the players. Defaults to Del-Inf-Exm (squared and absolute loss, log loss or hinge loss) and
            Del-Inf-Ins, and the reductions if there are auxiliary records. Del-Inf-Ins plays if instances alone are
            shown, and Del-Inf-Lbl if labels alone are.
        epsilon: privacy parameter of a private learner.
        flags: options of `Game`. `share`, the private share of the records, is passed to the data. With
            `labels_only=True` models show their most likely class alone.

    Raises:
        BayesreconError: there is no game of this name, or options do not fit together.

    >>> [adversary.name for adversary in load("diabetes-linear").adversaries]
    ['Del-Inf-Exm', 'Del-Inf-Exm, absolute loss', 'Del-Inf-Ins']
    """
    if name not in shipped():
        raise BayesreconError(f"there is no game {name!r}{near(name, shipped())}; `bayesrecon game` lists them")
    data_name, _, learner_name = name.partition("-")
    share = flags.pop("share", None)
    data = DATA[data_name].make()
    if share is not None:
        if not isinstance(data, Table):
            raise BayesreconError(f"{name}: share= is for tables, and these records are drawn from a distribution")
        data = data.shared(share)
    learner = named_learner(learner_name, data.classes, epsilon)
    return game_of(data, learner, name=name, adversaries=adversaries, **flags)


def game_of(
    data: Data,
    learner: Learner,
    *,
    adversaries: Adversary | Sequence[Adversary] | None = None,
    labels_only: bool = False,
    **flags: Any,
) -> Game:
    """A game of these data and this learner, with the default adversaries and the auxiliary records they require.

    Args:
        labels_only: whether models show their most likely class alone (`learners.labels.Labels`), as a defence.
    """
    learner = Labels(learner) if labels_only else learner
    if adversaries is None:
        adversaries = default_adversaries(learner, flags.get("auxiliary", 0) != 0, flags.get("given", RECORDS))
    players = adversaries
    players = (players,) if isinstance(players, Adversary) else players
    needs = {need for player in players for need in player.required()}
    if flags.get("auxiliary") is None and (PUBLIC in needs or (PARAMETERS in needs and not flags.get("others"))):
        flags["auxiliary"] = None
    return Game(data, learner, players, **flags)


# A user's own table as a game: how well can an outsider tell which of my customers was deleted?


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
