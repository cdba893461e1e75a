"""The release as linear equations for the amplitudes s of the rows' features.

With the base records held by every row, what is unknown is `sum_m s_m f_m`, and integration by parts gives

    K s = b,   K_mm' = E[<phi_m, phi_m'>],   b_m = -E[tau lap f_m + <phi_m, g>],

phi_m the gradient of f_m in the coordinates of its slots and g that of the base posterior. Rows without a common
coordinate have no product, so that a person-by-item table needs a product per person and one per item. Memory is K
and a block of draws.
"""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, NotSolved, layered
from bayesrecon.attacks.records.dense import halves_of, solved
from bayesrecon.attacks.records.layers import in_layers, is_worthwhile
from bayesrecon.attacks.records.slots import Slots
from bayesrecon.errors import BayesreconError, check_memory, memory
from bayesrecon.estimation.scored import summed
from bayesrecon.kernels.score import Pairs, base_scores, curvatures
from bayesrecon.kernels.touched import scatter
from bayesrecon.model import Progress, Records
from bayesrecon.precision import x64
from bayesrecon.releases import Release

if TYPE_CHECKING:
    from scipy.sparse import csr_array


blas: Any = scipy.linalg.blas

REMEDY = "supply fewer known rows: those of the units of interest, or a part at a time"

_BLOCK = 2**23  # doubles in a block of derivatives
_KEPT = 6  # derivatives up to this part of the machine's memory are kept for errors and checks, not computed again
_FEWEST, _MOST = 128, 1024  # draws in a block: enough for a product to pay, few enough to fit
_COPIES = 8  # of the blocks of K that are held at once
_AHEAD = 2  # blocks that are computed ahead


@dataclass(frozen=True)
class System:
    """`K s = b` with the distribution of its noise.

    Attributes:
        gram: `(M, M)` K, an array or a sum of layers.
        target: `(M,)` b.
        mean: `(q, M)` mean derivatives by slot.
        solution: `(M,)` s, of least norm where K is singular.
        visible: `(M, r)` orthonormal directions that K determines, in the units of `units_of`; None when those are all.
        solve: K^+ applied to further right-hand sides.
        halves: solutions `(M,)` from either half of the draws alone, None if a half does not show all that the whole
            does.
        split: number of draws in the first half.
        kept: the blocks of derivatives, where they are few enough to keep.
        common: `(M, c)` what all rows of a set do together, sparse.
    """

    release: Release
    slots: Slots
    base: Records
    pairs: Pairs
    gram: np.ndarray | Blocks
    target: Float[np.ndarray, " M"]
    mean: Float[np.ndarray, "q M"]
    solution: Float[np.ndarray, " M"]
    visible: Float[np.ndarray, "M r"] | None
    solve: Callable[[np.ndarray], np.ndarray]
    halves: tuple[np.ndarray, np.ndarray] | None
    split: int
    kept: list[Any]
    common: "csr_array"
    _score: list[np.ndarray] = field(default_factory=list, repr=False)  # of the solution, from the pass for errors

    @property
    def disagreement(self) -> Float[np.ndarray, " M"] | None:
        """`(M,)` what is expected to have the covariance of the solution's noise: the difference of the halves'
        solutions, times the root of the product of their weights."""
        if self.halves is None:
            return None
        share = float(np.sum(np.asarray(self.release.weights)[: self.split]))
        return (self.halves[0] - self.halves[1]) * np.sqrt(share * (1 - share))

    def influence(self, columns: Float[np.ndarray, "M S"], progress: Progress | None = None) -> np.ndarray:
        """Per-draw influence on `columns' s`, `(T, S)`, for `columns (M, S)`."""
        slots = self.slots
        directions = self.solve(columns)
        result = np.empty((self.release.size, columns.shape[1]))
        at, score = 0, []
        into = [scatter(column, len(slots.directions)) for column in slots.index.T]
        for d, lap, u, n in self._again("estimating errors", progress):
            total = self._total(into, d, u)
            score.append(total[:n])
            r = np.array(lap)
            for x, share in zip(into, d, strict=True):
                r += share * (x.T @ total.T).T
            result[at : at + n] = -(r @ directions)[:n]
            at += n
        self._score[:] = [np.concatenate(score)]
        return result

    def scores(self, solution: np.ndarray | None = None) -> np.ndarray:
        """Score of the reconstructed posterior along the directions, `(T, k + u)`; that of another solution."""
        if solution is None and self._score:
            return self._score[0]
        into = [scatter(column, len(self.slots.directions)) for column in self.slots.index.T]
        return np.concatenate([self._total(into, d, u, solution)[:n] for d, _, u, n in self._again("checks", None)])

    def moved(self, h: np.ndarray, j: np.ndarray, into: np.ndarray) -> np.ndarray:
        """As `stein.Moved`: by which errors of the solution move identities."""
        count, heavy = into.max(initial=-1) + 1, h * np.asarray(self.release.weights)[:, None]
        # Of a coordinate: the rows of every slot that move with it, and the functions that go into every number.
        parts = []
        for c in np.unique(j):
            own = np.flatnonzero(j == c)
            numbers, at_number = np.unique(into[own], return_inverse=True)
            rows = [np.flatnonzero(column == c) for column in self.slots.index.T]
            parts.append((rows, numbers, summed(heavy[:, own], at_number)))
        values, at = np.zeros((len(self.solution), count)), 0
        for d, _, _, n in self._again("checks", None):
            for rows, numbers, functions in parts:
                for share, own in zip(d, rows, strict=True):
                    if own.size:
                        values[np.ix_(own, numbers)] += share[:n, own].T @ functions[at : at + n]
            at += n
        return self.influence(values)

    def _again(self, label: str, progress: Progress | None) -> Any:
        return self.kept or _blocks(self.release, self.slots, self.base, self.pairs, label, progress)

    def _total(
        self, into: "list[csr_array]", d: np.ndarray, u: np.ndarray, solution: np.ndarray | None = None
    ) -> np.ndarray:
        """Base and rows together: the score of the reconstructed posterior along the directions."""
        total = np.array(u)
        for x, share in zip(into, d, strict=True):
            total += (x @ (share * (self.solution if solution is None else solution)).T).T
        return total


def make_system(
    release: Release,
    slots: Slots,
    base: Records,
    pairs: Pairs,
    progress: Progress | None = None,
    layers: bool = False,
) -> System:
    """One pass over the draws, and the solve.

    Args:
        layers: whether K may be kept as a sum of block-diagonal layers, where that pays: every row has one feature.
    """
    size, sharing = len(slots.index), slots.sharing()
    sets = [rows for _, rows in sharing]
    layers = layers and is_worthwhile(sets, size)
    numbers = sum(len(rows) ** 2 for rows in sets) if layers else size**2
    check_memory((_COPIES if layers else 2) * 8 * numbers, f"{size} unknowns of the known rows", REMEDY)
    mean, target = np.zeros((slots.width, size)), np.zeros(size)
    parts = [np.zeros((len(rows), len(rows)), order="F") for rows in sets]
    weights, at = np.asarray(release.weights), 0
    kept = []
    keep = 8 * release.size * size * (slots.width + 1) <= memory() // _KEPT
    half: tuple[Any, np.ndarray] | None = None
    split = 0
    assembled = partial(layered, sets, size=size) if layers else partial(_assembled, sets, size=size)
    for block in _blocks(release, slots, base, pairs, "summing over the draws", progress):
        if keep:
            kept.append(block)
        d, lap, u, n = block
        a_t = np.zeros(len(u))
        a_t[:n] = weights[at : at + n]
        at += n
        target -= a_t @ lap
        for a, index in enumerate(slots.index.T):
            target -= a_t @ (d[a] * u[:, index])
        mean += np.einsum("t,atm->am", a_t, d)
        root = np.sqrt(a_t)[:, None]
        for i, (together, rows) in enumerate(sharing):
            x = np.concatenate([d[a][:, rows] * root for a in together])
            parts[i] = blas.dsyrk(1.0, x.T, beta=1.0, c=parts[i], lower=1, overwrite_c=1)
        if half is None and 2 * at >= release.size > at:
            half, split = (assembled([_mirrored(part.copy(order="F")) for part in parts]), target.copy()), at
    gram = assembled([_mirrored(part) for part in parts])
    del parts
    diagonal = gram.diagonals().sum(axis=0) if isinstance(gram, Blocks) else np.diag(gram)
    if not (np.isfinite(diagonal).all() and np.isfinite(target).all()):
        raise BayesreconError("the scores of the known rows overflow; narrow domain=")
    common = slots.common(mean)
    if isinstance(gram, Blocks):
        try:
            solver, halves = in_layers(gram, target, common, half)
        except NotSolved:
            check_memory(2 * 8 * size**2, f"{size} unknowns of the known rows", REMEDY)
            gram = gram.dense()
            half = half and (half[0].dense(), half[1])
        else:
            rest = halves, split, kept, common
            return System(release, slots, base, pairs, gram, target, mean, solver(target), None, solver, *rest)
    solution, visible, solve = solved(gram, target)
    halves = None if half is None else halves_of(gram, target, visible, *half)
    return System(
        release, slots, base, pairs, gram, target, mean, solution, visible, solve, halves, split, kept, common
    )


def _mirrored(part: np.ndarray) -> np.ndarray:
    """A symmetric array of which the lower triangle was there."""
    for i in range(len(part)):
        part[i, i + 1 :] = part[i + 1 :, i]
    return part


def _assembled(sets: list[np.ndarray], parts: list[np.ndarray], size: int) -> np.ndarray:
    """The sum of the parts on their rows; what all rows share becomes the array itself."""
    full = next((part for part in parts if len(part) == size), None)
    result = np.zeros((size, size)) if full is None else full.T
    for rows, part in zip(sets, parts, strict=True):
        if part is not full:
            result[np.ix_(rows, rows)] += part
    return result


def _blocks(
    release: Release, slots: Slots, base: Records, pairs: Pairs, label: str, progress: Progress | None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Derivatives `(q, C, M)`, tempered Laplacians `(C, M)`, the base score along the directions `(C, k + u)`."""
    theta = np.asarray(release.theta)
    chunk = int(np.clip(_BLOCK // max(slots.width * len(slots.index), 1), _FEWEST, _MOST))
    chunk = min(chunk, -(-len(theta) // 2))  # two blocks at least, of two halves

    def derivatives(start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        block = theta[start : start + chunk]
        n = len(block)
        if n < chunk:
            block = np.concatenate([block, np.repeat(block[-1:], chunk - n, axis=0)])
        with x64():  # the scope belongs to the thread
            d, lap = map(np.asarray, curvatures(release.model, block, pairs, slots.colours))
            score = np.asarray(base_scores(release.model, release.temperature, block, base))
        u = score @ slots.directions.T
        if not (np.isfinite(d).all() and np.isfinite(u).all()):
            raise BayesreconError("the likelihood of a known row is not differentiable at some draw; narrow domain=")
        return d, release.temperature * lap, u, n

    starts = range(0, len(theta), chunk)
    # Sweeps run on one core each: the next blocks are computed while this one is summed.
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting = deque(pool.submit(derivatives, start) for start in starts[:_AHEAD])
        for i in range(len(starts)):
            ready = waiting.popleft().result()
            if i + _AHEAD < len(starts):
                waiting.append(pool.submit(derivatives, starts[i + _AHEAD]))
            yield ready
            if progress is not None:
                progress(label, (i + 1) / len(starts))
