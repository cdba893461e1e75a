"""Does the stated number of records agree with the draws?"""

import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.estimation.problem import Problem

_UNSEEN, _SURE = 0.03, 6.0  # of a count that is seen; standard errors beyond which it is another one


def miscounted(problem: Problem) -> tuple[str, ...]:
    """A warning if the stated number of records differs from the estimate without it."""
    stated, solved = problem.knowledge.total, problem.solved
    if stated is None:
        return ()
    ones = np.ones((len(next(iter(solved.probes.values()))), 1))
    projection = solved.project(ones)
    unseen = float(np.sqrt(np.mean((ones - projection.fitted) ** 2)))
    if unseen > _UNSEEN:
        return ()
    series, weights = np.asarray(solved.influence(projection.beta)[0]), problem.embedding.weights
    (size,) = effective_sample_size(series, np.asarray(problem.release.chain))
    error = float(np.sqrt(weights @ (series[:, 0] - weights @ series[:, 0]) ** 2 / size))
    estimated = float((solved.target @ projection.beta)[0])
    if abs(estimated - stated) <= _SURE * error + unseen * stated:
        return ()
    return (
        f"{stated:g} records were stated, but the draws show {estimated:.4g} with a standard error of {error:.2g}: "
        "the results may be wrong",
    )
