"""Del-Inf-Ins: the instance whose prediction changed was deleted."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.games.adversary import Adversary, X
from bayesrecon.games.answers import distance
from bayesrecon.games.view import View


@dataclass(frozen=True)
class OutputChange(Adversary):
    """Del-Inf-Ins (Gao et al. 2022, algorithm 3.4): `s = |h(x) - h'(x)|`, summed over classes.

    Labels are not needed.
    """

    needs: ClassVar[tuple[str, ...]] = (X,)
    quick: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "Del-Inf-Ins"

    def scores(self, view: View) -> np.ndarray:
        before = view.ask.before(view.features)
        return distance(before, view.ask.after(view.features))


ADVERSARIES = {
    "ins": ("the challenge whose answer changes more was deleted (Del-Inf-Ins); needs no labels", OutputChange())
}
