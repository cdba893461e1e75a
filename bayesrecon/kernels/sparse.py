"""The kernel mean embedding where a record moves with few of the parameters: a county's own and those all share.

With `D_a(t, m)` the derivative of record m's log likelihood in the coordinate `i_a(m)`, its a-th, the kernel is

    k(m, n) = sum_ab Sigma[i_a(m), i_b(n)]  E_t[ D_a(t, m) D_b(t, n) ],

a product of two tall matrices for every pair of coordinates of a record in place of one for every coordinate of the
posterior. Coordinates that no record touches together share a sweep (Curtis, Powell and Reid 1974).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse

from bayesrecon.diagnostics import evenly
from bayesrecon.kernels.embedding import Basis, LostDigits, Moments, Stretch
from bayesrecon.kernels.score import along_coordinates, gradients, prior_score, touches
from bayesrecon.kernels.view import CHUNK, View
from bayesrecon.types import Records

NONE = -1  # the record has no coordinate of this colour
_FEWEST = 3  # coordinates of a record, with fewer parameters than pay for which it is not worth a look
_LOOKED_AT = 8  # atoms at which gradients are looked at for coordinates that are touched
_REMEMBERED = 8  # sets of records: a basis, its probes and those before them
_CONDITION = 1e4  # of the records, from which the kernel of combinations of them loses too many digits


@dataclass(frozen=True)
class Touched:
    """The coordinates that records touch.

    Attributes:
        records: `{field: (M, ...)}`.
        index: `(q, M)` the coordinate of every colour, -1 where a record has none.
        colours: `(q, d)` the sums of the coordinates of each colour.
    """

    records: Records
    index: np.ndarray
    colours: np.ndarray

    @property
    def size(self) -> int:
        return self.index.shape[1]

    def gather(self, slopes: np.ndarray) -> np.ndarray:
        """`sum_m slopes[a, t, m]` by coordinate, `(C, d)`, for `slopes (q, C, M)`."""
        found = np.zeros((slopes.shape[1], self.colours.shape[1]))
        for column, slope in zip(self.index, slopes, strict=True):
            found += (scatter(column, found.shape[1]) @ slope.T).T
        return found


@dataclass(frozen=True)
class _Block:
    """One block of atoms, of a stretch of them, with the derivatives of the records' log likelihoods there.

    `value (C, M)`, `slopes (q, C, M)` along the colours, and `lap (C, M) = tr(Sigma Hess l)` where it was wanted.
    """

    stretch: int
    theta: np.ndarray
    weights: np.ndarray
    metric: np.ndarray
    sigma: np.ndarray
    value: np.ndarray
    slopes: np.ndarray
    lap: np.ndarray


@dataclass(frozen=True)
class SparseEmbedding(View):
    """`MeanEmbedding` of a release on records that touch few parameters each: those for which `touched` is not None."""

    _seen: dict[int, tuple[Records, Touched | None]] = field(default_factory=dict, init=False, repr=False)

    def touched(self, records: Records) -> Touched | None:
        """What the records touch; None where that is so much that dense products are cheaper."""
        if id(records) not in self._seen:
            if len(self._seen) > _REMEMBERED:
                self._seen.clear()
            self._seen[id(records)] = records, self._look(records)  # holding them keeps their identity
        return self._seen[id(records)][1]

    def scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        touched = self._of(records)
        found = []
        for block in self._sweeps(touched, self._atoms(self._chunk(records), None, atoms), second=False):
            slopes = block.slopes * np.sqrt(block.weights)[:, None]
            phi = sum(s[:, None] * block.metric.T[:, i] for i, s in zip(touched.index, slopes, strict=True))
            found.append(np.reshape(phi, (-1, touched.size)))
        return np.concatenate(found)

    def moments(
        self, basis: Basis, atoms: np.ndarray | None = None, label: str = "kernel", stretches: int = 1
    ) -> Moments:
        touched = self._of(basis.records)
        a, size = basis.coefficients, touched.size
        found, diagonal = [], np.zeros(size)
        mean, square, shift = np.zeros(basis.size), np.zeros((basis.size, basis.size)), None
        blocks = self._sweeps(touched, self._atoms(_chunk(touched), label, atoms, stretches))
        for _, stretch in groupby(blocks, key=attrgetter("stretch")):
            gram, target, share = np.zeros((size, size)), np.zeros(size), 0.0
            for block in stretch:
                heavy = block.weights[:, None]
                share += block.weights.sum()
                _add_gram(gram, block.slopes * np.sqrt(heavy), touched, block.sigma)
                target -= block.weights @ self._residual(block, touched, self._prior(block.theta))
                value = block.value @ a
                # One atom's values as a shift keep the covariance of large log likelihoods accurate.
                shift = value[0].copy() if shift is None else shift
                value -= shift
                mean += block.weights @ value
                square += (value * heavy).T @ value
            diagonal += np.diag(gram)
            found.append(Stretch(share, a.T @ gram @ a, a.T @ target))
        if np.linalg.norm(np.sqrt(diagonal)[:, None] * a, 2) > _CONDITION:
            raise LostDigits
        return Moments.of_stretches(found, square - np.outer(mean, mean))

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        anchors, others = self._of(basis.records), self._of(probes)
        found, chunk = np.zeros((others.size, anchors.size)), min(_chunk(anchors), _chunk(others))
        ours = self._sweeps(anchors, self._atoms(chunk, None, atoms), second=False)
        theirs = self._sweeps(others, self._atoms(chunk, "probes", atoms), second=False)
        for one, other in zip(ours, theirs, strict=True):
            for j, y in zip(anchors.index, one.slopes * one.weights[:, None], strict=True):
                for i, x in zip(others.index, other.slopes, strict=True):
                    found += (x.T @ y) * one.sigma[np.ix_(i, j)]
        return found @ basis.coefficients

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        touched = self._of(basis.records)
        weights = basis.coefficients @ y
        blocks = self._sweeps(touched, self._atoms(_chunk(touched), "noise"))
        return self._covariance(basis, touched, ((b, self._score(b, touched, weights)) for b in blocks))

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        touched = self._of(basis.records)
        _, centre, precision = self._normal
        blocks = self._sweeps(touched, self._noise_atoms(_chunk(touched), simulated))
        return self._covariance(basis, touched, ((b, -(b.theta - centre) @ precision) for b in blocks))

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        touched = self._of(basis.records)
        weights, directions = basis.coefficients @ y, basis.coefficients @ b
        rows, fitted = [], []
        for block in self._sweeps(touched, self._atoms(_chunk(touched), "errors")):
            fitted.append(self._score(block, touched, weights))
            rows.append(self._residual(block, touched, fitted[-1]) @ directions)
        return np.concatenate(rows), np.concatenate(fitted)

    def _of(self, records: Records) -> Touched:
        found = self.touched(records)
        assert found is not None, "these records touch too much for sparse passes"
        return found

    def _look(self, records: Records) -> Touched | None:
        model, theta = self.release.model, self._theta
        if not self.temperature or not _pays(_FEWEST, theta.shape[1]):
            return None
        touched = np.asarray(touches(model, theta[:1][0], records)).T
        if not _pays(touched.sum(axis=1).max(), theta.shape[1]):
            return None
        for t in theta[evenly(len(theta), _LOOKED_AT)]:
            touched = touched | (np.asarray(gradients(model, t, records)) != 0)
        colour, index = coloured(touched)
        if not _pays(len(index), theta.shape[1]):
            return None
        return Touched(records, index, (colour == np.arange(len(index))[:, None]).astype(float))

    def _sweeps(self, touched: Touched, blocks: Iterator[Any], second: bool = True) -> Iterator[_Block]:
        """Derivatives at the atoms of the blocks, second ones where wanted."""
        pairs = np.stack(np.triu_indices(len(touched.index)), axis=1)[: None if second else 0]
        for metric, theta, weights, n, stretch in blocks:
            sigma = metric @ metric.T
            share = np.zeros((len(pairs), touched.size))
            for row, (i, j) in zip(share, pairs, strict=True):
                row += sigma[touched.index[i], touched.index[j]] * (1 if i == j else 2)
            sweep = along_coordinates(self.release.model, theta, touched.records, touched.colours, pairs, share)
            value, slopes, lap = map(np.asarray, sweep)
            yield _Block(stretch, theta[:n], weights[:n], metric, sigma, value[:n], slopes[:, :n], lap[:n])

    def _prior(self, theta: np.ndarray) -> np.ndarray:
        return np.asarray(prior_score(self.release.model, np.eye(theta.shape[1]), theta, self.temperature))

    def _score(self, block: _Block, touched: Touched, weights: np.ndarray) -> np.ndarray:
        """Score of the posterior of weighted records, `(C, d)`."""
        return self._prior(block.theta) + touched.gather(block.slopes * weights)

    def _residual(self, block: _Block, touched: Touched, score: np.ndarray) -> np.ndarray:
        """`<phi_m, score> + tau tr(Sigma Hess l_m)`, `(C, M)`."""
        found = self.temperature * block.lap
        whole = score @ block.sigma
        for column, slope in zip(touched.index, block.slopes, strict=True):
            found += slope * whole[:, column]
        return found

    def _covariance(self, basis: Basis, touched: Touched, scored: Iterator[tuple[_Block, np.ndarray]]) -> np.ndarray:
        mean, square = np.zeros(basis.size), np.zeros((basis.size, basis.size))
        for block, score in scored:
            residual = self._residual(block, touched, score) @ basis.coefficients
            mean += block.weights @ residual
            square += (residual * block.weights[:, None]).T @ residual
        return square - np.outer(mean, mean)


def coloured(touched: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A colour per coordinate, `(d,)`, no two of one colour touched by the same record (greedily, the busiest first),
    and the coordinate of every colour, `(q, M)`, -1 where a record has none.

    Args:
        touched: `(M, d)`.
    """
    few = scipy.sparse.csr_array(touched, dtype=np.int32)
    together = (few.T @ few).toarray() > 0
    colour = np.full(len(together), -1)
    for i in np.argsort(-together.sum(axis=0), kind="stable"):
        taken = set(colour[together[i]].tolist())
        colour[i] = next(c for c in range(len(together)) if c not in taken)
    index = np.full((colour.max() + 1, len(touched)), NONE)
    row, column = np.nonzero(touched)
    index[colour[column], row] = column
    return colour, index


def scatter(index: np.ndarray, size: int) -> Any:
    """`(size, M)` ones where a record has the coordinate."""
    rows = np.flatnonzero(index != NONE)
    return scipy.sparse.csr_array((np.ones(len(rows)), (index[rows], rows)), (size, len(index)))


def _pays(count: int, parameters: int) -> bool:
    """Whether products for pairs of `count` coordinates are well below products for all parameters."""
    return count * (count + 1) <= parameters


def _chunk(touched: Touched) -> int:
    """Atoms per block."""
    return 2 ** int(np.clip(np.log2(CHUNK / max(1, touched.index.size)), 4, 11))


def _add_gram(total: np.ndarray, slopes: np.ndarray, touched: Touched, sigma: np.ndarray) -> None:
    """Adds the kernel of the records with themselves, half of whose products are transposes of the others."""
    for a, x in enumerate(slopes):
        for b in range(a + 1):
            part = (x.T @ slopes[b]) * sigma[np.ix_(touched.index[a], touched.index[b])]
            total += part if a == b else part + part.T
