"""The measure of the records if the spectrum decays: weights on generic records, and the weighted moments."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.domains import Records
from bayesrecon.estimation.deviation import whitener
from bayesrecon.estimation.span import Fit
from bayesrecon.knowledge import Knowledge

TOTAL_ERROR = 0.3
"""Standard error of the rule that the information of all private records adds up to one, on the logarithmic scale.

The rule holds if the posterior is nearly normal. A smaller error would impose it where it does not hold. Without the
rule the number of records is not determined, and weight goes to records without information."""

MOST = 3.0
"""Largest information of a plausible record, in units of that of all data, which is about one.

A smaller limit drops a single record that outweighs the others; a larger one admits records whose likelihood
explodes."""

# Largest spread in interquartile ranges. Where a predictor saturates, records at every larger scale fit as well, and
# the largest must not carry the rest away. Data with tails as long as a lognormal distribution of scale 1.5 have less.
_LARGEST_SPREAD = 3.0
_TAIL = 0.05  # of the measure, drawn in on either side: a few far records must not carry centre and spread away
# Spread of a normal distribution after that (0.912 by its formula). It is undone: passes do not shrink the pool. A
# value a little too small widens the pool by three in a hundred; one too large cuts the tails of the data pass by pass.
_TAIL_SD = 0.888
# Of its size, the scale of a field that has one value: with none it has no standard units, and below this one rounding
# of the weights is the scale.
_CONSTANT = 1e-12
_SEEN = 0.5  # share of the draws, by weight, at which a plausible record has information
_MOST_FIELDS = 8  # unknown ones up to which each is looked at for records on which it does not matter
_NOTHING = 1e-9  # of a record's scores, by which they move with a field that does not matter: rounding


def judge_of(embedding: OneRelease) -> OneRelease:
    """The embedding in the metric in which the information of all private records adds up to about one."""
    return replace(embedding, metric=metric_factor(embedding.release, "covariance"), folds=None, progress=None)


def plausible(judge: OneRelease, least: float, most: float = MOST) -> Callable[[Records], np.ndarray]:
    """A function that selects the records that can be part of the data.

    The information of all private records adds up to about one, so no record carries much more. Records with almost no
    information are excluded too: any number of them would fit. So are those with almost none at half of the draws, by
    weight: where a predictor saturates, all of it is at the few draws that predict another response, and others see
    remnants of any size.
    """

    def accept(records: Records) -> np.ndarray:
        weights, parts = judge.informations(records)
        information, seen = parts.sum(axis=0), weights @ (parts > least * weights[:, None])
        return (information < most) & (information > least) & (seen >= _SEEN) & judge.tame(records)

    return accept


def nonnegative_weights(embedding: OneRelease, solved: Fit, information: np.ndarray) -> np.ndarray:
    """The most even weights `w >= 0` on the probes that match the target within its noise, `(Q,)`.

    `|Cov^(-1/2) (e' w - target)|^2 + |w / scale|^2`, with the largest ridge at which the first term has the size of the
    noise (the discrepancy principle). Of all measures that match, the most even one is chosen. Probes of which none
    has information, or no probes at all, explain nothing and have no weight.
    """
    import scipy.optimize  # costs a third of a second

    if not information.any():
        return np.zeros(len(information))
    # The noise at the draws themselves: with the simulated one weights can stand in the tails, and the data are lost.
    root = whitener(embedding.normal_noise(solved.basis) / embedding.effective_size)
    matrix = np.concatenate([root.T @ solved.cross.T, information[None] / TOTAL_ERROR])
    target = np.append(root.T @ solved.target, 1 / TOTAL_ERROR)
    rows, count = matrix.shape
    # From thrice what even weights would be, fourfold a step: finer steps stop nearer the noise and cost a solve each,
    # and after eight of them the ridge is gone.
    scale, tried = 3 / information.sum(), []
    # Two sigma of a chi-squared: less would fit noise, by uneven weights.
    noise = 2 * np.sqrt(2 * rows)
    for _ in range(8):
        stacked = np.concatenate([matrix, np.eye(count) / scale])
        wanted = np.concatenate([target, np.zeros(count)])
        with np.errstate(over="ignore"):  # far out values grow without bounds: such a record gets no weight
            length = np.linalg.norm(stacked, axis=0)
        try:
            weights = scipy.optimize.nnls(stacked / length, wanted, maxiter=20 * count)[0] / length
        except RuntimeError:  # no convergence: a smoother problem has been solved before, or will do
            break
        misfit = float(np.sum((matrix @ weights - target) ** 2))
        if misfit < rows + noise:
            return weights
        tried.append((misfit, weights))
        scale *= 4
    # What no weights explain is noise too: of those nearly as good as the best, the most even.
    best = min((misfit for misfit, _ in tried), default=0.0)
    return next((weights for misfit, weights in tried if misfit <= best + noise), np.zeros(count))


def matters_on(
    judge: OneRelease, records: Records, knowledge: Knowledge, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """For each unknown field, the mask `(Q,)` of the records whose scores depend on it.

    If a count is zero for another reason, for example, its covariate can have any value.
    """
    unknown = [f for f in knowledge.fields if f not in knowledge.known]
    count = len(next(iter(records.values())))
    if not 1 < len(unknown) <= _MOST_FIELDS:
        return {f: np.ones(count, bool) for f in unknown}
    atoms = judge.thinned(1)
    scores = judge.scores(records, atoms)
    mask = {}
    for f in unknown:
        permuted = judge.scores({**records, f: records[f][rng.permutation(count)]}, atoms)
        # What is no number is another one.
        mask[f] = ~(np.abs(permuted - scores).max(axis=0) <= _NOTHING * np.abs(scores).max(axis=0))
    return mask


def weighted_moments(
    records: Records, weights: np.ndarray, knowledge: Knowledge, on: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Weighted mean and spread of the unknown fields, each over the records that depend on it, with clipped tails."""
    mean, sd = {}, {}
    for f, spec in knowledge.fields.items():
        if f not in knowledge.known:
            share = weights * on[f] if weights @ on[f] > 0 else weights
            share = share / share.sum()
            values = np.asarray(records[f], float).reshape(len(share), -1)
            order = np.argsort(values, axis=0)
            below = np.cumsum(share[order], axis=0)
            low, lower, upper, high = (
                np.take_along_axis(values, order, 0)[np.argmax(below >= p, axis=0), np.arange(values.shape[1])]
                for p in (_TAIL, 0.25, 0.75, 1 - _TAIL)
            )
            values = np.clip(values, low, high)
            centre = share @ values
            spread = np.sqrt(share @ (values - centre) ** 2) / _TAIL_SD
            half = _LARGEST_SPREAD * (upper - lower)
            scattered = (half > 0) & (spread > half)
            mean[f] = np.where(scattered, 0.5 * (lower + upper), centre).reshape(spec.shape)
            least = _CONSTANT * np.abs(mean[f]) + np.finfo(float).tiny
            sd[f] = np.maximum(np.where(scattered, half, spread).reshape(spec.shape), least)
    return mean, sd
