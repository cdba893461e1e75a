"""The deleted instance, from the points whose label changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from bayesrecon.attacks.deletion.instance import MEAN, MEDIAN, deleted_instance
from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import VALUES
from bayesrecon.games.queries import PUBLIC_RECORDS, WHERE, check_queries, points_of
from bayesrecon.games.reconstructor import Guess, Reconstructor
from bayesrecon.games.view import View


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
