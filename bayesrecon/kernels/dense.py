"""The mean embedding of one release by products of whole score matrices, streamed over its atoms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Array
from bayesrecon.kernels.embedding import PART, PARTED, Basis, Moments, Stretch, moderate
from bayesrecon.kernels.metric_view import CHUNK, Part, View, blocks, power_of_two, unwhitened
from bayesrecon.kernels.score import log_lik, prior_score, scores, taylor
from bayesrecon.kernels.sums import covariance, kernels, numbers, plus
from bayesrecon.model import Model, Records
from bayesrecon.running.engine import on_host, placed, pooled, spread

_BLOCK = 256  # atoms of a block, where few are looked at
_EXTREMES = 32  # coordinates whose extreme atoms are looked at: there scores overflow first


@jax.jit
def _moments(
    expanded: Any, coefficients: Array, shift: Array, weights: Array, base: Array, temperature: float
) -> tuple[Any, ...]:
    value, phi, lap = expanded
    value, lap = value @ coefficients - shift, lap @ coefficients
    psi = phi @ coefficients  # (C, k, r)
    heavy = psi * weights[:, None, None]
    gram = heavy.reshape(-1, psi.shape[-1]).T @ psi.reshape(-1, psi.shape[-1])
    target = -(temperature * (weights @ lap) + jnp.einsum("ckr,ck->r", heavy, base))
    return gram, target, weights @ value, (value * weights[:, None]).T @ value


def _moments_on_host(
    expanded: Any, coefficients: np.ndarray, shift: np.ndarray, weights: np.ndarray, base: Array, temperature: float
) -> tuple[np.ndarray, ...]:
    """As `_moments`, by BLAS."""
    value, phi, lap = (np.asarray(x) for x in expanded)
    root = np.sqrt(weights)[:, None]
    psi = phi.reshape(-1, phi.shape[-1]) @ coefficients
    psi *= np.repeat(root, phi.shape[1], axis=0)
    target = temperature * (weights @ lap @ coefficients) + psi.T @ (root * np.asarray(base)).ravel()
    with np.errstate(over="ignore", invalid="ignore"):  # impossible at some atom; `fit` looks for other records
        value = root * (value @ coefficients - shift)
        value[~np.isfinite(value)] = np.nan
        return psi.T @ psi, -target, root[:, 0] @ value, value.T @ value


@partial(jax.jit, static_argnames="model")
def _values(model: Model, theta: Array, anchors: Records, coefficients: Array) -> Any:
    one = jax.vmap(partial(log_lik, model), in_axes=(None, 0))
    return jax.vmap(one, in_axes=(0, None))(theta, anchors) @ coefficients


@jax.jit
def _cross(anchors: Any, coefficients: Array, weights: Array, probes: Array) -> Any:
    """Scores are `(C * k, M)` in parts, weights `(C * k,)`."""
    psi = jnp.concatenate(anchors, axis=-1) @ coefficients * weights[:, None]
    return jnp.concatenate(probes, axis=-1).T @ psi


@jax.jit
def _residuals(
    expanded: Any, pseudo_weights: Array, directions: Array, base: Array, temperature: float
) -> tuple[Any, Any]:
    _, phi, lap = expanded
    score = phi @ pseudo_weights + base
    return _residual(phi, lap, score, temperature) @ directions, score


def _residual(phi: Array, lap: Array, score: Array, temperature: float) -> Any:
    return jnp.einsum("ckm,ck->cm", phi, score) + temperature * lap


@partial(jax.jit, static_argnames="tame")
def _noise(
    expanded: Any, coefficients: Array, weights: Array, score: Array, temperature: float, tame: bool = False
) -> tuple[Any, Any]:
    _, phi, lap = expanded
    residual = _residual(phi, lap, score, temperature) @ coefficients
    if tame:  # atoms of a normal distribution that lie beyond all of the release's: there scores may overflow
        residual = jnp.asarray(residual)
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


def log_likelihoods(model: Model, theta: np.ndarray, basis: Basis) -> Float[np.ndarray, "T r"]:
    """Value functions of the basis at the atoms, `sum_m A_mk l(theta_t, z_m)`, `(T, r)`."""
    padded = basis.padded
    chunk = 2 ** int(np.clip(np.log2(CHUNK / len(padded.coefficients)), 0, 14))
    chunk = min(chunk, power_of_two(len(theta)))
    parts = blocks(theta, np.ones(len(theta)), chunk)
    found = [np.asarray(_values(model, t, padded.records, padded.coefficients))[:n] for t, _, n in parts]
    return np.concatenate(found)[:, : basis.size]


@dataclass(frozen=True)
class DenseEmbedding(View):
    """`MeanEmbedding` of a release: every record is taken to touch every parameter."""

    def scores(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "rows M"]:
        """Score matrix `(len(atoms) * k, M)` scaled by the square roots of the weights."""
        found = np.empty((len(atoms) * self.metric.shape[1], len(next(iter(records.values())))))
        scored = self._scored(records, atoms)
        if not on_host():  # a device has all of it to do before anything is waited for
            places, blocks = zip(*scored, strict=True)
            scored = zip(places, jax.device_get(blocks), strict=True)
        for (rows, columns, root), phi in scored:
            into = found[rows, columns]
            np.multiply(np.asarray(phi)[: into.shape[0], : into.shape[1]], root[:, None], out=into)
        return found

    def _scored(self, records: Records, atoms: np.ndarray) -> Iterator[tuple[tuple[slice, slice, np.ndarray], Any]]:
        """Rows and columns of every block of the score matrix, the square roots of their weights, and the block."""
        model, width, first_column = self.release.model, self.metric.shape[1], 0
        for part, count in _in_parts(records):
            columns, start = slice(first_column, first_column + count), 0
            for metric, t, weights, n, _ in self._atoms(min(self._chunk(part), _BLOCK), None, atoms):
                place = slice(start, start + n * width), columns, np.repeat(np.sqrt(weights[:n]), width)
                yield place, scores(model, metric, t, part, self.temperature)
                start += n * width
            first_column += count

    def tame(self, records: Records, *, everywhere: bool = False) -> Bool[np.ndarray, " M"]:
        atoms = None if everywhere else self._ends(_EXTREMES)
        found = []
        for part, count in _in_parts(records):
            finite = np.ones(len(next(iter(part.values()))), bool)
            for metric, t, *_ in self._atoms(self._chunk(part), None, atoms):
                value, phi, lap = taylor(self.release.model, metric, t, part, self.temperature)
                finite &= moderate(phi).all(axis=(0, 1)) & moderate(lap).all(axis=0) & moderate(value).all(axis=0)
            found.append(finite[:count])
        return np.concatenate(found)

    def moments(
        self,
        basis: Basis,
        atoms: Int[np.ndarray, " A"] | None = None,
        label: str = "summing over the draws",
        stretches: int = 1,
    ) -> Moments:
        inputs, r = _PassInputs(basis.padded, self.temperature).placed(), basis.size
        parts = self._parts(self._chunk(inputs.basis.records), atoms, stretches)
        found, value = kernels(self._pass(_moments_of, inputs, parts, label))
        sums = [Stretch(share, gram[:r, :r], target[:r]) for share, (gram, target) in found]
        return Moments.of_stretches(sums, value[:r, :r])

    def cross(
        self, basis: Basis, probes: Records, atoms: Int[np.ndarray, " A"] | None = None
    ) -> Float[np.ndarray, "Q r"]:
        padded, count = basis.padded, len(next(iter(probes.values())))
        others = tuple(part for part, _ in _in_parts(probes))
        inputs = _PassInputs(padded, self.temperature, others=others).placed()
        parts = self._parts(self._chunk(padded.records, probes), atoms)
        total: Any = None
        for _, found in self._pass(_cross_of, inputs, parts, "comparing records"):
            total = plus(total, found)
        return np.asarray(jax.device_get(total))[:count, : basis.size]

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        padded = basis.padded
        inputs = _PassInputs(padded, self.temperature, fitted=padded.coefficients[:, : basis.size] @ y)
        found = self._covariance(inputs, self._parts(self._chunk(padded.records)))
        return found[: basis.size, : basis.size]

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        padded = basis.padded
        inputs = _PassInputs(padded, self.temperature, normal=self._normal[1:])
        found = self._covariance(inputs, self._noise_parts(self._chunk(padded.records), simulated))
        return found[: basis.size, : basis.size]

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> tuple[Any, Any]:
        padded = basis.padded
        fitted, directions = (padded.coefficients[:, : basis.size] @ x for x in (y, b))
        inputs = _PassInputs(padded, self.temperature, fitted=fitted, directions=directions).placed()
        series, scores = self._series(b.shape[1])
        for _, (rows, score) in self._pass(
            _influence_of, inputs, self._parts(self._chunk(padded.records)), "estimating errors"
        ):
            series.add(rows)
            scores.add(score)
        return series.done(), scores.done()

    def _covariance(self, inputs: "_PassInputs", parts: list[Part]) -> np.ndarray:
        """Of the residuals of a padded basis."""
        return covariance(self._pass(_noise_of, inputs.placed(), parts, "estimating noise"))


@dataclass(frozen=True)
class _PassInputs:
    """What all parts of a pass share.

    Attributes:
        basis: a padded basis.
        temperature: tau.
        others: records whose inner products with the basis are taken.
        fitted: `(M,)` weights of the data that were fitted.
        directions: `(M, S)` along which residuals are taken.
        normal: centre and precision of a normal distribution whose score stands for the fitted one.
        anchors: the parts of the basis on the devices, where they are kept there.
    """

    basis: Basis
    temperature: float
    others: tuple[Records, ...] = ()
    fitted: Any = None
    directions: Any = None
    normal: Any = None
    anchors: tuple[Records, ...] = ()

    def placed(self) -> "_PassInputs":
        """Kept on the devices for a whole pass, where they work on it."""
        if on_host() or pooled():
            return self
        arrays = self.parts, self.basis.coefficients, self.others, self.fitted, self.directions, self.normal
        anchors, coefficients, *rest = placed(arrays)
        basis = Basis(self.basis.records, coefficients, self.basis.decays)
        return _PassInputs(basis, self.temperature, *rest, anchors=tuple(anchors))

    @property
    def parts(self) -> Sequence[Records]:
        """The anchors."""
        return self.anchors or self.basis.parts


def _moments_of(model: Model, inputs: _PassInputs, part: Part) -> tuple[Any, Any]:
    """Kernel and target; and weight, the values that sums are taken about, mean and products of values."""
    basis, shift = inputs.basis, None
    sums: Any = None
    metric, tau = numbers((part.metric, np.float64(inputs.temperature)))
    for _, theta, a, *_ in part.blocks():
        t = spread(theta)
        expanded = _expanded(model, metric, t, inputs)
        base = prior_score(model, metric, t, inputs.temperature)
        if shift is None:  # one atom's values: they keep the covariance of large log likelihoods accurate
            shift = _shift_of(expanded[0], basis.coefficients)
        if on_host():
            terms = _moments_on_host(expanded, basis.coefficients, np.asarray(shift), a, base, inputs.temperature)
        else:
            terms = _moments(expanded, basis.coefficients, shift, spread(a), base, tau)
        sums = plus(sums, terms)
    gram, target, mean, square = sums
    return (gram, target), (numbers(part.weights.sum()), numbers(shift), mean, square)


def _cross_of(model: Model, inputs: _PassInputs, part: Part) -> Any:
    total: Any = None
    metric = numbers(part.metric)
    for _, theta, a, *_ in part.blocks():
        t = spread(theta)
        anchors, scored = (
            [scores(model, metric, t, some, inputs.temperature) for some in parts]
            for parts in (inputs.parts, inputs.others)
        )
        heavy = spread(np.repeat(a, metric.shape[1]))
        total = plus(total, numbers(_cross(anchors, inputs.basis.coefficients, heavy, scored)))
    return total


def _noise_of(model: Model, inputs: _PassInputs, part: Part) -> tuple[Any, Any]:
    total: Any = None
    metric, tau = numbers((part.metric, np.float64(inputs.temperature)))
    for _, theta, a, *_ in part.blocks():
        t = spread(theta)
        expanded = _expanded(model, metric, t, inputs)
        if inputs.normal is not None:
            score = _normal_score(t, *inputs.normal, metric)
        else:
            score = _fitted_score(expanded[1], inputs.fitted, prior_score(model, metric, t, inputs.temperature))
        terms = _noise(expanded, inputs.basis.coefficients, spread(a), score, tau, inputs.normal is not None)
        total = plus(total, numbers(terms))
    return total


def _influence_of(model: Model, inputs: _PassInputs, part: Part) -> tuple[np.ndarray, np.ndarray]:
    rows, found = [], []
    metric, tau = numbers((part.metric, np.float64(inputs.temperature)))
    for _, theta, _, n, _ in part.blocks():
        t = spread(theta)
        base = prior_score(model, metric, t, inputs.temperature)
        expanded = _expanded(model, metric, t, inputs)
        r, s = jax.device_get(_residuals(expanded, inputs.fitted, inputs.directions, base, tau))
        rows.append(r[:n])
        found.append(unwhitened(part.metric, s[:n], inputs.temperature))
    return np.concatenate(rows), np.concatenate(found)


@jax.jit
def _shift_of(value: Array, coefficients: Array) -> Any:
    found = value[0] @ coefficients
    return jnp.where(jnp.isfinite(found), found, jnp.nan)  # of a record that is impossible there


@jax.jit
def _normal_score(theta: Array, centre: Array, precision: Array, metric: Array) -> Any:
    return -(theta - centre) @ precision @ metric


@jax.jit
def _fitted_score(phi: Array, fitted: Array, base: Array) -> Any:
    return phi @ fitted + base


def _expanded(model: Model, metric: np.ndarray, theta: Array, inputs: _PassInputs) -> tuple[Any, ...]:
    """Values, scores and Laplacians of the anchors of a padded basis at a block of atoms."""
    parts = [taylor(model, metric, theta, part, inputs.temperature) for part in inputs.parts]
    return parts[0] if len(parts) == 1 else tuple(jnp.concatenate(x, axis=-1) for x in zip(*parts, strict=True))
