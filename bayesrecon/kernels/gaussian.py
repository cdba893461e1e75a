"""The kernel mean embedding of a Gaussian linear regression, in closed form.

With residuals `r = y - X beta` in units of the known part of the scale, `u = log sigma`, and the draws' coefficients
written as `beta = m + L d`, L a root of their covariance, everything is a polynomial in `e = y - X m` and `x = L' X`,

    r                = e - x d
    l                = -u - r^2 / (2 sigma^2) + what no parameter moves
    grad l           = (x r / sigma^2,  r^2 / sigma^2 - 1)                          in (d, u)
    tr(Sigma Hess l) = -(x' S_dd x + 4 (S_du x) r + 2 S_uu r^2) / sigma^2           S = Sigma in (d, u),

and `S u'' (r^2 / sigma^2 - 1)` more where the coordinate bends u. Records are columns of the monomials
`1, e^2, e x_i, x_i x_j`, and their coefficients belong to the draws alone.
No digits are lost: e has the size of a residual, and d is of order one. All of it is multiplied by the model's power.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from bayesrecon.kernels.embedding import Basis, Moments, Stretch
from bayesrecon.kernels.score import prior_score
from bayesrecon.kernels.view import CHUNK, View, blocks, power_of_two
from bayesrecon.scratch import Series
from bayesrecon.stored import mean_and_covariance
from bayesrecon.types import GaussianPredictor, Records

_AT_ONCE = 2048  # atoms whose priors are differentiated: few shapes are ever compiled


class _Block(NamedTuple):
    """Some atoms with the coefficients of the F monomials: `value (C, F)`, `phi (C, k, F)` in the metric and
    `lap (C, F)`, up to what no parameter moves."""

    metric: np.ndarray
    at: np.ndarray
    weights: np.ndarray
    stretch: int
    value: np.ndarray
    phi: np.ndarray
    lap: np.ndarray


@dataclass(frozen=True)
class GaussianEmbedding(View):
    """`MeanEmbedding` of a release of a model that has a `GaussianPredictor`."""

    def scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        columns = self._monomials(records)
        with np.errstate(over="ignore", invalid="ignore"):  # of records over many orders of magnitude
            found = [
                (b.phi * np.sqrt(b.weights)[:, None, None]).reshape(-1, len(columns)) @ columns
                for b in self._blocks(None, atoms)
            ]
        return np.concatenate(found)

    def moments(
        self, basis: Basis, atoms: np.ndarray | None = None, label: str = "kernel", stretches: int = 1
    ) -> Moments:
        functions, found, shift = self._functions(basis), [], None
        mean, square = np.zeros(basis.size), np.zeros((basis.size, basis.size))
        for _, stretch in groupby(self._blocks(label, atoms, stretches), key=attrgetter("stretch")):
            gram, target, share = np.zeros_like(square), np.zeros_like(mean), 0.0
            for b in stretch:
                psi = _times(b.phi, functions)
                heavy = psi * b.weights[:, None, None]
                gram += heavy.reshape(-1, basis.size).T @ psi.reshape(-1, basis.size)
                target -= self.temperature * (b.weights @ b.lap) @ functions + np.tensordot(self._base(b), heavy, 2)
                value = b.value @ functions
                # One atom's values as a shift keep the covariance of large log likelihoods accurate.
                shift = value[0].copy() if shift is None else shift
                value -= shift
                mean += b.weights @ value
                square += (value * b.weights[:, None]).T @ value
                share += b.weights.sum()
            found.append(Stretch(share, gram, target))
        return Moments.of_stretches(found, square - np.outer(mean, mean))

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        functions, columns = self._functions(basis), self._monomials(probes)
        inner = np.zeros((len(columns), basis.size))
        for b in self._blocks("probes", atoms):
            heavy = _times(b.phi, functions) * b.weights[:, None, None]
            inner += b.phi.reshape(-1, len(columns)).T @ heavy.reshape(-1, basis.size)
        return columns.T @ inner

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        functions = self._functions(basis)
        fitted = functions @ y
        return self._covariance(functions, ((b, b.phi @ fitted + self._base(b)) for b in self._blocks("noise")))

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        drawn, centre, precision = self._normal
        theta = drawn if simulated else self._theta
        blocks = self._blocks("noise", theta=theta if simulated else None)
        scored = ((b, -(theta[b.at] - centre) @ precision @ b.metric) for b in blocks)
        return self._covariance(self._functions(basis), scored)

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[Any, Any]:
        functions = self._functions(basis)
        fitted, directions = functions @ y, functions @ b
        rows, scores = self._series(b.shape[1])
        for block in self._blocks("errors"):
            score = block.phi @ fitted + self._base(block)
            rows.add(self._residual(block, score) @ directions)
            if self.temperature:
                scores.add(np.linalg.solve(block.metric.T, score.T).T)
        return rows.done(), scores.done()

    def _residual(self, block: _Block, score: np.ndarray) -> np.ndarray:
        """`<phi, score> + tau tr(Sigma Hess l)` of the monomials, `(C, F)`."""
        return np.matmul(score[:, None], block.phi)[:, 0] + self.temperature * block.lap

    def _covariance(self, functions: np.ndarray, scored: Iterator[tuple[_Block, np.ndarray]]) -> np.ndarray:
        size = functions.shape[1]
        mean, square = np.zeros(size), np.zeros((size, size))
        for block, score in scored:
            residual = self._residual(block, score) @ functions
            mean += block.weights @ residual
            square += (residual * block.weights[:, None]).T @ residual
        return square - np.outer(mean, mean)

    def _base(self, block: _Block) -> np.ndarray:
        """Score of prior and transforms in the metric, `(C, k)`."""
        return self._prior[block.at] @ block.metric

    @cached_property
    def _prior(self) -> Any:
        theta, chunk = self._theta, min(_AT_ONCE, power_of_two(self.size))
        eye, found = np.eye(theta.shape[1]), Series(*theta.shape)
        for t, _, n in blocks(theta, self.weights, chunk):
            found.add(np.asarray(prior_score(self.release.model, eye, t, self.temperature))[:n])
        return found.done()

    @property
    def _predictor(self) -> GaussianPredictor:
        predictor = self.release.model.gaussian
        assert predictor is not None, "a model without closed form"
        return predictor

    @cached_property
    def _centre(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean of the draws' coefficients and a root of their covariance, one where they do not vary."""
        some = list(self._predictor.coefficients)
        centre, covariance = mean_and_covariance(self._theta, self.weights)
        centre = centre[some]
        values, vectors = np.linalg.eigh(covariance[np.ix_(some, some)])
        if not values[0] > 0:
            return centre, np.eye(len(centre))
        return centre, vectors * np.sqrt(values)

    def _functions(self, basis: Basis) -> np.ndarray:
        """The basis in the monomials, `(F, r)`."""
        return self._monomials(basis.records) @ basis.coefficients

    def _monomials(self, records: Records) -> np.ndarray:
        """`(F, M)` of records."""
        centre, root = self._centre
        with np.errstate(over="ignore", invalid="ignore"):
            e, x, width = self._predictor.design(centre, records)
            e, x = e / width, (x / width[:, None]) @ root
            i, j = np.triu_indices(x.shape[1])
            return np.concatenate([np.ones((1, len(e))), e[None] ** 2, e * x.T, (x[:, i] * x[:, j]).T])

    def _blocks(
        self, label: str | None, atoms: np.ndarray | None = None, stretches: int = 1, theta: np.ndarray | None = None
    ) -> Iterator[_Block]:
        """Coefficients at the release's atoms, or at others of equal weight, a block at a time."""
        size, weights, places = self.size, self.weights, self._theta
        if theta is not None:
            size, weights, places = len(theta), np.full(len(theta), 1 / len(theta)), theta
        at = np.arange(size)
        if atoms is not None:
            at, weights = atoms, weights[atoms] / weights[atoms].sum()
        p, k = len(self._predictor.coefficients), self.metric.shape[1]
        chunk = 2 ** int(np.clip(np.log2(CHUNK / (k * (2 + p + p * (p + 1) // 2))), 0, 11))
        for metric, part, a, n, stretch in self._in_blocks(at, weights, chunk, label, at / size, stretches):
            with np.errstate(over="ignore", invalid="ignore"):  # scales of no model of these data
                found = self._coefficients(places[part[:n]], metric)
            yield _Block(metric, part[:n], a[:n], stretch, *found)

    def _coefficients(self, theta: np.ndarray, metric: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        predictor, (centre, root) = self._predictor, self._centre
        columns = list(predictor.coefficients)
        d = np.linalg.solve(root, (theta[:, columns] - centre).T).T
        u, slope, bend = _log_sigma(predictor, theta)
        precision, along = np.exp(-2 * u), metric[predictor.scale or 0]
        # The metric in d, (p, k), and in u, (C, k); it moves u along a curve of this bend, (C, 1).
        b, c, bend = np.linalg.solve(root, metric[columns]), slope * along, bend * (along @ along)
        i, j = np.triu_indices(len(columns))
        other = np.where(i == j, 0.0, 1.0)
        middle, tail = slice(2, 2 + len(columns)), slice(2 + len(columns), None)
        one = np.ones_like(u)
        square = np.concatenate([0 * one, one, -2 * d, (1 + other) * d[:, i] * d[:, j]], axis=1) * precision
        value = -0.5 * square
        value[:, :1] = -u
        phi = c[:, :, None] * square[:, None]
        phi[:, :, 0] -= c
        # x_i r is e x_i less d_j of every product x_i x_j.
        phi[:, :, middle] += b.T * precision[:, None]
        phi[:, :, tail] -= (b[i].T * d[:, None, j] + other * b[j].T * d[:, None, i]) * precision[:, None]
        mixed, own = c @ b.T, b @ b.T
        lap = (bend - 2 * (c**2).sum(axis=1, keepdims=True)) * square
        lap[:, :1] -= bend
        lap[:, middle] -= 4 * mixed * precision
        crossed = mixed[:, i] * d[:, j] + other * mixed[:, j] * d[:, i]
        lap[:, tail] -= ((1 + other) * own[i, j] - 4 * crossed) * precision
        power = self.release.model.power
        return power * value, power * phi, power * lap


def _log_sigma(predictor: GaussianPredictor, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`log sigma`, and its first and second derivative in its coordinate, `(C, 1)` each."""
    if predictor.scale is None:
        zero = np.zeros((len(theta), 1))
        return zero, zero, zero
    at, power = theta[:, predictor.scale, None], np.full((len(theta), 1), predictor.power)
    if predictor.logarithm:
        return power * at, power, 0 * power
    return power * np.log(np.abs(at)), power / at, -power / at**2  # a normal law of sigma has negative values, too


def _times(phi: np.ndarray, functions: np.ndarray) -> np.ndarray:
    """`(C, k, F)` times `(F, r)` as one product."""
    return (phi.reshape(-1, len(functions)) @ functions).reshape(*phi.shape[:2], -1)
