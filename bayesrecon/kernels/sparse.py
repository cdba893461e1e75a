"""The kernel mean embedding where a record moves with few of the parameters: a county's own and those all share.

With `D_a(t, m)` the derivative of record m's log likelihood in the coordinate `i_a(m)`, its a-th, the kernel is

    k(m, n) = sum_ab Sigma[i_a(m), i_b(n)]  E_t[ D_a(t, m) D_b(t, n) ],

a product of two tall matrices for every pair of coordinates of a record in place of one for every coordinate of the
posterior. Coordinates that no record touches together share a sweep (Curtis, Powell and Reid 1974).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import scipy.sparse

from bayesrecon.diagnostics import evenly
from bayesrecon.kernels.embedding import Basis, LostDigits, Moments, Stretch
from bayesrecon.kernels.score import along_coordinates, gradients, prior_score, touches
from bayesrecon.kernels.view import CHUNK, Part, View
from bayesrecon.types import Model, Records

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
    """One block of atoms with the derivatives of the records' log likelihoods there.

    `value (C, M)`, `slopes (q, C, M)` along the colours, and `lap (C, M) = tr(Sigma Hess l)` where it was wanted.
    """

    theta: np.ndarray
    weights: np.ndarray
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
        given = self._given(self._of(records))
        found = []
        for part in self._parts(self._chunk(records), atoms):
            for block in given.sweeps(self.release.model, part, given.touched, second=False):
                slopes = block.slopes * np.sqrt(block.weights)[:, None]
                phi = sum(s[:, None] * part.metric.T[:, i] for i, s in zip(given.touched.index, slopes, strict=True))
                found.append(np.reshape(phi, (-1, given.touched.size)))
        return np.concatenate(found)

    def moments(
        self, basis: Basis, atoms: np.ndarray | None = None, label: str = "kernel", stretches: int = 1
    ) -> Moments:
        given = self._given(self._of(basis.records), basis.coefficients)
        a, size = basis.coefficients, given.touched.size
        found, diagonal = [], np.zeros(size)
        mean, square, shift = np.zeros(basis.size), np.zeros((basis.size, basis.size)), None
        passed = self._pass(_moments_of, given, self._parts(_chunk(given.touched), atoms, stretches), label)
        for _, stretch in groupby(passed, key=lambda one: one[0].stretch):
            gram, target, share = np.zeros((size, size)), np.zeros(size), 0.0
            for _, (weight, own, kernel, aim, first, second) in stretch:
                gram += kernel
                target += aim
                shift = own if shift is None else shift
                # Every part's values are summed about its own first ones.
                off, share = own - shift, share + weight
                square += second + np.outer(first, off) + np.outer(off, first) + weight * np.outer(off, off)
                mean += first + weight * off
            diagonal += np.diag(gram)
            found.append(Stretch(share, a.T @ gram @ a, a.T @ target))
        if np.linalg.norm(np.sqrt(diagonal)[:, None] * a, 2) > _CONDITION:
            raise LostDigits
        return Moments.of_stretches(found, square - np.outer(mean, mean))

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        anchors, others = self._of(basis.records), self._of(probes)
        total, chunk = np.zeros((others.size, anchors.size)), min(_chunk(anchors), _chunk(others))
        given = self._given(anchors, others=others)
        for _, found in self._pass(_cross_of, given, self._parts(chunk, atoms), "probes"):
            total += found
        return total @ basis.coefficients

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        given = self._given(self._of(basis.records), basis.coefficients, fitted=basis.coefficients @ y)
        return self._covariance(given, self._parts(_chunk(given.touched)))

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        given = self._given(self._of(basis.records), basis.coefficients, normal=self._normal[1:])
        return self._covariance(given, self._noise_parts(_chunk(given.touched), simulated))

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[Any, Any]:
        directions, fitted = basis.coefficients @ b, basis.coefficients @ y
        given = self._given(self._of(basis.records), directions, fitted=fitted)
        rows, scores = self._series(b.shape[1])
        for _, (series, score) in self._pass(_influence_of, given, self._parts(_chunk(given.touched)), "errors"):
            rows.add(series)
            scores.add(score)
        return rows.done(), scores.done()

    def _covariance(self, given: "_Given", parts: list[Part]) -> np.ndarray:
        return self._scatter(_noise_of, given, parts, given.functions.shape[1])

    def _given(self, touched: Touched, functions: Any = None, **more: Any) -> "_Given":
        return _Given(touched, self.temperature, functions, **more)

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


@dataclass(frozen=True)
class _Given:
    """What all parts of a pass share.

    Attributes:
        touched: records and their coordinates.
        temperature: tau.
        functions: `(M, r)` combinations of the records that sums are taken of.
        fitted: `(M,)` weights of the data that were fitted.
        normal: centre and precision of a normal law whose score stands for the fitted one.
        others: records whose inner products with the first are taken.
    """

    touched: Touched
    temperature: float
    functions: Any = None
    fitted: Any = None
    normal: Any = None
    others: Touched | None = None

    def sweeps(self, model: Model, part: Part, touched: Touched, second: bool = True) -> Iterator[_Block]:
        """Derivatives at the atoms of a part, second ones where wanted."""
        pairs = np.stack(np.triu_indices(len(touched.index)), axis=1)[: None if second else 0]
        sigma = part.metric @ part.metric.T
        share = np.zeros((len(pairs), touched.size))
        for row, (i, j) in zip(share, pairs, strict=True):
            row += sigma[touched.index[i], touched.index[j]] * (1 if i == j else 2)
        for _, theta, weights, n, _ in part.blocks():
            sweep = along_coordinates(model, theta, touched.records, touched.colours, pairs, share)
            value, slopes, lap = map(np.asarray, sweep)
            yield _Block(theta[:n], weights[:n], sigma, value[:n], slopes[:, :n], lap[:n])

    def prior(self, model: Model, theta: np.ndarray) -> np.ndarray:
        return np.asarray(prior_score(model, np.eye(theta.shape[1]), theta, self.temperature))

    def score(self, model: Model, block: _Block) -> np.ndarray:
        """Score `(C, d)` of the posterior of the fitted records, or of the normal law in its place."""
        if self.normal is not None:
            centre, precision = self.normal
            return -(block.theta - centre) @ precision
        return self.prior(model, block.theta) + self.touched.gather(block.slopes * self.fitted)

    def residual(self, block: _Block, score: np.ndarray) -> np.ndarray:
        """`<phi_m, score> + tau tr(Sigma Hess l_m)`, `(C, M)`."""
        found = self.temperature * block.lap
        whole = score @ block.sigma
        for column, slope in zip(self.touched.index, block.slopes, strict=True):
            found += slope * whole[:, column]
        return found


def _moments_of(model: Model, given: _Given, part: Part) -> tuple[Any, ...]:
    """Weight of a part, the values that its sums are taken about, kernel and target of the records, and values."""
    touched, size = given.touched, given.functions.shape[1]
    gram, target = np.zeros((touched.size, touched.size)), np.zeros(touched.size)
    mean, square, shift, weight = np.zeros(size), np.zeros((size, size)), None, 0.0
    for block in given.sweeps(model, part, touched):
        heavy = block.weights[:, None]
        weight += block.weights.sum()
        _add_gram(gram, block.slopes * np.sqrt(heavy), touched, block.sigma)
        target -= block.weights @ given.residual(block, given.prior(model, block.theta))
        value = block.value @ given.functions
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = value[0].copy() if shift is None else shift
        value -= shift
        mean += block.weights @ value
        square += (value * heavy).T @ value
    return weight, shift, gram, target, mean, square


def _cross_of(model: Model, given: _Given, part: Part) -> np.ndarray:
    anchors, others = given.touched, given.others
    assert others is not None
    found = np.zeros((others.size, anchors.size))
    sweeps = (given.sweeps(model, part, some, second=False) for some in (anchors, others))
    for one, other in zip(*sweeps, strict=True):
        for j, y in zip(anchors.index, one.slopes * one.weights[:, None], strict=True):
            for i, x in zip(others.index, other.slopes, strict=True):
                found += (x.T @ y) * one.sigma[np.ix_(i, j)]
    return found


def _noise_of(model: Model, given: _Given, part: Part) -> tuple[np.ndarray, np.ndarray]:
    size = given.functions.shape[1]
    mean, square = np.zeros(size), np.zeros((size, size))
    for block in given.sweeps(model, part, given.touched):
        residual = given.residual(block, given.score(model, block)) @ given.functions
        mean += block.weights @ residual
        square += (residual * block.weights[:, None]).T @ residual
    return mean, square


def _influence_of(model: Model, given: _Given, part: Part) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = [], []
    for block in given.sweeps(model, part, given.touched):
        scores.append(given.score(model, block))
        rows.append(given.residual(block, scores[-1]) @ given.functions)
    return np.concatenate(rows), np.concatenate(scores)


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
