"""The release as linear equations for the coordinates s of the rows' features.

With the base records held by every row, what is unknown is `sum_m s_m f_m`, and integration by parts gives

    K s = b,   K_mm' = E[<phi_m, phi_m'>],   b_m = -E[tau tr(Sigma Hess f_m) + <phi_m, Sigma^(1/2)' g>],

phi_m the whitened gradient of f_m and g that of the base posterior. Memory is K and a block of draws.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from bayesrecon.embedding import Progress
from bayesrecon.errors import BayesreconError
from bayesrecon.precision import x64
from bayesrecon.records.slots import Slots, base_scores, curvatures
from bayesrecon.types import Records, Release

lapack: Any = scipy.linalg.lapack

_BLOCK = 2**25  # doubles in a block of derivatives
_KEPT = 10**8  # doubles of derivatives that are kept for the errors instead of computed twice
_FEWEST, _MOST = 32, 1024  # draws in a block: enough for a product to pay, few enough to fit
_AHEAD = 2  # blocks that are computed ahead
_ROWS = 512  # rows of K that are assembled at once
_LOOKED_AT = 8  # draws by which columns are told apart
_SINGULAR = 1e-11  # eigenvalues of K below this share of the largest are rounding


@dataclass(frozen=True)
class System:
    """`K s = b` with the law of its noise.

    Attributes:
        gram: `(M, M)` K.
        target: `(M,)` b.
        mean_gram: `(M, M)` the part of K from the mean gradients alone.
        solution: `(M,)` s, of least norm where K is singular.
        visible: `(M, M)` projection on what K determines; None when that is everything.
        solve: K^+ applied to further right-hand sides.
        kept: the blocks of derivatives, where they are few enough to keep.
    """

    release: Release
    slots: Slots
    base: Records
    pairs: tuple[Records, Records, Records]
    gram: np.ndarray
    target: np.ndarray
    mean_gram: np.ndarray
    solution: np.ndarray
    visible: np.ndarray | None
    solve: Callable[[np.ndarray], np.ndarray]
    kept: list[Any]

    def information(self) -> np.ndarray:
        """Information about s per draw, `(M, M)`.

        For a posterior close to normal, gradients that are constant over the draws (a linear f) carry noise of
        covariance K and gradients that are linear (a quadratic f) carry twice that: in both cases K noise^-1 K is
        the covariance of f itself, the Cramer-Rao bound.
        """
        return 0.5 * (self.gram + self.mean_gram)

    def influence(self, columns: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        """Per-draw influence on `columns' s`, `(T, S)`, for `columns (M, S)`."""
        slots = self.slots
        directions = self.solve(columns)
        found = np.empty((self.release.size, columns.shape[1]))
        size, at = len(slots.index), 0
        where = [(slots.index[:, a], np.arange(size)) for a in range(slots.width)]
        scatter = [scipy.sparse.csr_array((np.ones(size), w), (len(slots.sigma), size)) for w in where]
        again = self.kept or _blocks(self.release, slots, self.base, self.pairs, "errors", progress)
        for d, lap, u, n in again:
            share = d * self.solution  # the rows' own part of the score, by slot
            own = sum((into @ share[a].T for a, into in enumerate(scatter)), start=np.zeros((len(slots.sigma), len(u))))
            total = u + own.T @ slots.sigma
            r = np.array(lap)
            for a, into in enumerate(scatter):
                r += d[a] * (into.T @ total.T).T
            found[at : at + n] = -(r @ directions)[:n]
            at += n
        return found


def make_system(
    release: Release,
    slots: Slots,
    base: Records,
    pairs: tuple[Records, Records, Records],
    progress: Progress | None = None,
) -> System:
    """One pass over the draws, and the solve."""
    size = len(slots.index)
    products, mean, target = _Products(slots), np.zeros((slots.width, size)), np.zeros(size)
    weights, at = np.asarray(release.weights), 0
    kept = []
    keep = release.size * size * (slots.width + 1) <= _KEPT
    for block in _blocks(release, slots, base, pairs, "kernel", progress):
        if keep:
            kept.append(block)
        d, lap, u, n = block
        a_t = np.zeros(len(u))
        a_t[:n] = weights[at : at + n]
        at += n
        target -= a_t @ lap
        for a in range(slots.width):
            target -= a_t @ (d[a] * u[:, slots.index[:, a]])
        mean += np.einsum("t,atm->am", a_t, d)
        products.add(d, a_t)
    gram = products.gram()
    alone = _Products(slots)
    alone.add(mean[:, None, :], np.ones(1))
    solution, visible, solve = _solve(gram, target)
    return System(release, slots, base, pairs, gram, target, alone.gram(), solution, visible, solve, kept)


class _Products:
    """Accumulates `E[D_A D_B]` over the columns that differ: in a person-by-item design the derivative by a person's
    parameter is the same for every person, and most of the products are small."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.distinct: list[tuple[np.ndarray, np.ndarray]] = []
        self.sums: dict[tuple[int, int], np.ndarray] = {}

    def add(self, d: np.ndarray, weights: np.ndarray) -> None:
        if not self.distinct:
            self.distinct = [_distinct(x) for x in d]
        slots, few = self.slots, [x[:, first] for x, (first, _) in zip(d, self.distinct, strict=True)]
        for a, b in itertools.combinations_with_replacement(range(slots.width), 2):
            if a < b and slots.whitened:
                continue
            part = (few[a] * weights[:, None]).T @ few[b]
            self.sums[a, b] = part if (a, b) not in self.sums else self.sums[a, b] + part

    def gram(self) -> np.ndarray:
        size = len(self.slots.index)
        total = np.zeros((size, size))
        for (a, b), part in self.sums.items():
            index = self.slots.index
            for rows in np.array_split(np.arange(size), -(-size // _ROWS)):
                block = part[np.ix_(self.distinct[a][1][rows], self.distinct[b][1])]
                total[rows] += (1 if a == b else 2) * block * self.slots.sigma[np.ix_(index[rows, a], index[:, b])]
        return 0.5 * (total + total.T)


def _distinct(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the columns that differ, and for every column the one it equals."""
    digits = np.round(columns[:_LOOKED_AT], 12 - int(np.floor(np.log10(np.abs(columns[:_LOOKED_AT]).max() + 1e-300))))
    _, first, inverse = np.unique(digits, axis=1, return_index=True, return_inverse=True)
    return first, inverse.ravel()


def _blocks(
    release: Release,
    slots: Slots,
    base: Records,
    pairs: tuple[Records, Records, Records],
    label: str,
    progress: Progress | None,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Derivatives `(q, C, M)` in units of the scale, Laplacians `(C, M)`, Sigma times the base score `(C, k)`."""
    theta = np.asarray(release.theta)
    chunk = int(np.clip(_BLOCK // max(slots.width * len(slots.index), 1), _FEWEST, _MOST))
    chunk = min(chunk, len(theta))
    directions, weights = slots.sweeps()
    weights = release.temperature * weights

    def derivatives(start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        block = theta[start : start + chunk]
        n = len(block)
        if n < chunk:
            block = np.concatenate([block, np.repeat(block[-1:], chunk - n, axis=0)])
        with x64():  # the scope belongs to the thread
            d, lap = map(np.asarray, curvatures(release.model, slots.width, block, pairs, directions, weights))
            score = np.asarray(base_scores(release.model, release.temperature, block, base))
        u = score @ slots.basis.T @ slots.sigma
        if not (np.isfinite(d).all() and np.isfinite(u).all()):
            raise BayesreconError(
                "the likelihood of a known row is not differentiable at some draw; narrow bounds= or domain="
            )
        return d, lap, u, n

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


def _solve(
    gram: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, Callable[[np.ndarray], np.ndarray]]:
    """Least-norm solution in units that give K a diagonal of ones, and a solver for further right-hand sides."""
    unit = np.sqrt(np.maximum(np.diag(gram), 1e-300))
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
    values, vectors = scipy.linalg.eigh(scaled, check_finite=False)
    kept = values > _SINGULAR * values[-1]
    basis = vectors[:, kept]

    def solve_kept(right: np.ndarray) -> np.ndarray:
        return in_units(lambda x: basis @ ((basis.T @ x).T / values[kept]).T, right)

    return solve_kept(target), (None if kept.all() else basis @ basis.T), solve_kept
