"""The records of a game: a table of which a random share is private, or a distribution to sample from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from bayesrecon.errors import BayesreconError


class Records(NamedTuple):
    """Records: features `x (n, p)` and responses `y (n,)`. Classes are whole numbers from zero."""

    x: np.ndarray
    y: np.ndarray

    def rows(self, index: np.ndarray | slice) -> "Records":
        """The records at these positions."""
        return Records(self.x[index], self.y[index])

    def without(self, index: np.ndarray) -> "Records":
        """All records except those at these positions."""
        return Records(np.delete(self.x, index, axis=0), np.delete(self.y, index))


class Sample(NamedTuple):
    """The sample of one round: the private data set S, and records outside S from the same distribution."""

    private: Records
    outside: Records


class Data(Protocol):
    """A sampler of data sets. `classes` is 0 for regression."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> int: ...

    def draw(self, rng: np.random.Generator) -> Sample:
        """The private data set of one round, and records outside of it."""
        ...


@dataclass(frozen=True, eq=False)
class Table:
    """A table. In every round a random share of its rows is private, and the other rows are outside S.

    Attributes:
        x: features, `(N, p)`.
        y: responses, `(N,)`.
        classes: number of classes of the response; 0 for a number.
        share: private share of the rows, `floor(share N)` of them.
        standardised: whether the columns were standardised with the mean and variance of the whole table.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    classes: int = 0
    share: float = 0.9
    standardised: bool = False

    def draw(self, rng: np.random.Generator) -> Sample:
        order, size = rng.permutation(len(self.x)), int(self.share * len(self.x))
        records = Records(self.x, self.y)
        return Sample(records.rows(order[:size]), records.rows(order[size:]))

    def shared(self, share: float) -> "Table":
        """The same table with another private share."""
        return replace(self, share=_checked_share(share, len(self.x)))


@dataclass(frozen=True, eq=False)
class Law:
    """A distribution that every round samples a new data set from.

    Attributes:
        sample: function `sample(rng, n)` that returns `x (n, p)` and `y (n,)`.
        classes: number of classes of the response; 0 for a number.
        size: size of S.
        outside: number of records outside S.
    """

    name: str
    sample: Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
    classes: int = 0
    size: int = 1000
    outside: int = 100

    def draw(self, rng: np.random.Generator) -> Sample:
        records = Records(*self.sample(rng, self.size + self.outside))
        return Sample(records.rows(slice(self.size)), records.rows(slice(self.size, None)))


def table(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    classification: bool | None = None,
    standardised: bool = False,
    share: float = 0.9,
    name: str = "table",
) -> Table:
    """A table of records for a game.

    Args:
        x: `(N, p)` numeric features.
        y: `(N,)` responses, or labels of any type.
        classification: whether y are labels. By default they are if they are not numbers, or have two distinct values
            that are whole numbers or words.
        standardised: whether to scale columns to mean 0 and variance 1 over the whole table. The scale is then not part
            of training, and a deletion does not change it.
        share: private share of the rows in each round.

    Raises:
        BayesreconError: the table is not numeric, the responses have another length, or there are too few rows.

    >>> customers = table([[0.0], [1.0], [2.0], [5.0]], ["no", "yes", "no", "yes"], share=0.5)
    >>> customers.classes, customers.y.tolist()
    (2, [0, 1, 0, 1])
    """
    try:
        features, response = np.asarray(x, float), np.asarray(y)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(f"{name}: features must be numbers") from None
    if features.ndim != 2 or not features.shape[1] or not np.isfinite(features).all():
        raise BayesreconError(f"{name}: expected features (N, p) without missing values, got {features.shape}")
    if response.shape != features.shape[:1]:
        raise BayesreconError(f"{name}: {len(features)} records need as many responses, got {response.shape}")
    if response.dtype.kind == "O":
        response = response.astype(str)
    levels, codes = np.unique(response, return_inverse=True)
    if classification is None:
        classification = response.dtype.kind not in "iuf" or len(levels) == 2
    if classification and len(levels) < 2:
        raise BayesreconError(f"{name}: all responses are {levels[0]}, so there is nothing to learn")
    if not classification and response.dtype.kind not in "iufb":
        raise BayesreconError(f"{name}: the responses of a regression must be numbers")
    if not classification and not np.isfinite(np.asarray(response, float)).all():
        raise BayesreconError(f"{name}: some responses are missing; drop these rows")
    if standardised:
        sd = features.std(axis=0)
        features = (features - features.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    y = codes.astype(int) if classification else np.asarray(response, float)
    classes, share = len(levels) if classification else 0, _checked_share(share, len(features))
    return Table(name, features, y, classes, share, standardised)


def _checked_share(share: float, count: int) -> float:
    if not 0 < share <= 1 or int(share * count) < 2:
        raise BayesreconError(f"share={share} of {count} records: at least two records must be private")
    return share


def with_ones(x: np.ndarray) -> np.ndarray:
    """Features `(n, p)` with a column of ones for the intercept, `(n, p + 1)`."""
    return np.concatenate([x, np.ones((len(x), 1))], axis=1)
