"""The release as linear equations for the coordinates s of the rows' features.

With the base records held by every row, what is unknown is `sum_m s_m f_m`, and integration by parts gives

    K s = b,   K_mm' = E[<phi_m, phi_m'>],   b_m = -E[tau tr(Sigma Hess f_m) + <phi_m, Sigma^(1/2)' g>],

phi_m the whitened gradient of f_m and g that of the base posterior. Memory is K and a block of draws.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from bayesrecon.embedding import Progress
from bayesrecon.errors import BayesreconError
from bayesrecon.records.slots import Slots, base_scores, slopes
from bayesrecon.types import Records, Release

_BLOCK = 2**25  # doubles in a block of derivatives
_FEWEST, _MOST = 32, 1024  # draws in a block: enough for a product to pay, few enough to fit
_SINGULAR = 1e-11  # eigenvalues of K below this share of the largest are rounding
_DENSE = 3000  # unknowns up to which a full eigendecomposition is taken


@dataclass(frozen=True)
class System:
    """`K s = b` with the law of its noise.

    Attributes:
        gram: `(M, M)` K.
        target: `(M,)` b.
        mean_gram: `(M, M)` the part of K from the mean gradients alone.
        solution: `(M,)` s, of least norm where K is singular.
        visible: `(M, M)` projection on what K determines; None when that is everything.
    """

    release: Release
    slots: Slots
    base: Records
    pairs: tuple[Records, Records]
    gram: np.ndarray
    target: np.ndarray
    mean_gram: np.ndarray
    solution: np.ndarray
    visible: np.ndarray | None
    solve: Callable[[np.ndarray], np.ndarray]

    def information(self) -> np.ndarray:
        """Information about s per draw, `(M, M)`.

        For a posterior close to normal, gradients that are constant over the draws (a linear f) carry noise of
        covariance K and gradients that are linear (a quadratic f) carry twice that: in both cases K noise^-1 K is
        the covariance of f itself, the Cramer-Rao bound.
        """
        return 0.5 * (self.gram + self.mean_gram)

    def influence(self, columns: np.ndarray, progress: Progress | None = None) -> np.ndarray:
        """Per-draw influence on `columns' s`, `(T, S)`, for `columns (M, S)`."""
        slots, model, tau = self.slots, self.release.model, self.release.temperature
        directions = self.solve(columns)
        found = np.empty((self.release.size, columns.shape[1]))
        at = 0
        for d, lap, u, n in _blocks(self.release, slots, self.base, self.pairs, "errors", progress):
            s = d * self.solution  # (q, C, M): the rows' own share of the score
            own = np.zeros((len(u), len(slots.used)))
            for a in range(slots.width):
                np.add.at(own.T, slots.index[:, a], s[a].T)
            total = u + own @ slots.sigma
            r = tau * lap
            for a in range(slots.width):
                r += d[a] * total[:, slots.index[:, a]]
            found[at : at + n] = -(r @ directions)[:n]
            at += n
        return found


def make_system(
    release: Release, slots: Slots, base: Records, pairs: tuple[Records, Records], progress: Progress | None = None
) -> System:
    """One pass over the draws, and the solve."""
    size, tau = len(slots.index), release.temperature
    gram, mean = np.zeros((size, size)), np.zeros((slots.width, size))
    target = np.zeros(size)
    weights, at = np.asarray(release.weights), 0
    for d, lap, u, n in _blocks(release, slots, base, pairs, "kernel", progress):
        a_t = np.zeros(len(u))
        a_t[:n] = weights[at : at + n]
        at += n
        heavy = d * a_t[:, None]
        target -= tau * (a_t @ lap)
        for a in range(slots.width):
            target -= (heavy[a] * u[:, slots.index[:, a]]).sum(axis=0)
        mean += heavy.sum(axis=1)
        _accumulate(gram, heavy, d, slots)
    gram = 0.5 * (gram + gram.T)
    mean_gram = np.zeros_like(gram)
    _accumulate(mean_gram, mean[:, None, :], mean[:, None, :], slots)
    mean_gram = 0.5 * (mean_gram + mean_gram.T)
    solution, visible, solve = _solve(gram, target)
    return System(release, slots, base, pairs, gram, target, mean_gram, solution, visible, solve)


def _accumulate(gram: np.ndarray, heavy: np.ndarray, d: np.ndarray, slots: Slots) -> None:
    """Add a block's share of K; the pairs A < B count twice and are evened out at the end."""
    if (slots.index == slots.index[0]).all():
        inner = np.tensordot(slots.sigma[np.ix_(slots.index[0], slots.index[0])], d, axes=1)
        gram += heavy.reshape(-1, gram.shape[0]).T @ inner.reshape(-1, gram.shape[0])
        return
    for a in range(slots.width):
        for b in range(a, slots.width):
            part = heavy[a].T @ d[b]
            part *= slots.sigma[np.ix_(slots.index[:, a], slots.index[:, b])]
            gram += part if a == b else 2 * part


def _blocks(
    release: Release,
    slots: Slots,
    base: Records,
    pairs: tuple[Records, Records],
    label: str,
    progress: Progress | None,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Derivatives `(q, C, M)` in units of the scale, Laplacians `(C, M)`, Sigma times the base score `(C, k)`."""
    theta = np.asarray(release.theta)
    chunk = int(np.clip(_BLOCK // max(slots.width * len(slots.index), 1), _FEWEST, _MOST))
    chunk = min(chunk, len(theta))
    for start in range(0, len(theta), chunk):
        block = theta[start : start + chunk]
        n = len(block)
        if n < chunk:
            block = np.concatenate([block, np.repeat(block[-1:], chunk - n, axis=0)])
        d, lap = slopes(release.model, block, *pairs, slots.directions, slots.inverse)
        score = np.asarray(base_scores(release.model, release.temperature, block, base))
        u = (score * slots.scale)[:, slots.used] @ slots.sigma
        d, lap = np.asarray(d), np.asarray(lap)
        if not (np.isfinite(d).all() and np.isfinite(u).all()):
            raise BayesreconError("the likelihood is not differentiable at some draw and row; narrow bounds= or domain=")
        yield d, lap, u, n
        if progress is not None:
            progress(label, min(1.0, (start + n) / len(theta)))


def _solve(
    gram: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None, Callable[[np.ndarray], np.ndarray]]:
    """Least-norm solution in units that give K a diagonal of ones, and a solver for further right-hand sides."""
    unit = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    scaled = gram / unit[:, None] / unit
    if len(gram) <= _DENSE:
        values, vectors = scipy.linalg.eigh(scaled, check_finite=False)
        kept = values > _SINGULAR * values[-1]
        basis = vectors[:, kept]

        def solve(right: np.ndarray) -> np.ndarray:
            scale = unit if right.ndim == 1 else unit[:, None]
            return (basis @ ((basis.T @ (right / scale)).T / values[kept]).T) / scale

        visible = None if kept.all() else basis @ basis.T
        return solve(target), visible, solve
    factor: Any = scipy.linalg.cho_factor(
        scaled + len(gram) * _SINGULAR * np.eye(len(gram)), lower=True, overwrite_a=True, check_finite=False
    )

    def solve_large(right: np.ndarray) -> np.ndarray:
        scale = unit if right.ndim == 1 else unit[:, None]
        return scipy.linalg.cho_solve(factor, right / scale, check_finite=False) / scale

    return solve_large(target), None, solve_large
