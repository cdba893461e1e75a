"""A joint test of everything that a release determines about its data, against the truth."""

from dataclasses import dataclass
from typing import Unpack

import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.divergence.metrics import Metric
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress, Records
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release

_BATCHES = 6  # batches per total: enough for their covariance, with batches as long as possible
_SHORTEST = 10  # smallest number of draws per batch


@dataclass(frozen=True)
class JointTest:
    """Squared distance of the recovered totals from the true ones, in the metric of their covariance.

    Attributes:
        statistic: Hotelling's `T2 = (t - t0)' C^-1 (t - t0)`, with C estimated from B batch means.
        freedom: number of independent totals r.
        residual_freedom: `B - r`.
        ratio: `T2 (B - r) / ((B - 1) r)`, which has an F distribution with r and B - r degrees of freedom.
        probability: p-value by this distribution.
    """

    statistic: float
    freedom: int
    residual_freedom: int
    ratio: float
    probability: float


@in_float64
def joint_test(
    release: Release,
    records: Records,
    *,
    metric: Metric | str | None = None,
    key: Key = 0,
    progress: Progress | None = None,
    **knows: Unpack[Knows],
) -> JointTest:
    """Test whether all recovered totals together agree with the private records.

    The errors of single statistics depend on each other: if one sum is wrong, all statistics made of it are. The draws
    determine r independent totals. Their covariance C is estimated from means of consecutive draws (batch means). The
    squared distance of these totals from those of the records follows Hotelling's distribution.

    Args:
        records: `{field: (N, *shape)}`, the private data.
        metric, key, progress, knows: as in `recover`.
    """
    solved = solve_release(release, metric, key=key, progress=progress, **knows).solved
    if not solved.spectrum.gap:
        raise BayesreconError(f"{release.name}: the spectrum decays, so totals are seen in part and have no joint test")
    required = _BATCHES * _SHORTEST * solved.basis.size
    if release.size < required:
        raise BayesreconError(
            f"{release.name}: {release.size} draws are too few for a joint test, which needs {required}"
        )
    if missing := [name for name in release.model.fields if name not in records]:
        raise BayesreconError(f"the records lack field {missing[0]!r}")
    arrays = {name: np.asarray(records[name], float) for name in release.model.fields}
    true = solved.embedding.cross(solved.basis, arrays).sum(axis=0)
    means = _batches(solved.influence(np.eye(len(true)))[0], np.asarray(release.chain), np.asarray(release.weights))
    scale = means.std(axis=0)
    error = (solved.target - true) / scale
    statistic = float(error @ np.linalg.solve(np.cov((means / scale).T) / len(means), error))
    freedom = len(true)
    residual_freedom = len(means) - freedom
    from scipy.special import fdtrc

    ratio = statistic * residual_freedom / ((len(means) - 1) * freedom)
    return JointTest(statistic, freedom, residual_freedom, ratio, float(fdtrc(freedom, residual_freedom, ratio)))


def _batches(series: np.ndarray, chain: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Batch means `(B, r)`, about six per total, so that batches are longer than the autocorrelation."""
    count, means = _BATCHES * series.shape[1], []
    for number in np.unique(chain):
        rows = np.flatnonzero(chain == number)
        for part in np.array_split(rows, max(1, round(count * len(rows) / len(series)))):
            means.append(np.average(series[part], axis=0, weights=weights[part]))
    return np.asarray(means)
