"""Yeom's membership attack: a record whose loss is below the mean training loss is called a member."""

from dataclasses import dataclass

import numpy as np

from bayesrecon.games.adversaries.reduction import LABELS, Reduction
from bayesrecon.games.answers import loss_of
from bayesrecon.games.membership import Membership, NonMembership
from bayesrecon.games.view import View


@dataclass(frozen=True)
class LossThreshold(Membership):
    """A record is a member if its loss is below the mean training loss (Yeom et al. 2018, adversary 1).

    The mean training loss is that of a model that the adversary trains on auxiliary records.
    """

    loss: str | None = None

    @property
    def name(self) -> str:
        return "Yeom"

    def prepare(self, view: View) -> NonMembership:
        public, y = view.auxiliary, view.labels
        mean_loss = float(loss_of(self.loss, view.answers, view.fit(public)(public.x), public.y).mean())

        def out(answers: np.ndarray) -> np.ndarray:
            return (loss_of(self.loss, view.answers, answers, y) >= mean_loss).astype(float)

        return out


ADVERSARIES = {
    "yeom": ("reduction to membership by labels: loss below the mean training loss", Reduction(LossThreshold(), LABELS))
}
