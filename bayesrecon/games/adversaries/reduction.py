"""The reduction to membership inference: both challenges are members for h; which one is not a member for h'?"""

from dataclasses import dataclass

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import PUBLIC, Adversary, X, Y
from bayesrecon.games.membership import Membership
from bayesrecon.games.view import View

LABELS, CONFIDENCES, ALONE = "labels", "confidences", "alone"


@dataclass(frozen=True)
class Reduction(Adversary):
    """A membership attack M as an adversary (Gao et al. 2022, algorithm 3.5). Both challenges are members for h.

    Attributes:
        attack: M.
        by: what decides. "labels": the challenge that M calls "out" of h' was deleted, and it is a tie if M says the
            same of both. "confidences": the score `s = P(M says out of h') - P(M says out of h)`. "alone": P(M says out
            of h'), which only needs the model after the deletion.
    """

    attack: Membership
    by: str = CONFIDENCES

    def __post_init__(self) -> None:
        if self.by not in (LABELS, CONFIDENCES, ALONE):
            raise BayesreconError(f"by={self.by!r}: expected {LABELS}, {CONFIDENCES} or {ALONE}")

    @property
    def name(self) -> str:
        after = {LABELS: "labels", CONFIDENCES: "confidences", ALONE: "model after the deletion alone"}
        return f"{self.attack.name}, {after[self.by]}"

    def required(self) -> tuple[str, ...]:
        return (X, Y, PUBLIC)

    def scores(self, view: View) -> np.ndarray:
        non_membership = self.attack.prepare(view)
        before = view.ask.before(view.features) if self.by == CONFIDENCES else None
        after = non_membership(view.ask.after(view.features))
        if self.by == LABELS:
            return (after > 0.5).astype(float)
        return after if before is None else after - non_membership(before)

    def margin(self, view: View) -> float:
        """The threshold is M's own decision on h'."""
        return float(self.scores(view)[0] - (0.0 if self.by == CONFIDENCES else 0.5))
