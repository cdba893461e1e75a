"""The kernel mean embedding that a release determines, streamed over its atoms.

For records z and atoms theta_t with weights a_t (Fisher divergence = MMD: Wynne 2025, Theorem 3.4, 4.3):

    gram    k(z, z') = sum_t a_t <phi_z(t), phi_z'(t)>
    target  mu(z)    = -sum_t a_t [tau tr(Sigma Hess l(theta_t, z)) + <phi_z(t), Sigma^(1/2)' grad log pi0(theta_t)>]
    noise   Cov(r_t), r_t(m) = <phi_m(t), sum_j w_j phi_j(t) + Sigma^(1/2)' grad log pi0> + tau tr(Sigma Hess l_m)
    value   V(z, z') = Cov_t(l(theta_t, z), l(theta_t, z'))

Everything is expressed in a basis psi = phi_Z A of r functions spanned by M anchors, chosen orthonormal on a
thinned set of atoms, so that the accumulated Gram matrix is well conditioned however small the kernel's
last eigenvalues are. Memory is bounded by `CHUNK` doubles per block whatever the number of atoms.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.kernels.score import prior_score, scores, taylor
from bayesrecon.types import Model, Progress, Records, Release

CHUNK = 2**22
"""Largest block of the score tensor, in doubles (32 MiB)."""

_SAMPLE = 64
_NORMAL = 2**14  # atoms of a normal law at which noise is simulated
_ENTRIES = 32  # of a record, from which a block counts as larger: series are kept whole while they are differentiated

_AtomBlock = tuple[np.ndarray, np.ndarray, np.ndarray, int, int]


@dataclass(frozen=True)
class Basis:
    """r functions of a record: `psi = phi_Z A`, with anchors `records` `{field: (M, ...)}` and `A (M, r)`."""

    records: Records
    coefficients: np.ndarray

    @property
    def size(self) -> int:
        return self.coefficients.shape[1]


@dataclass(frozen=True)
class Part:
    """Its share of the weight, gram and target of a part of the atoms, weighted so that parts add up to the whole."""

    share: float
    gram: np.ndarray
    target: np.ndarray


@dataclass(frozen=True)
class Moments:
    """One pass over the atoms.

    Attributes:
        gram: `(r, r)` kernel of the basis.
        target: `(r,)` embedding of the private data in the basis, `sum_n e_k(x_n)`.
        value: `(r, r)` value kernel of the basis.
        parts: what gram and target are sums of.
    """

    gram: np.ndarray
    target: np.ndarray
    value: np.ndarray
    parts: tuple[Part, ...] = ()

    @classmethod
    def of_parts(cls, parts: Sequence[Part], value: np.ndarray) -> "Moments":
        """The sums over the parts."""
        gram, target = (reduce(np.add, [getattr(part, name) for part in parts]) for name in ("gram", "target"))
        return cls(gram, target, value, tuple(parts))


@partial(jax.jit, static_argnames=("model", "temperature"))
def _moments(
    model: Model,
    temperature: float,
    metric: Any,
    theta: Any,
    weights: Any,
    anchors: Records,
    coefficients: Any,
    shift: Any,
) -> tuple[Any, ...]:
    value, phi, lap = taylor(model, metric, theta, anchors, temperature)
    value, lap = value @ coefficients - shift, lap @ coefficients
    psi = phi @ coefficients  # (C, k, r)
    heavy = psi * weights[:, None, None]
    base = prior_score(model, metric, theta, temperature)
    gram = heavy.reshape(-1, psi.shape[-1]).T @ psi.reshape(-1, psi.shape[-1])
    target = -(temperature * (weights @ lap) + jnp.einsum("ckr,ck->r", heavy, base))
    return gram, target, weights @ value, (value * weights[:, None]).T @ value


@partial(jax.jit, static_argnames="model")
def _values(model: Model, theta: Any, anchors: Records, coefficients: Any) -> Any:
    one = jax.vmap(model.log_lik, in_axes=(None, 0))
    return jax.vmap(one, in_axes=(0, None))(theta, anchors) @ coefficients


@partial(jax.jit, static_argnames=("model", "temperature"))
def _cross(
    model: Model,
    temperature: float,
    metric: Any,
    theta: Any,
    weights: Any,
    anchors: Records,
    coefficients: Any,
    probes: Records,
) -> Any:
    psi = taylor(model, metric, theta, anchors, temperature)[1] @ coefficients * weights[:, None, None]
    phi = taylor(model, metric, theta, probes, temperature)[1]
    return phi.reshape(-1, phi.shape[-1]).T @ psi.reshape(-1, psi.shape[-1])


@partial(jax.jit, static_argnames=("model", "temperature"))
def _residuals(
    model: Model, temperature: float, metric: Any, theta: Any, anchors: Records, pseudo_weights: Any, directions: Any
) -> tuple[Any, Any]:
    _, phi, lap = taylor(model, metric, theta, anchors, temperature)
    score = phi @ pseudo_weights + prior_score(model, metric, theta, temperature)
    return (jnp.einsum("ckm,ck->cm", phi, score) + temperature * lap) @ directions, score


@partial(jax.jit, static_argnames=("model", "temperature"))
def _noise(
    model: Model,
    temperature: float,
    metric: Any,
    theta: Any,
    weights: Any,
    anchors: Records,
    pseudo_weights: Any,
    coefficients: Any,
) -> tuple[Any, Any]:
    residual, _ = _residuals(model, temperature, metric, theta, anchors, pseudo_weights, coefficients)
    return weights @ residual, (residual * weights[:, None]).T @ residual


@partial(jax.jit, static_argnames=("model", "temperature"))
def _normal_noise(
    model: Model,
    temperature: float,
    metric: Any,
    theta: Any,
    weights: Any,
    anchors: Records,
    coefficients: Any,
    centre: Any,
    precision: Any,
) -> tuple[Any, Any]:
    _, phi, lap = taylor(model, metric, theta, anchors, temperature)
    score = -(theta - centre) @ precision @ metric
    residual = (jnp.einsum("ckm,ck->cm", phi, score) + temperature * lap) @ coefficients
    return weights @ residual, (residual * weights[:, None]).T @ residual


def log_likelihoods(model: Model, theta: np.ndarray, basis: Basis) -> np.ndarray:
    """Value functions of the basis at the atoms, `sum_m A_mk l(theta_t, z_m)`, `(T, r)`."""
    chunk = 2 ** int(np.clip(np.log2(CHUNK / len(basis.coefficients)), 0, 14))
    chunk = min(chunk, _power_of_two(len(theta)))
    blocks = _blocks(theta, np.ones(len(theta)), chunk)
    return np.concatenate([np.asarray(_values(model, t, basis.records, basis.coefficients))[:n] for t, _, n in blocks])


@dataclass(frozen=True)
class Embedding:
    """A release seen through a metric: the source of `gram`, `target`, `noise` and the value kernel.

    Args:
        release: atoms in the coordinates to be used.
        metric: `(d, k)` factor with `metric @ metric.T = Sigma`.
        progress: called with a label and the fraction done.
        folds: `(F, d, k)` factors in place of `metric`, each for one of F successive parts of the atoms and made
            without them (`fold_factors`).
    """

    release: Release
    metric: np.ndarray
    progress: Progress | None = None
    folds: np.ndarray | None = None

    @property
    def temperature(self) -> float:
        return self.release.temperature

    @property
    def size(self) -> int:
        """T, the number of atoms."""
        return self.release.size

    @property
    def equations(self) -> int:
        """Rows of the score matrix: atoms times directions."""
        return self.release.size * self.metric.shape[1]

    @cached_property
    def weights(self) -> np.ndarray:
        return np.asarray(self.release.weights)

    @cached_property
    def chain(self) -> np.ndarray:
        return np.asarray(self.release.chain)

    @cached_property
    def effective_size(self) -> float:
        """`1 / sum a_t^2`: T for equal weights."""
        return float(1.0 / np.sum(np.asarray(self.release.weights) ** 2))

    @cached_property
    def independent_size(self) -> float:
        """The same, less what draws of a typical coordinate lose by being correlated."""
        typical = np.median(effective_sample_size(np.asarray(self.release.theta), self.chain))
        return self.effective_size * float(min(1.0, typical / self.size))

    def thinned(self, count: int) -> np.ndarray:
        """Evenly spread atoms, enough for eight rows of the score matrix per record."""
        number = min(self.release.size, max(8, -(-8 * count // self.metric.shape[1])))
        return np.linspace(0, self.release.size - 1, number).astype(int)

    def scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        """Score matrix `(len(atoms) * k, M)` scaled by the square roots of the weights."""
        model, width = self.release.model, self.metric.shape[1]
        blocks = [
            np.asarray(scores(model, metric, t, records, self.temperature))[: n * width]
            * np.repeat(np.sqrt(weights[:n]), width)[:, None]
            for metric, t, weights, n, _ in self._atoms(self._chunk(records), None, atoms)
        ]
        return np.concatenate(blocks)

    def information(self, records: Records) -> np.ndarray:
        """`k(z, z) / d` of each record, `(M,)`, judged on a few atoms; infinite where the score overflows.

        In the metric of the posterior covariance the private records' values add up to about one.
        """
        scores = np.clip(self.scores(records, self.thinned(_SAMPLE)), -1e150, 1e150)
        norm = (scores**2).sum(axis=0)
        norm[norm >= 1e290] = np.inf
        return np.where(np.isfinite(norm), norm, np.inf) / self.metric.shape[1]

    def moments(self, basis: Basis, atoms: np.ndarray | None = None, label: str = "kernel", parts: int = 1) -> Moments:
        """Gram matrix, target and value kernel of the basis, and of `parts` parts of the atoms; `atoms` are indices,
        all by default."""
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        first = np.asarray(self.release.theta)[:1]
        shift = _values(self.release.model, first, basis.records, basis.coefficients)[0]
        blocks = self._atoms(self._chunk(basis.records), label, atoms, parts)
        found, mean, square = [], np.zeros(basis.size), np.zeros((basis.size, basis.size))
        for _, part in groupby(blocks, key=itemgetter(4)):
            gram, target = np.zeros_like(square), np.zeros_like(mean)
            share = 0.0
            for metric, t, a, *_ in part:
                terms = _moments(*self._static, metric, t, a, basis.records, basis.coefficients, shift)
                for total, term in zip((gram, target, mean, square), terms, strict=True):
                    total += np.asarray(term)
                share += a.sum()
            found.append(Part(share, gram, target))
        return Moments.of_parts(found, square - np.outer(mean, mean))

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        """The basis functions at probe records, `e_k(z) = sum_m A_mk k(z_m, z)`, `(Q, r)`."""
        (total,) = self._sum(
            lambda metric, t, a: (_cross(*self._static, metric, t, a, basis.records, basis.coefficients, probes),),
            self._atoms(self._chunk(basis.records, probes), "probes", atoms),
        )
        return total

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        """`Cov(r_t)` `(r, r)` of the residuals at the solution `y (r,)`."""
        weights = basis.coefficients @ y
        mean, square = self._sum(
            lambda metric, t, a: _noise(*self._static, metric, t, a, basis.records, weights, basis.coefficients),
            self._atoms(self._chunk(basis.records), "noise"),
        )
        return square - np.outer(mean, mean)

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        """`Cov(r_t)` `(r, r)` with the score of the normal law that has the atoms' mean and covariance in place
        of the fitted one: what noise is before anything is solved.

        Args:
            simulated: at many atoms of that law instead of the release's own. An estimator tuned with the noise of its
                own draws favours the functions on which these happen to err, and is biased by it.
        """
        _, centre, precision = self._normal
        mean, square = self._sum(
            lambda metric, t, a: _normal_noise(
                *self._static, metric, t, a, basis.records, basis.coefficients, centre, precision
            ),
            self._noise_atoms(self._chunk(basis.records), simulated),
        )
        return square - np.outer(mean, mean)

    def _noise_atoms(self, chunk: int, simulated: bool) -> Iterator[_AtomBlock]:
        theta = self._normal[0] if simulated else np.asarray(self.release.theta)
        weights = np.full(len(theta), 1 / len(theta)) if simulated else self.weights
        return self._in_blocks(theta, weights, chunk, "noise", np.arange(len(theta)) / len(theta))

    @cached_property
    def _normal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Atoms of the normal law that has the mean and covariance of the release's, its centre and precision."""
        theta, weights = np.asarray(self.release.theta), np.asarray(self.release.weights)
        centre = weights @ theta
        values, vectors = np.linalg.eigh((theta - centre).T @ ((theta - centre) * weights[:, None]))
        kept = values > 1e-15 * len(values) * values[-1]
        root = vectors[:, kept] * np.sqrt(values[kept])
        drawn = np.random.default_rng(0).normal(size=(_NORMAL, kept.sum())) @ root.T
        return centre + drawn, centre, (vectors[:, kept] / values[kept]) @ vectors[:, kept].T

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Per-atom residuals along `b (r, S)`, `(T, S)`, and the fitted posterior scores `(T, d)`, none at
        temperature 0."""
        weights, directions = basis.coefficients @ y, basis.coefficients @ b
        rows, fitted = [], [np.zeros((0, len(self.metric)))]
        for metric, block, _, n, _ in self._atoms(self._chunk(basis.records), "errors"):
            r, s = _residuals(*self._static, metric, block, basis.records, weights, directions)
            rows.append(np.asarray(r)[:n])
            if self.temperature:
                fitted.append(np.linalg.solve(metric.T, np.asarray(s)[:n].T).T)
        return np.concatenate(rows), np.concatenate(fitted)

    @staticmethod
    def _sum(part: Callable[[Any, Any, Any], tuple[Any, ...]], blocks: Iterator[Any]) -> tuple[np.ndarray, ...]:
        total: list[np.ndarray] = []
        for metric, theta, weights, *_ in blocks:
            terms = [np.asarray(x) for x in part(metric, theta, weights)]
            total = terms if not total else [s + x for s, x in zip(total, terms, strict=True)]
        return tuple(total)

    @property
    def _static(self) -> tuple[Model, float]:
        return self.release.model, self.release.temperature

    def _chunk(self, *records: Records) -> int:
        """Atoms per block: a power of two, so that few shapes are ever compiled."""
        width = sum(len(next(iter(r.values()))) for r in records) * self.metric.shape[1]
        entries = sum(math.prod(f.shape) for f in self.release.model.fields.values())
        width *= max(1, entries // _ENTRIES)
        return 2 ** int(np.clip(np.log2(CHUNK / width), 0, 11))

    def _atoms(
        self, chunk: int, label: str | None, atoms: np.ndarray | None = None, parts: int = 1
    ) -> Iterator[_AtomBlock]:
        theta, weights = np.asarray(self.release.theta), np.asarray(self.release.weights)
        place = np.arange(len(theta)) / len(theta)
        if atoms is not None:
            theta, weights, place = theta[atoms], weights[atoms] / weights[atoms].sum(), place[atoms]
        return self._in_blocks(theta, weights, chunk, label, place, parts)

    def _in_blocks(
        self, theta: np.ndarray, weights: np.ndarray, chunk: int, label: str | None, place: np.ndarray, parts: int = 1
    ) -> Iterator[_AtomBlock]:
        """Metric, atoms, weights and their number, block by block, and the part that a block belongs to; `place` in
        [0, 1), increasing, tells fold and part."""
        factors = self.metric[None] if self.folds is None else self.folds
        whole = np.lcm(len(factors), parts)
        edges = np.searchsorted(place, np.arange(whole + 1) / whole)
        chunk = min(chunk, _power_of_two(int(np.diff(edges).max())))
        done = 0
        for i, (start, end) in enumerate(pairwise(edges)):
            metric, part = factors[i * len(factors) // whole], i * parts // whole
            for block in _blocks(theta[start:end], weights[start:end], chunk):
                yield metric, *block, part
                done += block[2]
                if self.progress is not None and label is not None:
                    self.progress(label, done / len(theta))


def _power_of_two(count: int) -> int:
    return 2 ** (count - 1).bit_length()


def _blocks(theta: np.ndarray, weights: np.ndarray, chunk: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Blocks of exactly `chunk` atoms; the last is padded with copies of weight zero."""
    for start in range(0, len(theta), chunk):
        block, a = theta[start : start + chunk], weights[start : start + chunk]
        n = len(block)
        if n < chunk:
            block = np.concatenate([block, np.repeat(block[-1:], chunk - n, axis=0)])
            a = np.concatenate([a, np.zeros(chunk - n)])
        yield block, a, n
