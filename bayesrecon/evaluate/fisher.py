"""The Fisher divergence of weighted records from the private ones, under a release."""

from collections.abc import Mapping
from functools import partial

import jax
import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.divergence.metric import metric_factor
from bayesrecon.divergence.score import log_lik
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.results.reconstruction import Reconstruction

_BLOCK = 2**22  # derivatives in memory at a time


@in_float64
def divergence(
    release: Release,
    pseudo: Reconstruction | PseudoData | Mapping[str, ArrayLike],
    truth: Mapping[str, ArrayLike],
    *,
    weights: ArrayLike | None = None,
    metric: str = "identity",
) -> float:
    """The Fisher divergence of the posterior of weighted records from that of the private data, over the draws:

        FD = 1/2 E_theta |Sigma^1/2' sum_m w_m grad l(theta, z_m) - Sigma^1/2' sum_n grad l(theta, x_n)|^2

    (Wynne 2025, Theorem 3.4), half the squared MMD between the two measures (not normalised) with the kernel
    `E_theta <grad l(theta, z), grad l(theta, z')>`. Priors cancel. At a trained parameter it is half the squared
    difference of the gradients (Theorem 4.3). If it is zero, no release of this kind distinguishes the two data sets,
    even if their records look different.

    Args:
        release: the draws, or the trained parameter, over which the divergence is averaged.
        pseudo: result of `reconstruct`, or records `{field: (M, *shape)}`.
        truth: `{field: (N, *shape)}`, the private data.
        weights: `(M,)` weights of the records; 1 by default. A result has its own weights.
        metric: Sigma: "identity" as published, or the "covariance" of the draws, for which the divergence has no unit.

    Returns:
        The Fisher divergence FD.

    Raises:
        BayesreconError: the records lack a field, have another shape or are not finite, or there are not as many
            weights as records.

    >>> import bayesrecon, numpy as np
    >>> model = bayesrecon.models.load("linear_predictor")
    >>> release = bayesrecon.posteriors.dirac(model, {"coef": [[2.0]], "intercept": [1.0]})
    >>> truth = {"x": np.array([[0.0], [2.0]]), "y": np.array([2.0, 5.0])}
    >>> alike = {"x": np.array([[0.0], [5.0]]), "y": np.array([2.0, 11.0])}  # record 2 moved along the fitted line
    >>> divergence(release, alike, truth), divergence(release, alike, truth, weights=[2.0, 1.0])
    (0.0, 0.5)
    """
    model = release.model
    if isinstance(pseudo, Reconstruction):
        pseudo = pseudo.pseudo
    if isinstance(pseudo, PseudoData):
        if weights is not None:
            raise BayesreconError("a reconstruction has weights of its own: omit weights=")
        pseudo, weights = pseudo.records, pseudo.weights
    pseudo_records, true_records = _checked(model, pseudo, "the pseudo-data"), _checked(model, truth, "the truth")
    counts = [len(next(iter(records.values()))) for records in (pseudo_records, true_records)]
    w = np.ones(counts[0]) if weights is None else np.asarray(weights, float)
    if w.shape != (counts[0],) or not np.isfinite(w).all():
        raise BayesreconError(f"weights of shape {w.shape}: expected {counts[0]} finite numbers, one per record")
    joined = {k: np.concatenate([pseudo_records[k], true_records[k]]) for k in model.fields}
    signed = np.concatenate([w, -np.ones(counts[1])])
    factor, theta = metric_factor(release, metric), np.asarray(release.theta)
    length = max(_BLOCK // (sum(counts) * theta.shape[1]), 1)
    total = 0.0
    for start in range(0, len(theta), length):
        rows = slice(start, start + length)
        difference = np.asarray(_score_difference(model, theta[rows], joined, signed)) @ factor
        total += float(np.asarray(release.weights)[rows] @ (difference**2).sum(axis=1))
    return 0.5 * total


def _checked(model: Model, records: Mapping[str, ArrayLike], subject: str) -> Records:
    arrays = {name: np.asarray(records[name]) if name in records else None for name in model.fields}
    counts = set()
    for name, value in arrays.items():
        if value is None:
            raise BayesreconError(f"{subject} lack field {name} (fields: {', '.join(model.fields)})")
        shape = model.fields[name].shape
        if value.shape[1:] != shape or not len(value) or not np.isfinite(value).all():
            expected = ", ".join(map(str, ("records", *shape)))
            raise BayesreconError(f"{subject}: {name} has shape {value.shape}: expected finite numbers, ({expected})")
        counts.add(len(value))
    if len(counts) > 1:
        raise BayesreconError(f"{subject} have fields of {' and '.join(map(str, sorted(counts)))} records")
    return arrays


@partial(jax.jit, static_argnames="model")
def _score_difference(model: Model, theta: Array, records: Records, signed: Array) -> jax.Array:
    """`sum_m w_m grad l(theta_t, z_m)`, `(T, d)`."""

    def weighted_log_lik(point: Array) -> jax.Array:
        return signed @ jax.vmap(partial(log_lik, model), in_axes=(None, 0))(point, records)

    return jax.vmap(jax.grad(weighted_log_lik))(theta)
