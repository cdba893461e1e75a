"""Shokri's membership attack: shadow models show how answers to members differ from other answers."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversaries.reduction import CONFIDENCES, LABELS, Reduction
from bayesrecon.games.answers import VALUES
from bayesrecon.games.membership import Membership, NonMembership
from bayesrecon.games.view import View

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier

_FEWEST = 4
"""Smallest number of answers of either kind for which a class gets its own classifier."""


@dataclass(frozen=True)
class ShadowModels(Membership):
    """Shadow models, and one attack classifier per class on probability vectors (Shokri et al. 2017).

    Every shadow model is trained on a random half of the auxiliary records. Its answers to that half are "in", and
    those to the other half "out". The attack classifier is a random forest instead of the paper's network. For a class
    that is rare among the shadow models, it is trained on the answers of all classes.

    Attributes:
        shadows: number of shadow models.
        trees: number of trees in the forest.
    """

    shadows: int = 8
    trees: int = 50

    @property
    def name(self) -> str:
        return f"Shokri ({self.shadows} shadow models)"

    def prepare(self, view: View) -> NonMembership:
        if view.answers == VALUES:
            raise BayesreconError("Shokri's attack needs a classifier; for a regression use LossThreshold or LiRA")
        public = view.auxiliary
        if len(public.y) < 4:
            raise BayesreconError(f"Shokri's attack needs at least four auxiliary records, got {len(public.y)}")
        answers, labels, out = [], [], []
        for _ in range(self.shadows):
            order = view.rng.permutation(len(public.y))
            half = len(order) // 2
            shadow = view.fit(public.rows(order[:half]))
            answers.append(shadow(public.x[order]))
            labels.append(public.y[order])
            out.append(np.arange(len(order)) >= half)
        table, classes, outside = map(np.concatenate, (answers, labels, out))
        seed = int(view.rng.integers(2**31))
        experts = {c: self._expert(table, classes, outside, c, seed) for c in np.unique(view.labels)}

        def probability(answers: np.ndarray) -> np.ndarray:
            result = np.empty(len(answers))
            for c, expert in experts.items():
                at = view.labels == c
                result[at] = np.asarray(expert.predict_proba(answers[at]))[:, 1]
            return result

        return probability

    def _expert(
        self, table: np.ndarray, classes: np.ndarray, out: np.ndarray, label: int, seed: int
    ) -> "RandomForestClassifier":
        from sklearn.ensemble import RandomForestClassifier

        of_class = classes == label
        enough = min(out[of_class].sum(), (~out[of_class]).sum()) >= _FEWEST
        at = of_class if enough else np.ones(len(of_class), bool)
        forest = RandomForestClassifier(self.trees, min_samples_leaf=5, n_jobs=1, random_state=seed)
        return forest.fit(table[at], out[at])


ADVERSARIES = {
    "shokri": ("reduction to membership by confidences: 8 shadow models", Reduction(ShadowModels(), CONFIDENCES)),
    "shokri-labels": ("the same by labels", Reduction(ShadowModels(), LABELS)),
}
