"""`K s = b` with K as a sum of block-diagonal layers, of persons and of items: nearly linear in their number."""

from collections.abc import Sequence

import numpy as np

from bayesrecon.attacks.records.blocks import Blocks, NotSolved
from bayesrecon.attacks.records.conjugate import Solver

_LARGE = 1500  # unknowns up to which a dense solve takes no time
_SHARE = 0.25  # of the entries of K that may lie in blocks: with more a dense factor is as good
_PROBE = 1e-6  # how well any right-hand side has to be met, and
_SINGULAR = 1e-9  # the least eigenvalue of K, in units in which it has a diagonal of ones: in every direction it tells


def is_worthwhile(sets: Sequence[np.ndarray], size: int) -> bool:
    """Whether K is so large and so sparse that its blocks are worth looking at individually."""
    return size > _LARGE and sum(len(rows) ** 2 for rows in sets) <= _SHARE * size**2


def in_layers(
    gram: Blocks, target: np.ndarray, common: object, half: tuple[Blocks, np.ndarray] | None
) -> tuple[Solver, tuple[np.ndarray, np.ndarray] | None]:
    """A solver for K, and the solutions of the halves of the draws, None if a half does not show all.

    Args:
        gram, target: K and b.
        common: as `Solver.common`.
        half: the first half's part of them.

    Raises:
        NotSolved: K is singular, or close to it.
    """
    size = gram.size
    solver = Solver(gram, gram.inverse(), common, np.zeros(size))
    unit = np.sqrt(gram.diagonals().sum(axis=0))
    if not unit.min() > 0:
        raise NotSolved
    # A right-hand side of no particular kind, and where that goes when it is sent through the inverse again and again.
    x = np.random.default_rng(0).choice([-1.0, 1.0], size)
    for _ in range(2):
        x = solver(unit * x / np.linalg.norm(x), residual=_PROBE) * unit
        if np.linalg.norm(x) > 1 / _SINGULAR:
            raise NotSolved
    if half is None:
        return solver, None
    first, at = half
    try:
        result = []
        for k, b in ((first, at), (gram.with_(first, np.subtract), target - at)):
            result.append(Solver(k, solver.inverse, common, np.zeros(size), share=2.0)(b))
    except NotSolved:
        return solver, None
    return solver, (result[0], result[1])
