"""Whether draws are normal, as from an approximation: a hint for draws that disagree with the model."""

import numpy as np

from bayesrecon.diagnostics import evenly
from bayesrecon.estimation.scored import ScoredDraws

_FEWEST, _EACH = 100, 20  # draws, in all and for every parameter, from which they show whether they are normal
_LIKELY = 0.05  # chance of as much skewness or kurtosis, above which a normal distribution is taken for theirs
READ = (
    "The draws are as normal as those of a variational fit or a Laplace approximation: if they are, read their mean "
    "and covariance as one, with `bayesrecon.posteriors.gaussian`"
)
"""The hint for draws of a normal distribution."""

_MOST = 2**18  # draws that are looked at: what a million show of an approximation, a quarter of them does


def normal(draws: ScoredDraws) -> bool:
    """Whether draws are consistent with a normal distribution, by skewness and kurtosis of every principal component.

    The test of D'Agostino and Pearson (1973) assumes independent draws, as those of an approximation are.
    """
    size = len(draws.weights)
    some = evenly(size, min(size, _MOST))
    theta, weights = draws.theta[some], draws.weights
    if len(theta) < _FEWEST or theta.shape[1] > len(theta) // _EACH or np.ptp(weights) > 0:
        return False
    from scipy import stats

    t = (theta - theta.mean(axis=0)) / theta.std(axis=0)
    components = t @ np.linalg.eigh(t.T @ t)[1]
    return bool(stats.normaltest(components).pvalue.min() * theta.shape[1] > _LIKELY)
