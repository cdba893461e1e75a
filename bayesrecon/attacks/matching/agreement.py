"""Whether independent descents reach the floor of the residual, and whether they end at the same records."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayesrecon.attacks.matching.equations import Equations, Solution

SOLVED = 1e-9
"""Residual of a solution: above rounding, and far below the residual at local minima."""

_NEAR = 1e-3  # relative tolerance for the certified smallest residual
# Largest distance between two records that are the same, in units of their fields' spread. Nearly singular equations
# move the same record by less, and different records differ by more.
_SAME = 1e-3


def floor(least: float) -> float:
    """The residual at which a descent has converged: rounding, or the certified smallest value if that is larger."""
    return max(SOLVED, (1 + _NEAR) * least)


def at_floor(solutions: Sequence[Solution], least: float) -> list[Solution]:
    """The descents that ended at the floor of the residual."""
    return [solution for solution in solutions if solution.residual <= floor(least)]


def confirmed(
    equations: Equations, solutions: Sequence[Solution], least: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Which records of the best descent were found by all other descents at the floor.

    Args:
        solutions: end points of descents, the best one first.
        least: certified smallest residual.

    Returns:
        A mask `(M,)`, which is False if no other descent is at the floor. And the largest distance of every entry from
        those of the matched records, `{field: (M, *shape)}`, with "weight" if multipliers are free.
    """
    best, others = solutions[0], at_floor(solutions, least)[1:]
    best_entries = _entries(equations, best)
    count = len(next(iter(best_entries.values())))
    agree, distance = (
        np.full(count, bool(others)),
        {name: np.zeros(values.shape) for name, values in best_entries.items()},
    )
    scale = equations.spread(best.x)
    for other in others:
        other_entries = _entries(equations, other)
        distances = np.zeros((count, count))
        for name, values in best_entries.items():
            differences = np.abs(values[:, None] - other_entries[name][None]).reshape(count, count, -1) / scale[name]
            distances = np.maximum(distances, differences.max(axis=-1, initial=0.0))
        for name in best.fixed:  # records with different labels are different
            labels = np.asarray(best.fixed[name])[:, None] != np.asarray(other.fixed[name])[None]
            distances = np.where(labels.reshape(count, count, -1).any(axis=-1), np.finfo(float).max ** 0.5, distances)
        rows, columns = linear_sum_assignment(np.minimum(distances, 1.0))
        agree &= distances[rows, columns] < _SAME
        for name, values in best_entries.items():
            distance[name] = np.maximum(distance[name], np.abs(values - other_entries[name][columns]))
    return agree, distance


def _entries(equations: Equations, solution: Solution) -> dict[str, np.ndarray]:
    """The unknowns of a descent by record."""
    entries = {k: np.asarray(solution.x[k], float) for k in equations.variable_fields}
    return entries | ({"weight": np.asarray(equations.weights(solution.x), float)} if "weights" in solution.x else {})
