"""LiRA: normal distributions of a record's confidence under shadow models with and without it."""

from dataclasses import dataclass

import numpy as np
import scipy.stats

from bayesrecon.errors import BayesreconError
from bayesrecon.games.adversaries.reduction import ALONE, CONFIDENCES, Reduction
from bayesrecon.games.answers import DECISIONS, VALUES, margins
from bayesrecon.games.data import Records
from bayesrecon.games.membership import Membership, NonMembership
from bayesrecon.games.view import View

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


ADVERSARIES = {
    "lira": ("reduction to membership by confidences: LiRA, online, 64 shadow models", Reduction(LiRA(), CONFIDENCES)),
    "lira-offline": ("the same offline", Reduction(LiRA(online=False), CONFIDENCES)),
    "lira-alone": ("LiRA, online, on the model after the deletion alone", Reduction(LiRA(), ALONE)),
}
