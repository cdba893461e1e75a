"""Pointwise log likelihoods without a model: the number of records, groups of similar ones, and outliers."""

from dataclasses import dataclass

import numpy as np

from bayesrecon.diagnostics import evenly

_MOST = 2000  # largest number of records that are clustered
_COMPONENTS, _CLUSTERS = 3, 6  # number of principal components, and largest number of clusters
_OUTLYING = 5.0  # robust standard deviations from the median to an outlier


@dataclass(frozen=True, eq=False)
class ColumnSummary:
    """A first look at columns `(K, N)` of log likelihoods.

    Attributes:
        count: N.
        groups: sets of records (positions) whose columns are equal, the largest first.
        outliers: positions of records whose mean log likelihood is far below the others'.
        clusters: number of groups of similar records, from a Gaussian mixture chosen by BIC.
        rank: number of features of a record that the columns determine.
    """

    count: int
    groups: tuple[tuple[int, ...], ...]
    outliers: tuple[int, ...]
    clusters: int
    rank: int

    @property
    def identical(self) -> int:
        """Number of records that share their column with another one."""
        return sum(map(len, self.groups))


def summarise_columns(columns: np.ndarray, key: int = 0) -> ColumnSummary:
    """Compare the columns `(K, N)` with each other."""
    order: dict[bytes, list[int]] = {}
    for n in range(columns.shape[1]):
        order.setdefault(np.ascontiguousarray(columns[:, n]).tobytes(), []).append(n)
    groups = sorted((tuple(g) for g in order.values() if len(g) > 1), key=len, reverse=True)
    mean = columns.mean(axis=0)
    middle = np.median(mean)
    spread = 1.4826 * np.median(np.abs(mean - middle))
    outliers = tuple(np.flatnonzero(mean < middle - _OUTLYING * spread).tolist()) if spread > 0 else ()
    centred = columns - columns.mean(axis=1, keepdims=True)
    sample = centred[:, evenly(columns.shape[1], _MOST)]
    _, singular, right = np.linalg.svd(sample, full_matrices=False)
    rank = int((singular > 1e-5 * max(float(singular[0]), 1e-300)).sum()) if singular.size else 0
    clusters = _clusters(right[:_COMPONENTS].T * singular[:_COMPONENTS], key) if rank else 1
    return ColumnSummary(columns.shape[1], tuple(groups), outliers, clusters, rank)


def _clusters(points: np.ndarray, key: int) -> int:
    """Number of normal distributions that describe the points `(N, c)` best, by BIC."""
    import warnings

    from sklearn.mixture import GaussianMixture

    # Robust scales, with extreme values clipped: with raw scales, a single extreme point would dominate.
    scale = np.median(np.abs(points - np.median(points, axis=0)), axis=0)
    usable = scale > 0
    if len(points) < 20 or not usable.any():
        return 1
    scaled = np.clip((points[:, usable] - np.median(points[:, usable], axis=0)) / scale[usable], -20, 20)
    fits = [
        GaussianMixture(k, reg_covar=1e-3, random_state=key, n_init=1, max_iter=50, tol=1e-2)
        for k in range(1, _CLUSTERS + 1)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence does not matter for the number of clusters
        return 1 + int(np.argmin([f.fit(scaled).bic(scaled) for f in fits]))
