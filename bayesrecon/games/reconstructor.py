"""The base class of reconstructors: a frozen dataclass of options that guesses the deleted record or abstains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from bayesrecon.attacks.deletion.instance import MEAN, MEDIAN, deleted_instance
from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import PUBLIC, View, X
from bayesrecon.games.answers import PROBABILITIES, VALUES
from bayesrecon.games.data import with_ones


class Guess(NamedTuple):
    """A guess of the deleted record: `x (p,)`, `y`, or both. What is not guessed is None.

    `points` is the number of queries that the guess is computed from, if that measures its quality.
    """

    x: np.ndarray | None = None
    y: float | None = None
    points: int | None = None


@dataclass(frozen=True)
class Reconstructor:
    """A player of the reconstruction game. `Reconstructed` turns it into an adversary of the inference game.

    Attributes:
        needs: what it requires the game to grant. With `adversary.X` it knows instances and guesses their responses.
    """

    needs: ClassVar[tuple[str, ...]] = (PUBLIC,)

    @property
    def name(self) -> str:
        raise NotImplementedError

    def required(self) -> tuple[str, ...]:
        """What it requires with these options."""
        return self.needs

    def guesses(self, view: View) -> Sequence[Guess | None]:
        """One guess for each known instance, or a single guess if no instance is known. None means no answer."""
        raise NotImplementedError


# The points at which a reconstructor queries the models: public records, or points drawn from their distribution.


BOX, PUBLIC_RECORDS, NORMAL, LOCAL = "box", "public", "normal", "local"
WHERE = {
    BOX: "the box",
    PUBLIC_RECORDS: "public records",
    NORMAL: "a normal distribution",
    LOCAL: "around public records",
}


def check_queries(queries: str, count: int) -> None:
    """Check the options of `points_of`."""
    if queries not in WHERE or count < 1:
        *others, last = WHERE
        raise BayesreconError(
            f"queries={queries!r}, count={count}: expected {', '.join(others)} or {last}, and a positive count"
        )


def points_of(queries: str, count: int, public: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The query points, `(m, p)`.

    Args:
        queries: "public" for the public records themselves, or the distribution of `count` random points: uniform in
            the "box" of the public records, the "normal" distribution with their mean and covariance, or "local" for
            their kernel density estimate with Scott's bandwidth `sd m^(-1 / (p + 4))` (Scott 1992, rule 6.42).
        count: number of random points.
        public: features of the public records, `(m, p)`.
        rng: random generator.
    """
    size, width = public.shape
    if queries == PUBLIC_RECORDS:
        return public
    if queries == BOX:
        return rng.uniform(public.min(axis=0), public.max(axis=0), (count, width))
    if queries == NORMAL:
        return rng.multivariate_normal(public.mean(axis=0), np.cov(public.T).reshape(width, width), count)
    noise = rng.normal(size=(count, width)) * public.std(axis=0) * size ** (-1 / (width + 4))
    return public[rng.integers(size, size=count)] + noise


# The deleted instance, from the points whose label changed.


@dataclass(frozen=True)
class DeletedInstance(Reconstructor):
    """Del-Ins-Rec (Gao et al. 2022, algorithm 4.3): the centre of the queries whose label changed, and their old class.

    For binary features, the median is the majority of each coordinate, or 1/2 if it is undecided. The mean, with 10,000
    points of the box, is the workshop version's approximation for nearest neighbours.

    Attributes:
        queries: "public" records, or `count` points: uniform in their "box", from the "normal" distribution with their
            mean and covariance, or "local", around public records.
        centre: "median" or "mean".
    """

    queries: str = PUBLIC_RECORDS
    count: int = 10_000
    centre: str = MEDIAN

    def __post_init__(self) -> None:
        check_queries(self.queries, self.count)
        if self.centre not in (MEDIAN, MEAN):
            raise BayesreconError(f"centre={self.centre!r}: expected {MEDIAN} or {MEAN}")

    @property
    def name(self) -> str:
        return f"deleted instance, {self.centre}, queries from {WHERE[self.queries]}"

    def guesses(self, view: View) -> Sequence[Guess | None]:
        """No answer if no label changed."""
        if view.answers == VALUES:
            raise BayesreconError("DeletedInstance needs labels that change; use a classifier")
        points = points_of(self.queries, self.count, view.auxiliary.x, view.rng)
        instance = deleted_instance(points, view.ask.before(points), view.ask.after(points), self.centre)
        if instance.x is None or instance.label is None:
            return [None]
        return [Guess(x=instance.x, y=float(instance.label), points=len(instance.rows))]


# The deleted record's label, from the changes of the model's predictions.


@dataclass(frozen=True)
class DeletedLabel(Reconstructor):
    """Del-Lbl-Rec (Gao et al. 2022, appendix C.1): the class whose probability decreased most over m queries.

    `argmin_c sum_j P(c | x_j, h') - P(c | x_j, h)`. For a logistic or softmax model with a free intercept, the sum over
    the remaining training records is exactly `P(c | e, h) - 1[c = y]`, by stationarity. It is negative for y only. The
    attack is therefore right if the queries follow the distribution of the data, which points in a box may not.

    Attributes:
        queries: "public" records, draws from the "normal" distribution with their mean and covariance, or uniform
            points in their "box", as published. "local" points are drawn around public records.
        count: m, the number of random points. It is not used for "public" queries.
    """

    queries: str = PUBLIC_RECORDS
    count: int = 1000

    def __post_init__(self) -> None:
        check_queries(self.queries, self.count)

    @property
    def name(self) -> str:
        return f"deleted label, queries from {WHERE[self.queries]}"

    def guesses(self, view: View) -> Sequence[Guess | None]:
        """No answer if no prediction changed."""
        if view.answers != PROBABILITIES:
            raise BayesreconError("DeletedLabel needs probabilities; use a learner that answers with probabilities")
        points = points_of(self.queries, self.count, view.auxiliary.x, view.rng)
        before = view.ask.before(points)
        change = (view.ask.after(points) - before).sum(axis=0)
        return [Guess(y=float(change.argmin())) if change.any() else None]


# The response of a known instance, from how much its deletion changed the model's prediction.


@dataclass(frozen=True)
class KnownInstance(Reconstructor):
    """Ins-Rev-LabelChange-Rec (Gao et al. 2022, appendix C.3): `y = h(x) + lambda (h(x) - h'(x))`.

    For least squares `h(x) - h'(x) = r l / (1 - l)`, where r is the residual of h and l the leverage of x. The response
    is exact for `lambda = (1 - l) / l`, which differs between instances. With public records instead of the private
    ones, `l = (x, 1)' [ (n / m) sum_public (x_i, 1) (x_i, 1)' ]^-1 (x, 1)`.

    Attributes:
        factor: lambda, a constant as published. None computes it from the leverage, which needs public records.
    """

    needs: ClassVar[tuple[str, ...]] = (X,)
    factor: float | None = None

    @property
    def name(self) -> str:
        return f"known instance, lambda {'by leverage' if self.factor is None else f'{self.factor:g}'}"

    def required(self) -> tuple[str, ...]:
        """Also public records, if the leverage is estimated."""
        return (X, PUBLIC) if self.factor is None else (X,)

    def guesses(self, view: View) -> Sequence[Guess | None]:
        if view.answers != VALUES:
            raise BayesreconError("KnownInstance is for regressions; for classes use DeletedLabel")
        before = view.ask.before(view.features)
        after = view.ask.after(view.features)
        factor = self._by_leverage(view) if self.factor is None else self.factor
        return [Guess(y=float(y)) for y in before + factor * (before - after)]

    def _by_leverage(self, view: View) -> np.ndarray:
        public = with_ones(view.auxiliary.x)
        moment = public.T @ public * (view.total / len(public))
        x = with_ones(view.features)
        try:
            leverage = np.einsum("kq,qk->k", x, np.linalg.solve(moment, x.T))
        except np.linalg.LinAlgError:
            raise BayesreconError("too few or collinear public records to estimate leverages; set factor=") from None
        return (1 - leverage) / leverage
