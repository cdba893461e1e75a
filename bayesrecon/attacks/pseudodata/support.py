"""Weighted records as variables of a descent: their coordinates and constraints.

Records move in whitened coordinates inside the domains of their fields. Known fields, and fields with finitely many or
integer values, are fixed. The weights choose among their values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.metric_view import OneRelease
from bayesrecon.divergence.score import log_lik, prior_score, scores, taylor
from bayesrecon.domains import Domain
from bayesrecon.estimation.span import Fit
from bayesrecon.model import Model, PseudoData, Records

WeightsKind = Literal["positive", "free", "total", "units", "fixed"]
Variables = dict[str, Array]

_EDGE = 1e-9  # smallest distance of the start from the ends of a domain, in units of the scale
_WEIGHT_STEP = 0.1  # step scale of the weights, relative to that of the records


@dataclass(frozen=True)
class Chart:
    """Coordinates of weights and records. They are hashable, so that compiled functions are reused.

    Attributes:
        moved: `(field, domain)` of each field that moves.
        weights: "positive", "free", "total" (positive, with the given sum), "units" (positive, with sum one for
            each run of `group` records) or "fixed".
        total: the given sum.
        group: length of the runs.
    """

    moved: tuple[tuple[str, Domain], ...]
    weights: WeightsKind = "positive"
    total: float = 0.0
    group: int = 1

    def weights_at(self, x: Variables, start_weights: Array) -> Array:
        """Weights `(M,)` of the records."""
        if self.weights == "fixed":
            return jnp.asarray(start_weights)
        if self.weights == "free":
            return x["weights"]
        if self.weights == "total":
            return self.total * jax.nn.softmax(x["weights"])
        if self.weights == "units":
            return jax.nn.softmax(x["weights"].reshape(-1, self.group), axis=1).reshape(-1)
        return jnp.exp(x["level"] + x["weights"])

    def records_at(self, x: Variables, fixed: Records, centre: Records, scale: Records) -> Records:
        """Records, or one record, from the coordinates of the moving fields."""
        moved = {name: _outward(domain, x[name], centre[name], scale[name]) for name, domain in self.moved}
        return {**fixed, **moved}


@dataclass(frozen=True)
class Support:
    """A chart with its start.

    Attributes:
        start: first weights and records.
        centre, scale: `{field: (*shape,)}`, which whiten the moving fields.
    """

    chart: Chart
    start: PseudoData
    centre: Records
    scale: Records

    @property
    def fixed(self) -> Records:
        moved = {name for name, _ in self.chart.moved}
        return {k: np.asarray(v) for k, v in self.start.records.items() if k not in moved}

    def pack(self) -> Variables:
        """The coordinates of the start."""
        weights, kind = np.asarray(self.start.weights, float), self.chart.weights
        x: Variables = {
            name: _inward(domain, np.asarray(self.start.records[name], float), self.centre[name], self.scale[name])
            for name, domain in self.chart.moved
        }
        if kind == "free":
            x["weights"] = weights
        elif kind != "fixed":
            logs = np.log(np.maximum(weights, 1e-12 * max(float(weights.max()), 1e-300)))
            # One coordinate for the common level, so that the number of records can change in a single step.
            x["weights"] = logs - logs.mean()
            if kind == "positive":
                x["level"] = np.asarray(logs.mean())
        return x

    def unpack(self, x: Mapping[str, Array]) -> PseudoData:
        """Weights and records as NumPy arrays."""
        arrays: Variables = {k: jnp.asarray(v) for k, v in x.items()}
        records = self.chart.records_at(arrays, self.fixed, self.centre, self.scale)
        weights = np.asarray(self.chart.weights_at(arrays, self.start.weights))
        return PseudoData(weights, {k: np.asarray(records[k]) for k in self.start.records})

    def steps(self) -> Variables:
        """Step scale of each coordinate."""
        size = _WEIGHT_STEP if self.chart.moved else 1.0
        return {k: np.full(np.shape(v), size if k == "weights" else 1.0) for k, v in self.pack().items()}


def _outward(domain: Domain, x: Array, centre: Array, scale: Array) -> Array:
    low, high = domain.low, domain.high
    if np.isfinite(low) and np.isfinite(high):
        return low + (high - low) * jax.nn.sigmoid(x)
    value = centre + scale * x
    if np.isfinite(low):
        return low + scale * jax.nn.softplus((value - low) / scale)
    if np.isfinite(high):
        return high - scale * jax.nn.softplus((high - value) / scale)
    return value


def _inward(domain: Domain, value: np.ndarray, centre: np.ndarray, scale: np.ndarray) -> np.ndarray:
    low, high = domain.low, domain.high
    if np.isfinite(low) and np.isfinite(high):
        share = np.clip((value - low) / (high - low), _EDGE, 1 - _EDGE)
        return np.log(share) - np.log1p(-share)
    if np.isfinite(low):
        value = low + scale * _softplus_inverse((value - low) / scale)
    elif np.isfinite(high):
        value = high - scale * _softplus_inverse((high - value) / scale)
    return (value - centre) / scale


def _softplus_inverse(y: np.ndarray) -> np.ndarray:
    y = np.maximum(y, _EDGE)
    return y + np.log(-np.expm1(-y))


# The divergence as a quadratic function of a few numbers.
#
# A record enters the divergence only through the amplitudes `c(z)` of its scores in the basis, `phi_z = psi c(z)`.
# With `s = sum_m w_m c(z_m)`,
#
#     FD(w, Z) = 1/2 s' G s - s' b + const = 1/2 |u|^2 + bound,   u = R (s - y),   R'R = G,   G y = b
#
# so an evaluation needs the scores of M records at a few atoms only.


_ROWS = 6  # rows of the score matrix per feature, from which a record's amplitudes are computed


@partial(jax.jit, static_argnames="model")
def amplitudes(model: Model, metric: Array, theta: Array, inverse: Array, records: Records) -> Array:
    """`c(z)` of records, `(M, r)`, from the pseudo-inverse `(r, C k)` of the basis' scores."""
    return (inverse @ scores(model, metric, theta, records)).T


@dataclass(frozen=True)
class Features:
    """The solved embedding in the form that a descent needs.

    Attributes:
        embedding: the mean embedding of the release.
        solved: its solution.
        target: `(r,)` target of the basis. It differs from `solved.target` if the objective is sliced.
        rows: rows of the score matrix per feature, from which a record's amplitudes are computed.
    """

    embedding: OneRelease
    solved: Fit
    target: np.ndarray
    rows: int = _ROWS

    @cached_property
    def atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """A few atoms, and the pseudo-inverse of the basis' scores at them."""
        embedding, basis = self.embedding, self.solved.basis
        size, k = embedding.release.size, embedding.metric.shape[1]
        number = min(size, max(4, -(-self.rows * basis.size // k)))
        theta = np.asarray(embedding.release.theta)[evenly(size, number)]
        model, temperature = embedding.release.model, embedding.temperature
        phi = np.asarray(scores(model, embedding.metric, theta, basis.records, temperature))
        return theta, np.linalg.pinv(phi @ basis.coefficients, rcond=1e-13)

    def at(self, records: Records) -> Array:
        """`c(z)` of records, `(M, r)`. JAX can trace it."""
        embedding = self.embedding
        theta, inverse = self.atoms
        return amplitudes(embedding.release.model, embedding.metric, theta, inverse, records)

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(self.solved.gram)
        return np.maximum(values, 1e-14 * values[-1]), vectors

    @cached_property
    def root(self) -> np.ndarray:
        """R `(r, r)` with `R'R = G`."""
        values, vectors = self._eigen
        return np.sqrt(values)[:, None] * vectors.T

    @cached_property
    def matched(self) -> np.ndarray:
        """`R y`, `(r,)`, which `R s` should match."""
        values, vectors = self._eigen
        return (vectors.T @ self.target) / np.sqrt(values)

    @property
    def bound(self) -> float:
        """Smallest value of the divergence over all signed measures, `-b' G^-1 b / 2` (up to the constant)."""
        return -0.5 * float(self.matched @ self.matched)


# The published descent for a kernel of finite rank: the same steps, at a cost that hardly grows with the records.
#
# Scores and curvatures of a record are combinations of those of the basis, `phi_z = psi c(z)`. With `s = sum_m w_m
# c(z_m)` the sliced divergence of directions epsilon is
#
#     J = sum_t a_t [tau <H_t s, E_t> + 1/2 |psi_t s + p_t|^2],   E_t = mean_l epsilon_l epsilon_l'
#
# with `H_t` the second derivatives of the basis and `p_t` the score of the prior. The last term is in the norm of
# E_t if it is sliced, too. With `g = dJ/ds`, the derivatives are `g' c(z_m)` in the weights and `w_m grad g'
# c(z_m)` in the records.


_BLOCK = 100  # atoms per block of second derivatives
_MOST = 2**24  # largest number of doubles for the second derivatives of the basis


class Sweep(NamedTuple):
    """The quantities of the release that a step needs.

    Attributes:
        few, inverse: a few atoms `(C, d)` and the pseudo-inverse `(r, C k)` of the basis' scores there, for `c(z)`.
        metric: `(d, k)` factor of Sigma.
        weights: `(T,)` weights of the atoms.
        psi: `(T, k, r)` scores of the basis.
        curvature: `(T, k, k, r)` second derivatives of the basis, in the metric.
        prior: `(T, k)` score of the prior.
    """

    few: Array
    inverse: Array
    metric: Array
    weights: Array
    psi: Array
    curvature: Array
    prior: Array


def sweep_of(features: Features) -> Sweep | None:
    """The sweep of a release; None if the rank is infinite or the second derivatives take too much memory."""
    embedding, basis = features.embedding, features.solved.basis
    release, metric = embedding.release, embedding.metric
    size, k = release.size, metric.shape[1]
    if not features.solved.spectrum.gap or size * k * k * basis.size > _MOST:
        return None
    model, theta, few = release.model, np.asarray(release.theta), features.atoms[0]
    with_basis = partial(_expanded, model, metric, basis.records, basis.coefficients)
    blocks = [with_basis(theta[i : i + _BLOCK]) for i in range(0, size, _BLOCK)]
    psi, curvature = (np.concatenate([block[i] for block in blocks]) for i in (0, 1))
    prior = prior_score(model, metric, theta, embedding.temperature)
    return Sweep(few, features.atoms[1], metric, embedding.weights, psi, curvature, prior)


@partial(jax.jit, static_argnames="model")
def _expanded(model: Model, metric: Array, records: Records, coefficients: Array, theta: Array) -> tuple[Array, Array]:
    """Scores `(C, k, r)` and second derivatives `(C, k, k, r)` of the basis."""

    def second(t: Array, z: Records) -> Array:
        return jax.hessian(lambda s: log_lik(model, t + metric @ s, z))(jnp.zeros(metric.shape[1]))

    curvature = jax.vmap(jax.vmap(second, in_axes=(None, 0)), in_axes=(0, None))(theta, records)
    psi = taylor(model, metric, theta, records)[1]
    return psi @ coefficients, jnp.einsum("tmij,mr->tijr", curvature, coefficients)


def sweep_slopes(
    chart: Chart,
    model: Model,
    temperature: float,
    sweep: Sweep,
    reduced: bool,
    epsilon: Array | None,
    start_weights: Array,
    fixed: Records,
    whiten: tuple[Records, Records],
    x: Variables,
) -> Variables:
    """Gradient of the divergence in the chart's variables: the same as `divergence_slopes`.

    Args:
        reduced: whether the squared score is not sliced.
        epsilon: `(T, L, k)` directions; None if the divergence is not sliced.
    """

    def at(record: Records) -> Array:
        """Scores of a record at the few atoms, `(C k,)`."""
        return scores(model, sweep.metric, sweep.few, {k: v[None] for k, v in record.items()})[:, 0]

    w, z = chart.weights_at(x, start_weights), chart.records_at(x, fixed, *whiten)
    moving = {name: z[name] for name, _ in chart.moved}
    total = sweep.inverse @ (scores(model, sweep.metric, sweep.few, z) @ w)
    fitted = sweep.psi @ total + sweep.prior
    if epsilon is not None:
        second = jnp.einsum("tlk,tlj->tkj", epsilon, epsilon) / epsilon.shape[1]
        slope = jnp.einsum("t,tkjr,tkj->r", sweep.weights, sweep.curvature, second)
        if not reduced:
            fitted = jnp.einsum("tkj,tj->tk", second, fitted)
    else:
        slope = jnp.einsum("t,tkkr->r", sweep.weights, sweep.curvature)
    slope = temperature * slope + jnp.einsum("t,tkr,tk->r", sweep.weights, sweep.psi, fitted)
    pulled_back = slope @ sweep.inverse

    def influence(free: Records, held: Records) -> Array:
        return pulled_back @ at({**held, **free})

    in_weights, by_record = jax.vmap(jax.value_and_grad(influence))(moving, fixed)
    slopes = {name: by_record[name] * w.reshape(-1, *([1] * (z[name].ndim - 1))) for name in moving}
    _, pull = jax.vjp(
        lambda y: (chart.weights_at(y, start_weights), {n: chart.records_at(y, fixed, *whiten)[n] for n in moving}), x
    )
    return pull((in_weights, slopes))[0]
