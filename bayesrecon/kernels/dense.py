"""The mean embedding of one release by products of whole score matrices, streamed over its atoms."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.kernels.embedding import PART, PARTED, Basis, Moments, Stretch
from bayesrecon.kernels.score import log_lik, prior_score, scores, taylor
from bayesrecon.kernels.view import CHUNK, AtomBlock, View, blocks, power_of_two
from bayesrecon.types import Model, Records

_BLOCK = 256  # atoms of a block, where few are looked at
_ENDS = 32  # coordinates whose extreme atoms are looked at: there scores overflow first


_taylor = partial(jax.jit, static_argnames=("model", "temperature"))(taylor)
"""By far the longest program to compile: those that use its numbers are small, and leave it alone."""


@jax.jit
def _moments(
    expanded: Any, coefficients: Any, shift: Any, weights: Any, base: Any, temperature: float
) -> tuple[Any, ...]:
    value, phi, lap = expanded
    value, lap = value @ coefficients - shift, lap @ coefficients
    psi = phi @ coefficients  # (C, k, r)
    heavy = psi * weights[:, None, None]
    gram = heavy.reshape(-1, psi.shape[-1]).T @ psi.reshape(-1, psi.shape[-1])
    target = -(temperature * (weights @ lap) + jnp.einsum("ckr,ck->r", heavy, base))
    return gram, target, weights @ value, (value * weights[:, None]).T @ value


@partial(jax.jit, static_argnames="model")
def _values(model: Model, theta: Any, anchors: Records, coefficients: Any) -> Any:
    one = jax.vmap(partial(log_lik, model), in_axes=(None, 0))
    return jax.vmap(one, in_axes=(0, None))(theta, anchors) @ coefficients


@jax.jit
def _cross(anchors: Any, coefficients: Any, weights: Any, probes: Any) -> Any:
    """Scores are `(C * k, M)` in parts, weights `(C * k,)`."""
    psi = jnp.concatenate(anchors, axis=-1) @ coefficients * weights[:, None]
    return jnp.concatenate(probes, axis=-1).T @ psi


@jax.jit
def _residuals(expanded: Any, pseudo_weights: Any, directions: Any, base: Any, temperature: float) -> tuple[Any, Any]:
    _, phi, lap = expanded
    score = phi @ pseudo_weights + base
    return _residual(phi, lap, score, temperature) @ directions, score


def _residual(phi: Any, lap: Any, score: Any, temperature: float) -> Any:
    return jnp.einsum("ckm,ck->cm", phi, score) + temperature * lap


@partial(jax.jit, static_argnames="tame")
def _noise(
    expanded: Any, coefficients: Any, weights: Any, score: Any, temperature: float, tame: bool = False
) -> tuple[Any, Any]:
    _, phi, lap = expanded
    residual = _residual(phi, lap, score, temperature) @ coefficients
    if tame:  # atoms of a normal law that lie beyond all of the release's: there scores may overflow
        residual = jnp.where(jnp.isfinite(residual**2).all(axis=1, keepdims=True), residual, 0.0)
    return weights @ residual, (residual * weights[:, None]).T @ residual


def _in_parts(records: Records) -> Iterator[tuple[Records, int]]:
    """Parts of one size and their numbers of records; the last is padded with copies."""
    count = len(next(iter(records.values())))
    if not PART < count <= PARTED:
        yield records, count
        return
    for start in range(0, count, PART):
        rows = np.minimum(np.arange(start, start + PART), count - 1)
        yield {k: np.asarray(v)[rows] for k, v in records.items()}, min(PART, count - start)


def log_likelihoods(model: Model, theta: np.ndarray, basis: Basis) -> np.ndarray:
    """Value functions of the basis at the atoms, `sum_m A_mk l(theta_t, z_m)`, `(T, r)`."""
    whole = basis.padded
    chunk = 2 ** int(np.clip(np.log2(CHUNK / len(whole.coefficients)), 0, 14))
    chunk = min(chunk, power_of_two(len(theta)))
    parts = blocks(theta, np.ones(len(theta)), chunk)
    found = [np.asarray(_values(model, t, whole.records, whole.coefficients))[:n] for t, _, n in parts]
    return np.concatenate(found)[:, : basis.size]


@dataclass(frozen=True)
class DenseEmbedding(View):
    """`MeanEmbedding` of a release: every record is taken to touch every parameter."""

    def scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        """Score matrix `(len(atoms) * k, M)` scaled by the square roots of the weights."""
        return np.concatenate([self._scores(part, atoms)[:, :n] for part, n in _in_parts(records)], axis=1)

    def _scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        model, width = self.release.model, self.metric.shape[1]
        blocks = [
            np.asarray(scores(model, metric, t, records, self.temperature))[: n * width]
            * np.repeat(np.sqrt(weights[:n]), width)[:, None]
            for metric, t, weights, n, _ in self._atoms(min(self._chunk(records), _BLOCK), None, atoms)
        ]
        return np.concatenate(blocks)

    def tame(self, records: Records, *, everywhere: bool = False) -> np.ndarray:
        theta = np.asarray(self.release.theta)[:, :_ENDS]
        atoms = None if everywhere else np.unique([theta.argmin(axis=0), theta.argmax(axis=0)])
        found = []
        for part, count in _in_parts(records):
            kept = np.ones(len(next(iter(part.values()))), bool)
            for metric, t, *_ in self._atoms(self._chunk(part), None, atoms):
                _, phi, lap = _taylor(self.release.model, metric, t, part, self.temperature)
                kept &= np.isfinite(phi).all(axis=(0, 1)) & np.isfinite(lap).all(axis=0)
            found.append(kept[:count])
        return np.concatenate(found)

    def moments(
        self, basis: Basis, atoms: np.ndarray | None = None, label: str = "kernel", stretches: int = 1
    ) -> Moments:
        whole, r = basis.padded, basis.size
        atoms_ = self._atoms(self._chunk(whole.records), label, atoms, stretches)
        found, mean, square = [], np.zeros(whole.size), np.zeros((whole.size, whole.size))
        shift = None
        for _, stretch in groupby(atoms_, key=itemgetter(4)):
            gram, target = np.zeros_like(square), np.zeros_like(mean)
            share = 0.0
            for metric, t, a, *_ in stretch:
                expanded = self._expanded(metric, t, whole)
                if shift is None:  # one atom's values: they keep the covariance of large log likelihoods accurate
                    shift = np.asarray(expanded[0])[0] @ whole.coefficients
                base = prior_score(self.release.model, metric, t, self.temperature)
                terms = _moments(expanded, whole.coefficients, shift, a, base, self.temperature)
                for total, term in zip((gram, target, mean, square), terms, strict=True):
                    total += np.asarray(term)
                share += a.sum()
            found.append(Stretch(share, gram[:r, :r], target[:r]))
        return Moments.of_stretches(found, (square - np.outer(mean, mean))[:r, :r])

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        whole, count, width = basis.padded, len(next(iter(probes.values()))), self.metric.shape[1]
        others = [part for part, _ in _in_parts(probes)]
        total: Any = 0.0
        for metric, t, a, *_ in self._atoms(self._chunk(whole.records, probes), "probes", atoms):
            anchors, scored = (
                [scores(self.release.model, metric, t, part, self.temperature) for part in parts]
                for parts in (whole.parts, others)
            )
            total = total + np.asarray(_cross(anchors, whole.coefficients, np.repeat(a, width), scored))
        return total[:count, : basis.size]

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        whole = basis.padded
        weights = whole.coefficients[:, : basis.size] @ y

        def score(metric: Any, theta: Any, phi: Any) -> Any:
            return phi @ weights + prior_score(self.release.model, metric, theta, self.temperature)

        found = self._covariance(whole, score, self._atoms(self._chunk(whole.records), "noise"))
        return found[: basis.size, : basis.size]

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        whole = basis.padded
        _, centre, precision = self._normal

        def score(metric: Any, theta: Any, phi: Any) -> Any:
            return -(theta - centre) @ precision @ metric

        found = self._covariance(whole, score, self._noise_atoms(self._chunk(whole.records), simulated), tame=True)
        return found[: basis.size, : basis.size]

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = basis.padded
        weights, directions = (whole.coefficients[:, : basis.size] @ x for x in (y, b))
        rows, fitted = [], [np.zeros((0, len(self.metric)))]
        for metric, t, _, n, _ in self._atoms(self._chunk(whole.records), "errors"):
            base = prior_score(self.release.model, metric, t, self.temperature)
            r, s = _residuals(self._expanded(metric, t, whole), weights, directions, base, self.temperature)
            rows.append(np.asarray(r)[:n])
            if self.temperature:
                fitted.append(np.linalg.solve(metric.T, np.asarray(s)[:n].T).T)
        return np.concatenate(rows), np.concatenate(fitted)

    def _expanded(self, metric: np.ndarray, theta: np.ndarray, whole: Basis) -> tuple[Any, ...]:
        """Values, scores and Laplacians of the anchors of a padded basis at a block of atoms."""
        parts = [_taylor(self.release.model, metric, theta, part, self.temperature) for part in whole.parts]
        return parts[0] if len(parts) == 1 else tuple(jnp.concatenate(x, axis=-1) for x in zip(*parts, strict=True))

    def _covariance(
        self, whole: Basis, score: Callable[[Any, Any, Any], Any], atoms: Iterator[AtomBlock], tame: bool = False
    ) -> np.ndarray:
        """Of the residuals of a padded basis where the posterior's whitened score is `score(metric, theta, phi)`."""
        mean, square = np.zeros(whole.size), np.zeros((whole.size, whole.size))
        for metric, t, a, *_ in atoms:
            expanded = self._expanded(metric, t, whole)
            terms = _noise(expanded, whole.coefficients, a, score(metric, t, expanded[1]), self.temperature, tame)
            mean += np.asarray(terms[0])
            square += np.asarray(terms[1])
        return square - np.outer(mean, mean)
