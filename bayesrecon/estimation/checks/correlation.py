"""Whether any parameters are correlated."""

from statistics import NormalDist

import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.releases import PosteriorDraws
from bayesrecon.running.draws_on_disk import as_rows, column_blocks, mean_and_covariance

_ALONE = 0.01  # chance that uncorrelated parameters are not seen as such


def uncorrelated(release: PosteriorDraws) -> tuple[str, ...]:
    """A warning if no two parameters are correlated, which is rare in posteriors and the rule in mean-field fits."""
    theta, weights, chain = as_rows(release.theta), np.asarray(release.weights), np.asarray(release.chain)
    d = theta.shape[1]
    if d < 2:
        return ()
    covariance = mean_and_covariance(theta, weights)[1]
    sd = np.sqrt(np.diag(covariance))
    sizes = np.concatenate([effective_sample_size(part, chain) for _, part in column_blocks(theta)])
    size = 1 / np.sum(weights**2) * np.median(sizes) / len(theta)
    correlation = covariance / sd / sd[:, None] - np.eye(d)
    pairs = d * (d - 1) / 2
    if np.abs(correlation).max() * np.sqrt(size) > -NormalDist().inv_cdf(_ALONE / pairs / 2):
        return ()
    return (
        "no two parameters are correlated: is this a mean-field variational fit? Its draws are not posterior draws, "
        "which checks cannot always detect; `bayesrecon.posteriors.gaussian` reads its mean and covariance",
    )
