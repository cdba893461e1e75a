"""Whether independent descents reach the floor of the residual, and whether they end at the same records."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesrecon.attacks.matching.equations import Equations, Solution

# Residual at which nothing is left to match: above where rounding may stop a solved descent, or no solution is one; far
# below where local minima end, or one of them is taken for a solution.
SOLVED = 1e-9
# Distance from the certified least residual that is its floor, relative: rounding of the certificate and the descent.
_NEAR = 1e-3
# Distance at which two records are one, in units of their fields' spread: more than the ends of two descents differ by
# where the equations are close to singular, less than different records do.
_SAME = 1e-3


def floor(least: float) -> float:
    """The residual at which a descent is done: rounding, or the certified least value where that is above it."""
    return max(SOLVED, (1 + _NEAR) * least)


def at_floor(solutions: Sequence[Solution], least: float) -> list[Solution]:
    """The descents that ended at the floor of the residual."""
    return [solution for solution in solutions if solution.residual <= floor(least)]


def confirmed(
    equations: Equations, solutions: Sequence[Solution], least: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Which records of the best descent all other descents at the floor found too, and how far these are apart.

    Args:
        solutions: end points of descents, the best one first.
        least: certified least residual.

    Returns:
        `(M,)`, all false where the best one is not at the floor or is alone there; and the largest distance of every
        entry, `{field: (M, *shape)}` and "weight" where multipliers are free, from the records assigned to it.
    """
    best, others = solutions[0], at_floor(solutions, least)[1:]
    best_entries = _entries(equations, best)
    count = len(next(iter(best_entries.values())))
    alike, apart = np.full(count, bool(others)), {k: np.zeros(v.shape) for k, v in best_entries.items()}
    scale = equations.spread(best.x)
    for other in others:
        other_entries = _entries(equations, other)
        far = np.zeros((count, count))
        for k, v in best_entries.items():
            gaps = np.abs(v[:, None] - other_entries[k][None]).reshape(count, count, -1) / scale[k]
            far = np.maximum(far, gaps.max(axis=-1, initial=0.0))
        for k in best.fixed:  # a record with another label is another record
            labels = np.asarray(best.fixed[k])[:, None] != np.asarray(other.fixed[k])[None]
            far = np.where(labels.reshape(count, count, -1).any(axis=-1), np.finfo(float).max ** 0.5, far)
        rows, columns = linear_sum_assignment(np.minimum(far, 1.0))
        alike &= far[rows, columns] < _SAME
        for k, v in best_entries.items():
            apart[k] = np.maximum(apart[k], np.abs(v - other_entries[k][columns]))
    return alike, apart


def _entries(equations: Equations, end: Solution) -> dict[str, np.ndarray]:
    """The unknowns of a descent, record by record."""
    entries = {k: np.asarray(end.x[k], float) for k in equations.variable_fields}
    return entries | ({"weight": np.asarray(equations.weights(end.x), float)} if "weights" in end.x else {})
