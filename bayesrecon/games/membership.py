"""Membership attacks, and the reduction of the inference game to them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.stats

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversary import PUBLIC, Adversary, View, X, Y
from bayesrecon.games.answers import DECISIONS, VALUES, loss_of, margins
from bayesrecon.games.data import Records

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier


NonMembership = Callable[[np.ndarray], np.ndarray]
"""Function from the answers at the challenges to the probabilities `(k,)` that they are not in the training data."""


@dataclass(frozen=True)
class Membership:
    """Decides whether a record was in a model's training data, from the model's answer and auxiliary records."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    def prepare(self, view: View) -> NonMembership:
        """Train on the auxiliary records, for the challenges of one round."""
        raise NotImplementedError


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


_PER_RECORD = 16
"""With fewer shadow models of either kind, the variance is pooled over the records."""

_SMALLEST = 1e-12
"""Smallest standard deviation, since deterministic answers would lead to a division by zero."""


def confidence(answers: np.ndarray, y: np.ndarray, kind: str) -> np.ndarray:
    """The logit-scaled confidence `phi = log(p_y / (1 - p_y))` `(k,)` (Carlini et al. 2022).

    For decision values it is the margin. For a regression it is the residual, whose distribution is close to normal.
    """
    if kind == VALUES:
        return y - answers
    if kind == DECISIONS:
        return margins(answers, y)
    rows, tiny = np.arange(len(y)), np.finfo(float).tiny
    others = np.array(answers)
    others[rows, y] = 0.0  # the sum of the other classes is more precise than 1 - p_y
    return np.log(np.maximum(answers[rows, y], tiny)) - np.log(np.maximum(others.sum(axis=1), tiny))


def log_ratio(phi: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """`log N(phi; in) - log N(phi; out)` `(k,)`, the ratio of the online attack (Carlini et al. 2022, algorithm 1).

    Args:
        phi: `(k,)`, confidences under the attacked model.
        inside, outside: `(m, k)`, under shadow models with and without the record; NaN for missing ones. With fewer
            than 16 of them, the variance is pooled over all records.
    """
    log_in, log_out = (
        scipy.stats.norm.logpdf(phi, np.nanmean(table, axis=0), _sd(table)) for table in (inside, outside)
    )
    return log_in - log_out


def one_sided(phi: np.ndarray, outside: np.ndarray, two_sided: bool = False) -> np.ndarray:
    """The score of the offline attack, larger for members (Carlini et al. 2022).

    It is `P(Z <= phi)` under the distribution without the record.

    Args:
        two_sided: for a regression's residual: `P(|Z| >= |phi|)` instead, because members have small residuals.
    """
    mean, sd = np.nanmean(outside, axis=0), _sd(outside)
    if not two_sided:
        return scipy.stats.norm.cdf(phi, mean, sd)
    return scipy.stats.norm.sf(np.abs(phi), mean, sd) + scipy.stats.norm.cdf(-np.abs(phi), mean, sd)


def _sd(table: np.ndarray) -> np.ndarray:
    """Standard deviations `(k,)`, per record, or pooled if there are few models."""
    count = (~np.isnan(table)).sum(axis=0)
    if count.min() >= _PER_RECORD:
        sd = np.nanstd(table, axis=0, ddof=1)
    else:
        centred = table - np.nanmean(table, axis=0)
        sd = np.full(table.shape[1], np.sqrt(np.nansum(centred**2) / max(count.sum() - table.shape[1], 1)))
    return np.maximum(sd, _SMALLEST)


@dataclass(frozen=True)
class LiRA(Membership):
    """The likelihood-ratio attack (Carlini et al. 2022), per challenge.

    Shadow models are trained on bootstrap samples of the auxiliary records. In the online attack every challenge is
    added to a random half of them, and the likelihood ratio of "in" and "out" decides. In the offline attack no
    challenge is added, and the answer is compared with the distribution of "out" only.

    Attributes:
        shadows: number of shadow models.
        online: whether to train shadow models with the challenges.
    """

    shadows: int = 64
    online: bool = True

    def __post_init__(self) -> None:
        if self.shadows < 4:
            raise BayesreconError(f"shadows={self.shadows}: expected at least four shadow models")

    @property
    def name(self) -> str:
        return f"LiRA, {'online' if self.online else 'offline'} ({self.shadows} shadow models)"

    def prepare(self, view: View) -> NonMembership:
        x, y, public = view.features, view.labels, view.auxiliary
        # Every challenge is in exactly half of the models, which are chosen independently for each challenge.
        ranks = view.rng.random((self.shadows, len(y))).argsort(axis=0)
        member = ranks < self.shadows // 2 if self.online else np.zeros(ranks.shape, bool)
        confidences = np.empty(member.shape)
        for i, joins in enumerate(member):
            sample = public.rows(view.rng.integers(len(public.y), size=len(public.y)))
            records = Records(np.concatenate([sample.x, x[joins]]), np.concatenate([sample.y, y[joins]]))
            confidences[i] = confidence(view.fit(records)(x), y, view.answers)
        inside, outside = np.where(member, confidences, np.nan), np.where(member, np.nan, confidences)

        def out(answers: np.ndarray) -> np.ndarray:
            phi = confidence(answers, y, view.answers)
            if not self.online:
                return 1 - one_sided(phi, outside, two_sided=view.answers == VALUES)
            # The posterior probability for equal priors would round to 0 or 1, and then tie.
            return _squashed(-log_ratio(phi, inside, outside))

        return out


def _squashed(ratio: np.ndarray) -> np.ndarray:
    """A log ratio as a score in (0, 1) that keeps the order of large ones: `1/2 + arctan(ratio) / pi`."""
    return 0.5 + np.arctan(ratio) / np.pi


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
    "lira": ("reduction to membership by confidences: LiRA, online, 64 shadow models", Reduction(LiRA(), CONFIDENCES)),
    "lira-offline": ("the same offline", Reduction(LiRA(online=False), CONFIDENCES)),
    "lira-alone": ("LiRA, online, on the model after the deletion alone", Reduction(LiRA(), ALONE)),
    "yeom": (
        "reduction to membership by labels: loss below the mean training loss",
        Reduction(LossThreshold(), LABELS),
    ),
    "shokri": ("reduction to membership by confidences: 8 shadow models", Reduction(ShadowModels(), CONFIDENCES)),
    "shokri-labels": ("the same by labels", Reduction(ShadowModels(), LABELS)),
}
