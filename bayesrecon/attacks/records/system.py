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
from typing import Any

import numpy as np
import scipy.linalg

from bayesrecon.attacks.records.slots import Slots
from bayesrecon.errors import BayesreconError, check_memory
from bayesrecon.estimation.stein import summed
from bayesrecon.kernels.score import Pairs, base_scores, curvatures
from bayesrecon.kernels.sparse import scatter
from bayesrecon.precision import x64
from bayesrecon.types import Progress, Records, Release

lapack: Any = scipy.linalg.lapack

_BLOCK = 2**23  # doubles in a block of derivatives
_KEPT = 10**8  # doubles of derivatives that are kept for the errors instead of computed twice
_FEWEST, _MOST = 128, 1024  # draws in a block: enough for a product to pay, few enough to fit
_AHEAD = 2  # blocks that are computed ahead
_SINGULAR = 1e-11  # eigenvalues of K below this share of the largest are rounding
_REST = 1e-13  # diagonal entries, of ones, that are rounding once the columns before them are taken out
_LOW = 0.5  # rank as a share of the size up to which a factor of few columns is cheaper than all eigenvectors
_STILL = 1e-20  # diagonal entries of K below this share of the largest: the feature does not move with the parameters


@dataclass(frozen=True)
class System:
    """`K s = b` with the law of its noise.

    Attributes:
        gram: `(M, M)` K.
        target: `(M,)` b.
        mean: `(q, M)` mean derivatives by slot.
        solution: `(M,)` s, of least norm where K is singular.
        visible: `(M, r)` orthonormal directions that K determines, in the units of `units_of`; None when those are all.
        solve: K^+ applied to further right-hand sides.
        halves: solutions `(M,)` from either half of the draws alone, None where a half does not show all that the whole
            does.
        split: number of draws in the first half.
        kept: the blocks of derivatives, where they are few enough to keep.
    """

    release: Release
    slots: Slots
    base: Records
    pairs: Pairs
    gram: np.ndarray
    target: np.ndarray
    mean: np.ndarray
    solution: np.ndarray
    visible: np.ndarray | None
    solve: Callable[[np.ndarray], np.ndarray]
    halves: tuple[np.ndarray, np.ndarray] | None
    split: int
    kept: list[Any]
    _score: list[np.ndarray] = field(default_factory=list, repr=False)  # of the solution, from the pass for errors

    @property
    def disagreement(self) -> np.ndarray | None:
        """`(M,)` what is expected to have the covariance of the solution's noise: the difference of the halves'
        solutions, times the root of the product of their weights."""
        if self.halves is None:
            return None
        share = float(np.sum(np.asarray(self.release.weights)[: self.split]))
        return (self.halves[0] - self.halves[1]) * np.sqrt(share * (1 - share))

    def information(self) -> np.ndarray:
        """Information about s per draw, `(M, M)`.

        For a posterior close to normal, gradients that are constant over the draws (a linear f) carry noise of
        covariance K and gradients that are linear (a quadratic f) carry twice that: in both cases K noise^-1 K is
        the covariance of f itself, the Cramer-Rao bound.
        """
        found = np.array(self.gram)
        for slots, rows in self.slots.sharing():
            mean = self.mean[np.ix_(slots, rows)]
            if len(rows) == len(found):
                found += mean.T @ mean
            else:
                found[np.ix_(rows, rows)] += mean.T @ mean
        found *= 0.5
        return found

    def influence(self, columns: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        """Per-draw influence on `columns' s`, `(T, S)`, for `columns (M, S)`."""
        slots = self.slots
        directions = self.solve(columns)
        found = np.empty((self.release.size, columns.shape[1]))
        at, score = 0, []
        into = [scatter(column, len(slots.directions)) for column in slots.index.T]
        for d, lap, u, n in self._again("errors", progress):
            total = self._total(into, d, u)
            score.append(total[:n])
            r = np.array(lap)
            for x, share in zip(into, d, strict=True):
                r += share * (x.T @ total.T).T
            found[at : at + n] = -(r @ directions)[:n]
            at += n
        self._score[:] = [np.concatenate(score)]
        return found

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

    def _total(self, into: list[Any], d: np.ndarray, u: np.ndarray, solution: np.ndarray | None = None) -> np.ndarray:
        """Base and rows together: the score of the reconstructed posterior along the directions."""
        total = np.array(u)
        for x, share in zip(into, d, strict=True):
            total += (x @ (share * (self.solution if solution is None else solution)).T).T
        return total


def make_system(
    release: Release, slots: Slots, base: Records, pairs: Pairs, progress: Progress | None = None
) -> System:
    """One pass over the draws, and the solve."""
    size, sharing = len(slots.index), slots.sharing()
    remedy = "give fewer known rows: those of the units of interest, or a part at a time"
    check_memory(2 * 8 * size**2, f"{size} unknowns of the known rows", remedy)
    gram, mean, target = np.zeros((size, size)), np.zeros((slots.width, size)), np.zeros(size)
    # What all rows share goes to K itself, which then is the only array of its size in the pass.
    parts = [gram if len(rows) == size else np.zeros((len(rows), len(rows))) for _, rows in sharing]
    weights, at = np.asarray(release.weights), 0
    kept = []
    keep = release.size * size * (slots.width + 1) <= _KEPT
    half: tuple[np.ndarray, np.ndarray] | None = None
    split = 0

    def add_parts(whole: np.ndarray) -> np.ndarray:
        for part, (_, rows) in zip(parts, sharing, strict=True):
            if part is not gram:
                whole[np.ix_(rows, rows)] += part
        return whole

    for block in _blocks(release, slots, base, pairs, "kernel", progress):
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
        for part, (together, rows) in zip(parts, sharing, strict=True):
            x = np.concatenate([d[a][:, rows] * root for a in together])
            part += x.T @ x
        if half is None and 2 * at >= release.size > at:
            half, split = (add_parts(gram.copy()), target.copy()), at
    add_parts(gram)
    if not (np.isfinite(np.diag(gram)).all() and np.isfinite(target).all()):
        raise BayesreconError("the scores of the known rows overflow; narrow bounds= or domain=")
    solution, visible, solve = _solve(gram, target)
    halves = None if half is None else _halves(gram, target, visible, *half)
    return System(release, slots, base, pairs, gram, target, mean, solution, visible, solve, halves, split, kept)


def _halves(
    gram: np.ndarray, target: np.ndarray, visible: np.ndarray | None, first: np.ndarray, at: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """See `System`; `first` and `at` are the first half's part of K, which is used up, and of b."""
    unit = units_of(gram)
    first /= unit
    first /= unit[:, None]
    second = gram / unit
    second /= unit[:, None]
    second -= first
    solutions = []
    for k, b in ((first, at / unit), (second, (target - at) / unit)):
        if visible is not None:
            k, b = visible.T @ k @ visible, visible.T @ b
        factor, info = lapack.dpotrf(k.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return None
        x = scipy.linalg.cho_solve((factor, True), b, check_finite=False)
        solutions.append((x if visible is None else visible @ x) / unit)
    return solutions[0], solutions[1]


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
            raise BayesreconError(
                "the likelihood of a known row is not differentiable at some draw; narrow bounds= or domain="
            )
        return d, release.temperature * lap, u, n

    starts = range(0, len(theta), chunk)
    # Sweeps run on one core each: the next blocks are computed while this one is summed.
    with ThreadPoolExecutor(_AHEAD) as pool:
        waiting = deque(pool.submit(derivatives, start) for start in starts[:_AHEAD])
        for i in range(len(starts)):
            found = waiting.popleft().result()
            if i + _AHEAD < len(starts):
                waiting.append(pool.submit(derivatives, starts[i + _AHEAD]))
            yield found
            if progress is not None:
                progress(label, (i + 1) / len(starts))


def units_of(gram: np.ndarray) -> np.ndarray:
    """Scales `(M,)` in which K has a diagonal of ones, less where a feature moves by rounding alone."""
    diagonal = np.diag(gram)
    return np.sqrt(np.maximum(diagonal, max(_STILL * diagonal.max(), 1e-300)))


def _solve(
    gram: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, Callable[[np.ndarray], np.ndarray]]:
    """Least-norm solution in units that give K a diagonal of ones, and a solver for further right-hand sides."""
    unit = units_of(gram)
    scaled = gram / unit[:, None] / unit

    def in_units(solve: Callable[[np.ndarray], np.ndarray], right: np.ndarray) -> np.ndarray:
        scale = unit if right.ndim == 1 else unit[:, None]
        return solve(right / scale) / scale

    factor, info = lapack.dpotrf(scaled, lower=1, clean=0)
    if not info:
        rcond, info = lapack.dpocon(factor, np.abs(scaled).sum(axis=0).max(), uplo="L")
        if rcond > _SINGULAR:

            def solve(right: np.ndarray) -> np.ndarray:
                return in_units(lambda x: scipy.linalg.cho_solve((factor, True), x, check_finite=False), right)

            return solve(target), None, solve
    values, vectors = _spectrum(scaled)
    kept = values > _SINGULAR * values[-1]
    basis = vectors[:, kept]

    def solve_kept(right: np.ndarray) -> np.ndarray:
        return in_units(lambda x: basis @ ((basis.T @ x).T / values[kept]).T, right)

    return solve_kept(target), (None if basis.shape[1] == len(basis) else basis), solve_kept


def _spectrum(scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, ascending, and eigenvectors; of a matrix of low rank those that are not rounding only."""
    factor, order, rank, _ = lapack.dpstrf(scaled, lower=1, tol=_REST)
    if not 0 < rank <= _LOW * len(scaled):
        return scipy.linalg.eigh(scaled, check_finite=False)
    # K = L L' with few columns: its eigenvectors are the left singular vectors of L.
    tall = np.empty((len(scaled), rank))
    tall[order - 1] = np.tril(factor[:, :rank])
    vectors, singular, _ = scipy.linalg.svd(tall, full_matrices=False, check_finite=False)
    return singular[::-1] ** 2, vectors[:, ::-1]
