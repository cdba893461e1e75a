"""Del-Inf-Exm: the record whose loss increased was deleted."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.games.adversary import Adversary
from bayesrecon.games.answers import DEFAULT_LOSSES, loss_of
from bayesrecon.games.view import View


@dataclass(frozen=True)
class LossChange(Adversary):
    """Del-Inf-Exm (Gao et al. 2022, algorithm 3.2): `s = l(h', e) - l(h, e)`; the record of larger s was deleted.

    Attributes:
        loss: "squared" or "absolute" for numbers, "log" for probabilities, "hinge" for decision values and log odds,
            "zero-one" for labels. Defaults to the first of these that suits the answers.
    """

    quick: ClassVar[bool] = True
    loss: str | None = None

    @property
    def name(self) -> str:
        return f"Del-Inf-Exm, {self.loss} loss" if self.loss else "Del-Inf-Exm"

    def scores(self, view: View) -> np.ndarray:
        loss = self.loss or DEFAULT_LOSSES[view.answers]
        before = loss_of(loss, view.answers, view.ask.before(view.features), view.labels)
        return loss_of(loss, view.answers, view.ask.after(view.features), view.labels) - before


ADVERSARIES = {
    "exm": (
        "the challenge whose loss increases more was deleted (Del-Inf-Exm): squared, log or hinge loss",
        LossChange(),
    ),
    "exm-absolute": ("the same with the absolute loss, for a regression", LossChange("absolute")),
    "exm-hinge": ("the same with the hinge loss", LossChange("hinge")),
}
