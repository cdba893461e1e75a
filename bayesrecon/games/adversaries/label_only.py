"""A label-only adversary: the deleted record is the one around which fewer predictions agree with its label."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import PUBLIC, Adversary, X, Y
from bayesrecon.games.answers import VALUES
from bayesrecon.games.learner import check_positive
from bayesrecon.games.view import View


@dataclass(frozen=True)
class LabelOnly(Adversary):
    """`s = mean_j [h(x_j) = y] - [h'(x_j) = y]` over points x_j around the instance. It only needs predicted labels.

    How far around an instance its label is predicted indicates the confidence of the model, which is not shown
    (Choquette-Choo et al. 2021 for membership). The points are the instance itself and the instance plus normal noise,
    the same for both models.

    Attributes:
        count: number of points.
        spread: standard deviation of the noise, in standard deviations of each column of the auxiliary records.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y, PUBLIC)
    count: int = 300
    spread: float = 0.5

    def __post_init__(self) -> None:
        check_positive(count=self.count, spread=self.spread)

    @property
    def name(self) -> str:
        return "labels around the instance"

    def scores(self, view: View) -> np.ndarray:
        if view.answers == VALUES:
            raise BayesreconError("LabelOnly is for classifiers; for a regression use OutputChange or LossChange")
        x, y = view.features, view.labels
        noise = view.rng.normal(size=(self.count, x.shape[1])) * self.spread * view.auxiliary.x.std(axis=0)
        points = (x[:, None] + np.concatenate([np.zeros((1, x.shape[1])), noise])).reshape(-1, x.shape[1])
        labels = np.repeat(y, self.count + 1)
        agree = [
            (ask(points).argmax(axis=1) == labels).reshape(len(y), -1) for ask in (view.ask.before, view.ask.after)
        ]
        return agree[0].mean(axis=1) - agree[1].mean(axis=1)


ADVERSARIES = {"label-only": ("agreement of labels around the instance (classifiers, labels only)", LabelOnly())}
