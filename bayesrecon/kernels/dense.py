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

from bayesrecon.kernels.embedding import Basis, Moments, Stretch
from bayesrecon.kernels.score import log_lik, prior_score, scores, taylor
from bayesrecon.kernels.view import CHUNK, View, blocks, power_of_two
from bayesrecon.types import Model, Records

_PART = 64  # records of a part: the smallest pool of generic records, so that larger ones need no other program
_PARTED = 512  # records up to which that is done: with more, one program is soon worth its compilation


@partial(jax.jit, static_argnames=("model", "temperature"))
def _moments(
    model: Model,
    temperature: float,
    metric: Any,
    theta: Any,
    weights: Any,
    anchors: Records,
    coefficients: Any,
    origin: Any,
) -> tuple[Any, ...]:
    # One atom's values as a shift keep the covariance of large log likelihoods accurate.
    shift = _values(model, origin, anchors, coefficients)[0]
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
    one = jax.vmap(partial(log_lik, model), in_axes=(None, 0))
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
    # Atoms of the normal law that lie beyond all of the release's: there scores may overflow.
    residual = jnp.where(jnp.isfinite(residual).all(axis=1, keepdims=True), residual, 0.0)
    return weights @ residual, (residual * weights[:, None]).T @ residual


@partial(jax.jit, static_argnames=("model", "temperature"))
def _tame(model: Model, temperature: float, metric: Any, theta: Any, records: Records) -> Any:
    _, phi, lap = taylor(model, metric, theta, records, temperature)
    return jnp.isfinite(phi).all(axis=(0, 1)) & jnp.isfinite(lap).all(axis=0)


def _in_parts(records: Records) -> Iterator[tuple[Records, int]]:
    """Parts of one size and their numbers of records; the last is padded with copies."""
    count = len(next(iter(records.values())))
    if not _PART < count <= _PARTED:
        yield records, count
        return
    for start in range(0, count, _PART):
        rows = np.minimum(np.arange(start, start + _PART), count - 1)
        yield {k: np.asarray(v)[rows] for k, v in records.items()}, min(_PART, count - start)


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
            for metric, t, weights, n, _ in self._atoms(self._chunk(records), None, atoms)
        ]
        return np.concatenate(blocks)

    def tame(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        """Records `(M,)` whose scores and Laplacians are finite at some atoms."""
        theta = np.asarray(self.release.theta)[np.resize(atoms, power_of_two(len(atoms)))]
        parts = [np.asarray(_tame(*self._static, self.metric, theta, part))[:size] for part, size in _in_parts(records)]
        return np.concatenate(parts)

    def moments(
        self, basis: Basis, atoms: np.ndarray | None = None, label: str = "kernel", stretches: int = 1
    ) -> Moments:
        origin, whole, r = np.asarray(self.release.theta)[:1], basis.padded, basis.size
        atoms_ = self._atoms(self._chunk(whole.records), label, atoms, stretches)
        found, mean, square = [], np.zeros(whole.size), np.zeros((whole.size, whole.size))
        for _, stretch in groupby(atoms_, key=itemgetter(4)):
            gram, target = np.zeros_like(square), np.zeros_like(mean)
            share = 0.0
            for metric, t, a, *_ in stretch:
                terms = _moments(*self._static, metric, t, a, whole.records, whole.coefficients, origin)
                for total, term in zip((gram, target, mean, square), terms, strict=True):
                    total += np.asarray(term)
                share += a.sum()
            found.append(Stretch(share, gram[:r, :r], target[:r]))
        return Moments.of_stretches(found, (square - np.outer(mean, mean))[:r, :r])

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        whole = basis.padded
        (total,) = self._sum(
            lambda metric, t, a: (_cross(*self._static, metric, t, a, whole.records, whole.coefficients, probes),),
            self._atoms(self._chunk(whole.records, probes), "probes", atoms),
        )
        return total[:, : basis.size]

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        whole = basis.padded
        weights = whole.coefficients[:, : basis.size] @ y
        mean, square = self._sum(
            lambda metric, t, a: _noise(*self._static, metric, t, a, whole.records, weights, whole.coefficients),
            self._atoms(self._chunk(whole.records), "noise"),
        )
        return (square - np.outer(mean, mean))[: basis.size, : basis.size]

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        whole = basis.padded
        _, centre, precision = self._normal
        mean, square = self._sum(
            lambda metric, t, a: _normal_noise(
                *self._static, metric, t, a, whole.records, whole.coefficients, centre, precision
            ),
            self._noise_atoms(self._chunk(whole.records), simulated),
        )
        return (square - np.outer(mean, mean))[: basis.size, : basis.size]

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        whole = basis.padded
        weights, directions = (whole.coefficients[:, : basis.size] @ x for x in (y, b))
        rows, fitted = [], [np.zeros((0, len(self.metric)))]
        for metric, block, _, n, _ in self._atoms(self._chunk(whole.records), "errors"):
            r, s = _residuals(*self._static, metric, block, whole.records, weights, directions)
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
