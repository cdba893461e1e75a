"""Del-Inf-Lbl: the label whose predictions fell was deleted."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.games.adversary import PUBLIC, Adversary, Y
from bayesrecon.games.answers import VALUES
from bayesrecon.games.queries import PUBLIC_RECORDS, WHERE, check_queries, points_of
from bayesrecon.games.view import View


@dataclass(frozen=True)
class LabelChange(Adversary):
    """Which of two labels was deleted, from predictions at other points. Instances are not needed.

    For classes `s(y) = mean_j P(y | x_j, h) - P(y | x_j, h')` over queries x_j, as in Del-Lbl-Rec (Gao et al. 2022,
    appendix C.1). It separates the labels if the queries follow the distribution of the data: for a model with a
    free intercept the sum over the remaining records is `1[y was deleted] - P(y | e, h)` (`DeletedLabel`).

    For a number `s(y) = -|y - y_hat|`. By the normal equations of least squares before and after the deletion, `sum_i
    (h(x_i) - h'(x_i)) f(x_i) = (y - h(x)) f(x)` over the n - 1 remaining records, for f = 1 and for f = h. So

        r = (n - 1) mean_j (h(x_j) - h'(x_j)),    y_hat = r + (n - 1) mean_j (h(x_j) - h'(x_j)) h(x_j) / r,

    with the last term, h(x), kept within the range of the predictions. It is a tie if no prediction changed.

    Attributes:
        queries, count: the query points, as in `DeletedLabel`.
    """

    needs: ClassVar[tuple[str, ...]] = (Y, PUBLIC)
    quick: ClassVar[bool] = True
    queries: str = PUBLIC_RECORDS
    count: int = 1000

    def __post_init__(self) -> None:
        check_queries(self.queries, self.count)

    @property
    def name(self) -> str:
        where = "" if self.queries == PUBLIC_RECORDS else f", queries from {WHERE[self.queries]}"
        return f"Del-Inf-Lbl{where}"

    def scores(self, view: View) -> np.ndarray:
        points = points_of(self.queries, self.count, view.auxiliary.x, view.rng)
        before = view.ask.before(points)
        fall = before - view.ask.after(points)
        if view.answers != VALUES:
            return fall.mean(axis=0)[view.labels]
        if not fall.any():
            return np.zeros(len(view.labels))
        residual = fall.mean() or np.finfo(float).tiny
        prediction = np.clip((fall * before).mean() / residual, before.min(), before.max())
        return -np.abs(view.labels - prediction - (view.total - 1) * residual)


ADVERSARIES = {
    "lbl": ("the label whose predictions fall was deleted (Del-Inf-Lbl); needs no instances", LabelChange()),
}
