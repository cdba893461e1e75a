"""The published descent for a kernel of finite rank: the same steps, at a cost that hardly grows with the records.

Scores and curvatures of a record are combinations of those of the basis, `phi_z = psi c(z)`. With
`s = sum_m w_m c(z_m)` the sliced divergence of directions epsilon is

    J = sum_t a_t [tau <H_t s, E_t> + 1/2 |psi_t s + p_t|^2],   E_t = mean_l epsilon_l epsilon_l'

with `H_t` the second derivatives of the basis and `p_t` the score of the prior. The last term is in the norm of E_t if
it is sliced, too. With `g = dJ/ds`, the derivatives are `g' c(z_m)` in the weights and `w_m grad g' c(z_m)` in the
records.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.attacks.pseudodata.support import Chart, Features, Variables
from bayesrecon.divergence.score import log_lik, prior_score, scores, taylor
from bayesrecon.model import Model, Records

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
