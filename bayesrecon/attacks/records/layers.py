"""Solve `K s = b` with K as a sum of block-diagonal layers, such as persons and items, in nearly linear time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.attacks.records.blocks import Blocks, NotSolved
from bayesrecon.attacks.records.conjugate import Solver

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_LARGE = 1500  # with fewer unknowns a dense solve takes no time
_SHARE = 0.25  # largest share of the entries of K in blocks: with more, a dense factor is as fast
_PROBE = 1e-6  # relative residual for random right-hand sides
_SINGULAR = 1e-9  # smallest eigenvalue of K, scaled to a unit diagonal


def is_worthwhile(sets: Sequence[np.ndarray], size: int) -> bool:
    """Whether K is so large and sparse that the layers are faster than a dense solve."""
    return size > _LARGE and sum(len(rows) ** 2 for rows in sets) <= _SHARE * size**2


def in_layers(
    gram: Blocks, target: np.ndarray, common: "csr_array", half: tuple[Blocks, np.ndarray] | None
) -> tuple[Solver, tuple[np.ndarray, np.ndarray] | None]:
    """A solver for K, and the solutions from the halves of the draws (None if K is singular for one half).

    Args:
        gram: K.
        target: b.
        common: as in `Solver`.
        half: K and b of the first half of the draws.

    Raises:
        NotSolved: K is singular, or close to it.
    """
    size = gram.size
    solver = Solver(gram, gram.inverse(), common, np.zeros(size))
    unit = np.sqrt(gram.diagonals().sum(axis=0))
    if not unit.min() > 0:
        raise NotSolved
    # Power iteration with the inverse, from a random vector.
    x = np.random.default_rng(0).choice([-1.0, 1.0], size)
    for _ in range(2):
        x = solver(unit * x / np.linalg.norm(x), residual=_PROBE) * unit
        if np.linalg.norm(x) > 1 / _SINGULAR:
            raise NotSolved
    if half is None:
        return solver, None
    first_gram, first_target = half
    try:
        result = []
        halves = (first_gram, first_target), (gram.with_(first_gram, np.subtract), target - first_target)
        for k, b in halves:
            result.append(Solver(k, solver.inverse, common, np.zeros(size), multiple=2.0)(b))
    except NotSolved:
        return solver, None
    return solver, (result[0], result[1])
