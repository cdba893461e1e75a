"""The optimal adversary of a learner whose density is known: the exact likelihood ratio."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import DENSITY, PARAMETERS, Adversary, X, Y
from bayesrecon.games.data import Records
from bayesrecon.games.view import View


@dataclass(frozen=True)
class Likelihood(Adversary):
    """`s(e) = log p(theta' | S without e)`, the exact log density of the released parameter; S is known.

    h is trained with independent randomness and on the same S, whichever record is deleted. Given S it carries no
    information. By the Neyman-Pearson lemma no adversary does better. If the other challenge is outside S, h' is the
    same in both cases and h carries the information: `s(e) = log p(theta | S with e)`.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y, PARAMETERS, DENSITY)
    quick: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "likelihood ratio"

    def scores(self, view: View) -> np.ndarray:
        if view.others is None:
            raise BayesreconError(f"the {self.name} needs the other private records; set others=True")
        if len(view.labels) != 2:
            raise BayesreconError(f"the {self.name} needs two challenges, and there are {len(view.labels)}")
        assert view.fitted is not None
        before, after = view.fitted
        outside = len(view.others.y) + 1 == view.total
        released, partners = (before, (0, 1)) if outside else (after, (1, 0))
        log_densities = []
        for i in partners:
            x = np.concatenate([view.others.x, view.features[[i]]])
            y = np.concatenate([view.others.y, view.labels[[i]]])
            log_densities.append(view.learner.log_density(released, Records(x, y)))
        return np.array(log_densities)


ADVERSARIES = {
    "likelihood": ("exact likelihood ratio of the released parameter (private learners, with --others)", Likelihood())
}
