"""The release as linear equations for the amplitudes s of the rows' features.

If every row is the base record, the unknown part of the log posterior is `sum_m s_m f_m`. Integration by parts gives

    K s = b,   K_mm' = E[<phi_m, phi_m'>],   b_m = -E[tau lap f_m + <phi_m, g>],

where phi_m is the gradient of f_m in the coordinates of its slots, and g the gradient of the base posterior. Rows
without a common coordinate have no product. So a person-by-item table needs one product per person and one per item.
Memory is needed for K and a block of draws.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, NotSolved, Solver, layered
from bayesrecon.attacks.records.rows import RowParameters
from bayesrecon.divergence.score import Pairs, base_scores, curvatures
from bayesrecon.divergence.touched import scatter
from bayesrecon.errors import BayesreconError, check_memory, memory
from bayesrecon.estimation.scored import summed
from bayesrecon.estimation.standard import Rows
from bayesrecon.model import Progress, Records
from bayesrecon.precision import x64
from bayesrecon.releases import Release

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Solve `K s = b` with K as one dense array: exact, in cubic time.

lapack: Any = scipy.linalg.lapack

_ZERO = 1e-11  # eigenvalues of K below this share of the largest are rounding
_PIVOT = 1e-13  # pivots below this are rounding, if K has a unit diagonal
_LOW = 0.5  # if the rank is below this share of the size, a pivoted Cholesky factor is faster than all eigenvectors
_CONSTANT = 1e-20  # features with a smaller diagonal of K, relative to the largest, are constant over the draws


def units_of(gram: np.ndarray) -> Float[np.ndarray, " M"]:
    """Scales in which K has a unit diagonal, or a smaller one for features that vary only by rounding."""
    diagonal = np.diag(gram)
    return np.sqrt(np.maximum(diagonal, max(_CONSTANT * diagonal.max(), 1e-300)))


def solved(
    gram: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, Callable[[np.ndarray], np.ndarray]]:
    """Least-norm solution for K scaled to a unit diagonal.

    Returns:
        The solution `(M,)`, the directions `(M, r)` that K determines (None if all), and a solver for further
        right-hand sides.
    """
    unit = units_of(gram)
    scaled = gram / unit[:, None] / unit

    def in_units(solve: Callable[[np.ndarray], np.ndarray], right: np.ndarray) -> np.ndarray:
        scale = unit if right.ndim == 1 else unit[:, None]
        return solve(right / scale) / scale

    factor, info = lapack.dpotrf(scaled, lower=1, clean=0)
    if not info:
        rcond, info = lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
        if rcond > _ZERO:

            def solve(right: np.ndarray) -> np.ndarray:
                return in_units(lambda x: scipy.linalg.cho_solve((factor, True), x, check_finite=False), right)

            return solve(target), None, solve
    values, vectors = _spectrum(scaled)
    nonzero = values > _ZERO * values[-1]
    basis = vectors[:, nonzero]

    def solve_nonzero(right: np.ndarray) -> np.ndarray:
        return in_units(lambda x: basis @ ((basis.T @ x).T / values[nonzero]).T, right)

    return solve_nonzero(target), (None if basis.shape[1] == len(basis) else basis), solve_nonzero


def _spectrum(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues in ascending order, and eigenvectors. For a matrix of low rank, only those above rounding."""
    factor, order, rank, _ = lapack.dpstrf(scaled, lower=1, tol=_PIVOT)
    if not 0 < rank <= _LOW * len(scaled):
        return scipy.linalg.eigh(scaled, check_finite=False)
    # K = L L' with few columns: its eigenvectors are the left singular vectors of L.
    tall = np.empty((len(scaled), rank))
    tall[order - 1] = np.tril(factor[:, :rank])
    vectors, singular, _ = scipy.linalg.svd(tall, full_matrices=False, check_finite=False)
    return singular[::-1] ** 2, vectors[:, ::-1]


def halves_of(
    gram: np.ndarray, target: np.ndarray, visible: np.ndarray | None, first: np.ndarray, first_target: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Solutions from each half of the draws, as in `System.halves`.

    Args:
        first: K of the first half of the draws. It is overwritten.
        first_target: b of the first half of the draws.
    """
    unit = units_of(gram)
    first /= unit
    first /= unit[:, None]
    second = gram / unit
    second /= unit[:, None]
    second -= first
    solutions = []
    for k, b in ((first, first_target / unit), (second, (target - first_target) / unit)):
        if visible is not None:
            k, b = visible.T @ k @ visible, visible.T @ b
        factor, info = lapack.dpotrf(k.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return None
        x = scipy.linalg.cho_solve((factor, True), b, check_finite=False)
        solutions.append((x if visible is None else visible @ x) / unit)
    return solutions[0], solutions[1]


blas: Any = scipy.linalg.blas

REMEDY = "supply fewer known rows: those of the units of interest, or a part at a time"

_BLOCK = 2**20  # doubles in a block of derivatives, of which a sweep holds some ten copies
_KEPT = 6  # derivatives that fit into the machine's memory divided by this are kept for errors and checks
_FEWEST, _MOST = 32, 1024  # draws in a block
_COPIES = 8  # copies of the blocks of K in memory
_AHEAD = 2  # blocks that are computed in advance


Block = tuple[np.ndarray, np.ndarray, np.ndarray, int]
"""Derivatives `(q, C, M)`, tempered Laplacians `(C, M)`, base scores `(C, k + u)`, and the number of draws,
at most C."""


@dataclass(frozen=True)
class System:
    """`K s = b` and its solution.

    Attributes:
        base: the rows with the base value.
        pairs: the rows' features, as in `divergence.score`.
        gram: K `(M, M)`, an array or a sum of layers.
        target: b `(M,)`.
        mean: `(q, M)` mean derivatives in each slot.
        solution: s `(M,)`, of least norm if K is singular.
        visible: `(M, r)` orthonormal directions that K determines, in the units of `units_of`; None if K is regular.
        solve: applies K^+ to further right-hand sides.
        halves: solutions `(M,)` from each half of the draws; None if one half determines fewer directions.
        split: number of draws in the first half.
        kept: blocks of derivatives for errors and checks, in single precision; empty if they do not fit into memory.
        common: `(M, c)` sparse vectors of the common movements of the rows of a set.
    """

    release: Release
    slots: RowParameters
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
    kept: list[Block]
    common: "csr_array"
    _score: list[np.ndarray] = field(default_factory=list, repr=False)  # of the solution, from the pass for errors

    @property
    def disagreement(self) -> Float[np.ndarray, " M"] | None:
        """A vector whose expected outer product is the covariance of the solution's noise.

        It is the difference of the halves' solutions, times the square root of the product of their weights.
        """
        if self.halves is None:
            return None
        share = float(np.sum(np.asarray(self.release.weights)[: self.split]))
        return (self.halves[0] - self.halves[1]) * np.sqrt(share * (1 - share))

    def influence(self, columns: Float[np.ndarray, "M S"], progress: Progress | None = None) -> np.ndarray:
        """Influence of each draw on `columns' s`, `(T, S)`."""
        slots = self.slots
        directions = self.solve(columns)
        result = np.empty((self.release.size, columns.shape[1]))
        start, score = 0, []
        into = [scatter(column, len(slots.directions)) for column in slots.index.T]
        for derivatives, laplacian, base_score, count in self._again("estimating errors", progress):
            total = self._total(into, derivatives, base_score)
            score.append(total[:count])
            residual = np.array(laplacian, float)
            for into_slot, derivative in zip(into, derivatives, strict=True):
                residual += derivative * (into_slot.T @ total.T).T
            result[start : start + count] = -(residual @ directions)[:count]
            start += count
        self._score[:] = [np.concatenate(score)]
        return result

    def scores(self, solution: np.ndarray | None = None) -> np.ndarray:
        """Scores `(T, k + u)` of the posterior of a solution (by default the own one) along `slots.directions`."""
        if solution is None and self._score:
            return self._score[0]
        into = [scatter(column, len(self.slots.directions)) for column in self.slots.index.T]
        return np.concatenate([self._total(into, d, u, solution)[:n] for d, _, u, n in self._again("checks", None)])

    def moved(self, functions: Rows, coordinates: np.ndarray, into: np.ndarray) -> np.ndarray:
        """Influence of errors of the solution on identities, as in `estimation.scored.Moved`."""
        count = into.max(initial=-1) + 1
        weighted = np.asarray(functions) * np.asarray(self.release.weights)[:, None]
        # For each coordinate: the rows that depend on it, and the functions that enter each number.
        parts = []
        for coordinate in np.unique(coordinates):
            selected = np.flatnonzero(coordinates == coordinate)
            numbers, number_of = np.unique(into[selected], return_inverse=True)
            rows = [np.flatnonzero(column == coordinate) for column in self.slots.index.T]
            parts.append((rows, numbers, summed(weighted[:, selected], number_of)))
        values, start = np.zeros((len(self.solution), count)), 0
        for derivatives, _, _, block_size in self._again("checks", None):
            for rows, numbers, sums in parts:
                for derivative, selected in zip(derivatives, rows, strict=True):
                    if selected.size:
                        values[np.ix_(selected, numbers)] += (
                            derivative[:block_size, selected].T @ sums[start : start + block_size]
                        )
            start += block_size
        return self.influence(values)

    def _again(self, label: str, progress: Progress | None) -> Iterable[Block]:
        return self.kept or _blocks(self.release, self.slots, self.base, self.pairs, label, progress)

    def _total(
        self,
        into: "list[csr_array]",
        derivatives: np.ndarray,
        base_score: np.ndarray,
        solution: np.ndarray | None = None,
    ) -> np.ndarray:
        """Score of the base and the rows together along `slots.directions`."""
        total = np.array(base_score)
        for into_slot, derivative in zip(into, derivatives, strict=True):
            total += (into_slot @ (derivative * (self.solution if solution is None else solution)).T).T
        return total


def make_system(
    release: Release,
    slots: RowParameters,
    base: Records,
    pairs: Pairs,
    progress: Progress | None = None,
    layers: bool = False,
) -> System:
    """Build the equations in one pass over the draws, and solve them.

    Args:
        layers: whether K may be kept as a sum of block-diagonal layers, which needs one feature per row.
    """
    size, sharing = len(slots.index), slots.sharing()
    sets = [rows for _, rows in sharing]
    layers = layers and is_worthwhile(sets, size)
    entries = sum(len(rows) ** 2 for rows in sets) if layers else size**2
    check_memory((_COPIES if layers else 2) * 8 * entries, f"{size} unknowns of the known rows", REMEDY)
    mean, target = np.zeros((slots.width, size)), np.zeros(size)
    parts = [np.zeros((len(rows), len(rows)), order="F") for rows in sets]
    weights, start = np.asarray(release.weights), 0
    kept = []
    fits = 4 * release.size * size * (slots.width + 1) <= memory() // _KEPT
    half: tuple[np.ndarray | Blocks, np.ndarray] | None = None
    split = 0
    assembled = partial(layered, sets, size=size) if layers else partial(_assembled, sets, size=size)
    for block in _blocks(release, slots, base, pairs, "summing over the draws", progress):
        derivatives, laplacian, base_score, block_size = block
        if fits:
            kept.append((derivatives.astype(np.float32), laplacian.astype(np.float32), base_score, block_size))
        a_t = np.zeros(len(base_score))
        a_t[:block_size] = weights[start : start + block_size]
        start += block_size
        target -= a_t @ laplacian
        for slot, index in enumerate(slots.index.T):
            target -= a_t @ (derivatives[slot] * base_score[:, index])
        mean += np.einsum("t,atm->am", a_t, derivatives)
        root_weights = np.sqrt(a_t)[:, None]
        for i, (slots_of_set, rows) in enumerate(sharing):
            stacked = np.concatenate([derivatives[slot][:, rows] * root_weights for slot in slots_of_set])
            parts[i] = blas.dsyrk(1.0, stacked.T, beta=1.0, c=parts[i], lower=1, overwrite_c=1)
        if half is None and 2 * start >= release.size > start:
            half, split = (assembled([_mirrored(part.copy(order="F")) for part in parts]), target.copy()), start
    gram = assembled([_mirrored(part) for part in parts])
    del parts
    diagonal = gram.diagonals().sum(axis=0) if isinstance(gram, Blocks) else np.diag(gram)
    if not (np.isfinite(diagonal).all() and np.isfinite(target).all()):
        raise BayesreconError("the scores of the known rows overflow; narrow domain=")
    common = slots.common(mean)
    if isinstance(gram, Blocks):
        try:
            first = None if half is None or not isinstance(half[0], Blocks) else (half[0], half[1])
            solver, halves = in_layers(gram, target, common, first)
        except NotSolved:
            check_memory(2 * 8 * size**2, f"{size} unknowns of the known rows", REMEDY)
            gram = gram.dense()
        else:
            solution = solver(target)
            return System(
                release, slots, base, pairs, gram, target, mean, solution, None, solver, halves, split, kept, common
            )
    solution, visible, solve = solved(gram, target)
    halves = None if half is None else halves_of(gram, target, visible, _dense(half[0]), half[1])
    return System(
        release, slots, base, pairs, gram, target, mean, solution, visible, solve, halves, split, kept, common
    )


def _dense(gram: np.ndarray | Blocks) -> np.ndarray:
    return gram.dense() if isinstance(gram, Blocks) else gram


def _mirrored(part: np.ndarray) -> np.ndarray:
    """Fill the upper triangle of a symmetric array from the lower one."""
    for i in range(len(part)):
        part[i, i + 1 :] = part[i + 1 :, i]
    return part


def _assembled(sets: list[np.ndarray], parts: list[np.ndarray], size: int) -> np.ndarray:
    """The sum of the parts on their rows, added to the part of all rows in place."""
    full = next((part for part in parts if len(part) == size), None)
    result = np.zeros((size, size)) if full is None else full.T
    for rows, part in zip(sets, parts, strict=True):
        if part is not full:
            result[np.ix_(rows, rows)] += part
    return result


def _blocks(
    release: Release, slots: RowParameters, base: Records, pairs: Pairs, label: str, progress: Progress | None
) -> Iterator[Block]:
    theta = np.asarray(release.theta)
    chunk = int(np.clip(_BLOCK // max(slots.width * len(slots.index), 1), _FEWEST, _MOST))
    chunk = min(chunk, -(-len(theta) // 2))  # at least one block per half

    def derivatives(start: int) -> Block:
        block = theta[start : start + chunk]
        n = len(block)
        if n < chunk:
            block = np.concatenate([block, np.repeat(block[-1:], chunk - n, axis=0)])
        with x64():  # it applies to one thread only
            d, lap = map(np.asarray, curvatures(release.model, block, pairs, slots.colours))
            score = np.asarray(base_scores(release.model, release.temperature, block, base))
        u = score @ slots.directions.T
        if not (np.isfinite(d).all() and np.isfinite(u).all()):
            raise BayesreconError("the likelihood of a known row is not differentiable at some draw; narrow domain=")
        return d, release.temperature * lap, u, n

    starts = range(0, len(theta), chunk)
    # A sweep uses one core, so the next blocks are computed while this one is summed.
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting = deque(pool.submit(derivatives, start) for start in starts[:_AHEAD])
        for i in range(len(starts)):
            ready = waiting.popleft().result()
            if i + _AHEAD < len(starts):
                waiting.append(pool.submit(derivatives, starts[i + _AHEAD]))
            yield ready
            if progress is not None:
                progress(label, (i + 1) / len(starts))


# Solve `K s = b` with K as a sum of block-diagonal layers, such as persons and items, in nearly linear time.

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
