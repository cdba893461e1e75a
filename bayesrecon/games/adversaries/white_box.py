"""The white-box adversary: which challenge would have moved the parameter as it moved?"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import PARAMETERS, Adversary, X, Y
from bayesrecon.games.view import View


@dataclass(frozen=True)
class WhiteBox(Adversary):
    """The log likelihood of every challenge, given the change of the parameter.

    It is computed from the angle between that change and the one that the deletion of the challenge would cause
    (`infer_deletion`). The Hessian is that of the other private records if the game grants them (`others`), else that
    of the public records. Challenges are left out of it: the contribution of the deleted record is parallel to its own
    gradient, and large if its leverage is.
    """

    needs: ClassVar[tuple[str, ...]] = (X, Y, PARAMETERS)

    @property
    def name(self) -> str:
        return "white box"

    def scores(self, view: View) -> np.ndarray:
        from bayesrecon.attacks.deletion.inferred import infer_deletion
        from bayesrecon.pairs import Deletion, Unchanged

        records = view.others if view.others is not None else view.public
        if records is None:
            raise BayesreconError("the white box needs other records; set others=True or auxiliary=100")
        trained = view.trained
        assert trained is not None
        before, after = trained
        total = len(records.y) if view.others is not None else view.total
        public = {"x": records.x, "y": records.y}
        challenges = {"x": view.features, "y": view.labels}
        try:
            pair = Deletion(before, after)
            return np.asarray(infer_deletion(pair, challenges, public=public, total=total).log_likelihood)
        except Unchanged:  # all challenges tie
            return np.zeros(len(view.features))


ADVERSARIES = {"white-box": ("likelihood ratio from the parameters (linear, ridge, logistic)", WhiteBox())}
