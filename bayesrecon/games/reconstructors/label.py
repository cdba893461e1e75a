"""The deleted record's label, from where the model's answers changed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.outputs import PROBABILITIES
from bayesrecon.games.reconstructor import Guess, Reconstructor
from bayesrecon.games.view import View

BOX, PUBLIC_RECORDS, NORMAL = "box", "public", "normal"


@dataclass(frozen=True)
class DeletedLabel(Reconstructor):
    """Del-Lbl-Rec (Gao et al. 2022, appendix C.1): the class whose probability dropped most over m queries.

    `argmin_c sum_j P(c | x_j, h') - P(c | x_j, h)`. For a logistic or softmax model with a free intercept the sum over
    the remaining training records is `P(c | e, h) - 1[c = y]` exactly, by stationarity: negative for y alone. The
    attack is right wherever the queries follow the law of the data, which points of a box need not.

    Attributes:
        queries: "public" records, draws of the "normal" law with their mean and covariance, or uniform points of their
            "box", as published.
        count: m, for the latter two.
    """

    queries: str = PUBLIC_RECORDS
    count: int = 1000

    def __post_init__(self) -> None:
        if self.queries not in (BOX, PUBLIC_RECORDS, NORMAL) or self.count < 1:
            raise BayesreconError(
                f"queries={self.queries!r}, count={self.count}: expected {BOX}, {PUBLIC_RECORDS} or {NORMAL}, and a "
                "positive count"
            )

    @property
    def name(self) -> str:
        where = {BOX: "the box", PUBLIC_RECORDS: "public records", NORMAL: "a normal law"}
        return f"deleted label, queries from {where[self.queries]}"

    def guesses(self, view: View) -> Sequence[Guess | None]:
        """Nothing where no answer changed."""
        if view.answers != PROBABILITIES:
            raise BayesreconError("the deleted label is read off probabilities; take a learner that answers with them")
        points = self._points(view)
        change = view.ask.before(points)
        change = (view.ask.after(points) - change).sum(axis=0)
        return [Guess(y=float(change.argmin())) if change.any() else None]

    def _points(self, view: View) -> np.ndarray:
        known = view.auxiliary.x
        if self.queries == PUBLIC_RECORDS:
            return known
        if self.queries == BOX:
            return view.rng.uniform(known.min(axis=0), known.max(axis=0), (self.count, known.shape[1]))
        return view.rng.multivariate_normal(
            known.mean(axis=0), np.cov(known.T).reshape(2 * known.shape[1:]), self.count
        )
