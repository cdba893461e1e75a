"""The deleted record's label, from the changes of the model's predictions."""

from collections.abc import Sequence
from dataclasses import dataclass

from bayesrecon.errors import BayesreconError
from bayesrecon.games.answers import PROBABILITIES
from bayesrecon.games.queries import PUBLIC_RECORDS, WHERE, check_queries, points_of
from bayesrecon.games.reconstructor import Guess, Reconstructor
from bayesrecon.games.view import View


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
