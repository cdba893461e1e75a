"""The mean embedding of one release by products of whole score matrices, streamed over its atoms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Array
from bayesrecon.divergence.mean_embedding import PART, PARTED, Basis, Influence, Moments, Stretch, moderate
from bayesrecon.divergence.metric_view import CHUNK, AtomPart, ReleaseView, blocks, power_of_two, unwhitened
from bayesrecon.divergence.score import log_lik, prior_score, scores, taylor
from bayesrecon.divergence.sums import KernelSums, ValueSums, covariance, kernels, numbers, plus, summed
from bayesrecon.model import Model, Records
from bayesrecon.running.engine import on_host, placed, pooled, spread

Expanded = tuple[Array, Array, Array]
"""Log likelihoods `(C, M)`, scores `(C, k, M)` and Laplacians `(C, M)` of the anchors at a block of atoms."""

_BLOCK = 256  # atoms of a block, where few are looked at
_EXTREMES = 32  # coordinates whose extreme atoms are looked at: there scores overflow first


@jax.jit
def _moments(
    expanded: Expanded, coefficients: Array, shift: Array, weights: Array, base: Array, temperature: float
) -> tuple[Array, Array, Array, Array]:
    value, phi, lap = expanded
    value, lap = value @ coefficients - shift, lap @ coefficients
    psi = phi @ coefficients  # (C, k, r)
    heavy = psi * weights[:, None, None]
    gram = heavy.reshape(-1, psi.shape[-1]).T @ psi.reshape(-1, psi.shape[-1])
    target = -(temperature * (weights @ lap) + jnp.einsum("ckr,ck->r", heavy, base))
    return gram, target, weights @ value, (value * weights[:, None]).T @ value


def _moments_on_host(
    expanded: Expanded,
    coefficients: np.ndarray,
    shift: np.ndarray,
    weights: np.ndarray,
    base: Array,
    temperature: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
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
def _values(model: Model, theta: Array, anchors: Records, coefficients: Array) -> Array:
    of_atom = jax.vmap(partial(log_lik, model), in_axes=(None, 0))
    return jax.vmap(of_atom, in_axes=(0, None))(theta, anchors) @ coefficients


@jax.jit
def _cross(anchors: Sequence[Array], coefficients: Array, weights: Array, probes: Sequence[Array]) -> Array:
    """The basis functions at probes, `(Q, r)`, from scores `(C * k, M)` in parts and weights `(C * k,)`."""
    psi = jnp.concatenate(anchors, axis=-1) @ coefficients * weights[:, None]
    return jnp.concatenate(probes, axis=-1).T @ psi


@jax.jit
def _residuals(
    expanded: Expanded, pseudo_weights: Array, directions: Array, base: Array, temperature: float
) -> tuple[Array, Array]:
    _, phi, lap = expanded
    score = phi @ pseudo_weights + base
    return _residual(phi, lap, score, temperature) @ directions, score


def _residual(phi: Array, lap: Array, score: Array, temperature: float) -> Array:
    return jnp.einsum("ckm,ck->cm", phi, score) + temperature * lap


@partial(jax.jit, static_argnames="tame")
def _noise(
    expanded: Expanded, coefficients: Array, weights: Array, score: Array, temperature: float, tame: bool = False
) -> tuple[Array, Array]:
    _, phi, lap = expanded
    residual = _residual(phi, lap, score, temperature) @ coefficients
    if tame:  # scores may overflow at atoms of a normal distribution that are farther out than those of the release
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
    values = [np.asarray(_values(model, t, padded.records, padded.coefficients))[:n] for t, _, n in parts]
    return np.concatenate(values)[:, : basis.size]


@dataclass(frozen=True)
class DenseEmbedding(ReleaseView):
    """`MeanEmbedding` of a release: every record is taken to touch every parameter."""

    def scores(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "rows M"]:
        """Score matrix `(len(atoms) * k, M)` scaled by the square roots of the weights."""
        matrix = np.empty((len(atoms) * self.metric.shape[1], len(next(iter(records.values())))))
        scored = self._scored(records, atoms)
        if not on_host():  # everything is dispatched to the devices before the first result is awaited
            places, blocks = zip(*scored, strict=True)
            scored = zip(places, jax.device_get(blocks), strict=True)
        for (rows, columns, root), phi in scored:
            block = matrix[rows, columns]
            np.multiply(np.asarray(phi)[: block.shape[0], : block.shape[1]], root[:, None], out=block)
        return matrix

    def _scored(self, records: Records, atoms: np.ndarray) -> Iterator[tuple[tuple[slice, slice, np.ndarray], Array]]:
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
        atoms = None if everywhere else self._extremes(_EXTREMES)
        moderate_everywhere = []
        for part, count in _in_parts(records):
            finite = np.ones(len(next(iter(part.values()))), bool)
            for metric, t, *_ in self._atoms(self._chunk(part), None, atoms):
                value, phi, lap = taylor(self.release.model, metric, t, part, self.temperature)
                finite &= moderate(phi).all(axis=(0, 1)) & moderate(lap).all(axis=0) & moderate(value).all(axis=0)
            moderate_everywhere.append(finite[:count])
        return np.concatenate(moderate_everywhere)

    def moments(
        self,
        basis: Basis,
        atoms: Int[np.ndarray, " A"] | None = None,
        label: str = "summing over the draws",
        stretches: int = 1,
    ) -> Moments:
        inputs, r = _PassInputs(basis.padded, self.temperature).placed(), basis.size
        parts = self._parts(self._chunk(inputs.basis.records), atoms, stretches)
        sums, value = kernels(self._pass(_moments_of, inputs, parts, label))
        stretched = [Stretch(share, np.asarray(gram)[:r, :r], np.asarray(target)[:r]) for share, (gram, target) in sums]
        return Moments.of_stretches(stretched, value[:r, :r])

    def cross(
        self, basis: Basis, probes: Records, atoms: Int[np.ndarray, " A"] | None = None
    ) -> Float[np.ndarray, "Q r"]:
        padded, count = basis.padded, len(next(iter(probes.values())))
        others = tuple(part for part, _ in _in_parts(probes))
        inputs = _PassInputs(padded, self.temperature, others=others).placed()
        parts = self._parts(self._chunk(padded.records, probes), atoms)
        total = summed(products for _, products in self._pass(_cross_of, inputs, parts, "comparing records"))
        return np.asarray(jax.device_get(total))[:count, : basis.size]

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        padded = basis.padded
        inputs = _PassInputs(padded, self.temperature, fitted=padded.coefficients[:, : basis.size] @ y)
        covariance = self._covariance(inputs, self._parts(self._chunk(padded.records)))
        return covariance[: basis.size, : basis.size]

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        padded = basis.padded
        inputs = _PassInputs(padded, self.temperature, normal=self._normal[1:])
        covariance = self._covariance(inputs, self._noise_parts(self._chunk(padded.records), simulated))
        return covariance[: basis.size, : basis.size]

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> Influence:
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

    def _covariance(self, inputs: "_PassInputs", parts: list[AtomPart]) -> np.ndarray:
        """Covariance of the residuals of a padded basis."""
        return covariance(self._pass(_noise_of, inputs.placed(), parts, "estimating noise"))


@dataclass(frozen=True)
class _PassInputs:
    """Inputs that all parts of a pass share.

    Attributes:
        basis: a padded basis.
        temperature: tau.
        others: records whose inner products with the basis are computed.
        fitted: `(M,)`, weights of the fitted data.
        directions: `(M, S)`, directions of the residuals.
        normal: centre and precision of a normal distribution whose score replaces that of the fitted data; or None.
        anchors: the parts of the basis on the devices; empty if no device is in use.
    """

    basis: Basis
    temperature: float
    others: tuple[Records, ...] = ()
    fitted: Array | None = None
    directions: Array | None = None
    normal: tuple[Array, Array] | None = None
    anchors: tuple[Records, ...] = ()

    def placed(self) -> "_PassInputs":
        """The same inputs on the devices in use, for all parts of the pass."""
        if on_host() or pooled():
            return self
        arrays = self.parts, self.basis.coefficients, self.others, self.fitted, self.directions, self.normal
        anchors, coefficients, others, fitted, directions, normal = placed(arrays)
        basis = Basis(self.basis.records, coefficients, self.basis.decays)
        return _PassInputs(basis, self.temperature, others, fitted, directions, normal, tuple(anchors))

    @property
    def parts(self) -> Sequence[Records]:
        """The anchors."""
        return self.anchors or self.basis.parts


def _moments_of(model: Model, inputs: _PassInputs, part: AtomPart) -> tuple[KernelSums, ValueSums]:
    basis = inputs.basis
    shift: Array | None = None
    sums: tuple[Array, Array, Array, Array] | None = None
    metric, tau = numbers((part.metric, np.float64(inputs.temperature)))
    for _, theta, a, *_ in part.blocks():
        t = spread(theta)
        expanded = _expanded(model, metric, t, inputs)
        base = prior_score(model, metric, t, inputs.temperature)
        if shift is None:  # one atom's values: they keep the covariance of large log likelihoods accurate
            shift = _shift_of(expanded[0], basis.coefficients)
        if on_host():
            terms = _moments_on_host(
                expanded, np.asarray(basis.coefficients), np.asarray(shift), a, base, inputs.temperature
            )
        else:
            terms = _moments(expanded, basis.coefficients, shift, spread(a), base, tau)
        sums = plus(sums, terms)
    assert sums is not None
    assert shift is not None
    gram, target, mean, square = sums
    return (gram, target), (numbers(part.weights.sum()), numbers(shift), mean, square)


def _cross_of(model: Model, inputs: _PassInputs, part: AtomPart) -> Array:
    metric = numbers(part.metric)

    def products(theta: np.ndarray, a: np.ndarray) -> Array:
        t = spread(theta)
        anchors, scored = (
            [scores(model, metric, t, records, inputs.temperature) for records in parts]
            for parts in (inputs.parts, inputs.others)
        )
        return numbers(_cross(anchors, inputs.basis.coefficients, spread(np.repeat(a, metric.shape[1])), scored))

    return summed(products(theta, a) for _, theta, a, *_ in part.blocks())


def _noise_of(model: Model, inputs: _PassInputs, part: AtomPart) -> tuple[Array, Array]:
    metric, tau = numbers((part.metric, np.float64(inputs.temperature)))

    def terms(theta: np.ndarray, a: np.ndarray) -> tuple[Array, Array]:
        t = spread(theta)
        expanded = _expanded(model, metric, t, inputs)
        if inputs.normal is not None:
            score = _normal_score(t, *inputs.normal, metric)
        else:
            assert inputs.fitted is not None
            score = _fitted_score(expanded[1], inputs.fitted, prior_score(model, metric, t, inputs.temperature))
        return numbers(_noise(expanded, inputs.basis.coefficients, spread(a), score, tau, inputs.normal is not None))

    return summed(terms(theta, a) for _, theta, a, *_ in part.blocks())


def _influence_of(model: Model, inputs: _PassInputs, part: AtomPart) -> tuple[np.ndarray, np.ndarray]:
    rows, fitted_scores = [], []
    assert inputs.fitted is not None
    assert inputs.directions is not None
    metric, tau = numbers((part.metric, np.float64(inputs.temperature)))
    for _, theta, _, n, _ in part.blocks():
        t = spread(theta)
        base = prior_score(model, metric, t, inputs.temperature)
        expanded = _expanded(model, metric, t, inputs)
        r, s = jax.device_get(_residuals(expanded, inputs.fitted, inputs.directions, base, tau))
        rows.append(r[:n])
        fitted_scores.append(unwhitened(part.metric, s[:n], inputs.temperature))
    return np.concatenate(rows), np.concatenate(fitted_scores)


@jax.jit
def _shift_of(value: Array, coefficients: Array) -> Array:
    shift = value[0] @ coefficients
    return jnp.where(jnp.isfinite(shift), shift, jnp.nan)  # not finite if a record is impossible at this atom


@jax.jit
def _normal_score(theta: Array, centre: Array, precision: Array, metric: Array) -> Array:
    return -(theta - centre) @ precision @ metric


@jax.jit
def _fitted_score(phi: Array, fitted: Array, base: Array) -> Array:
    return phi @ fitted + base


def _expanded(model: Model, metric: np.ndarray, theta: Array, inputs: _PassInputs) -> Expanded:
    parts = [taylor(model, metric, theta, part, inputs.temperature) for part in inputs.parts]
    if len(parts) == 1:
        return parts[0]
    value, phi, lap = (jnp.concatenate(x, axis=-1) for x in zip(*parts, strict=True))
    return value, phi, lap
