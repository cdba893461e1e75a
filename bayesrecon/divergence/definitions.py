"""Scores, kernel, mean embedding and metric of a release, by their definitions (Wynne 2025; symbols: docs/glossary.md).

    phi_z(t) = Sigma^(1/2)' grad l(theta_t, z)
    k(z, z') = sum_t a_t <phi_z(t), phi_z'(t)>
    mu(z)    = sum_n k(x_n, z)
             = - sum_t a_t [tau tr(Sigma Hess l(theta_t, z)) + <phi_z(t), Sigma^(1/2)' grad log pi0(theta_t)>]

The second form of mu does not contain the private records x_n. For draws (tau = 1) it follows from integration by parts
and holds up to sampling noise; for a trained parameter (tau = 0) it follows from stationarity and is exact. Estimation
computes the same by passes that cost less (`adaptive`).
"""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bayesrecon.divergence.dense import DenseEmbedding
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metrics import Metric, in_coordinates, metric_factor
from bayesrecon.divergence.score import scores
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, PseudoData, Records
from bayesrecon.precision import in_float64
from bayesrecon.releases import EQUATIONS, LIMITED, Release, refuse_others

Measure: TypeAlias = PseudoData | Mapping[str, ArrayLike]
"""`sum_m w_m delta_{z_m}`: weighted records, or records `{field: (M, *shape)}` with weight one each."""

_RECORDS = 256  # of a pass, whose Gram matrix is not needed


@in_float64
def phi(release: Release, records: Measure, *, metric: Metric | str | None = None) -> Float[np.ndarray, "T M k"]:
    """Scores of records, `phi_z(t) = Sigma^(1/2)' grad_theta l(theta_t, z)`.

    Args:
        release: T draws, a trained parameter (T = 1), or an approximation.
        records: `{field: (M, *shape)}`, or those of a `PseudoData`, whose weights do not matter here.
        metric: Sigma: "covariance" (of the draws, their default), "identity" (as published, and the default at a
            trained parameter), or a `Metric`, which also chooses the coordinates.

    Returns:
        `(T, M, k)`, with k directions: the number d of parameters, or the number of equations of an approximation. In
        the covariance of the draws scores have no unit.

    Raises:
        BayesreconError: the release has no equations, the records do not fit its model, or it has too few draws for
            their covariance.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import dirac
    >>> line = dirac(load("linear_predictor"), {"coef": [[2.0]], "intercept": [1.0]})
    >>> phi(line, {"x": [[3.0]], "y": [9.0]}).tolist()  # (9 - 1 - 2 * 3) (3, 1)
    [[[6.0, 2.0]]]
    """
    view = _seen(release, metric)
    z, _ = measure_of(view.release.model, records, "the records")
    theta, count = np.asarray(view.release.theta), len(next(iter(z.values())))
    rows = np.asarray(scores(view.release.model, view.metric, theta, z, view.temperature))
    return rows.reshape(len(theta), -1, count).swapaxes(1, 2)


@in_float64
def kernel(
    release: Release, records: Measure, others: Measure | None = None, *, metric: Metric | str | None = None
) -> Float[np.ndarray, "M N"]:
    """The kernel between records, `k(z, z') = sum_t a_t <phi_z(t), phi_z'(t)>` (Wynne 2025, Theorem 3.4, 4.3).

    Args:
        release, records, metric: as in `phi`.
        others: `{field: (N, *shape)}`; by default the records themselves.

    Returns:
        `(M, N)`. It is streamed over the draws.

    Raises:
        BayesreconError: as in `phi`.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import dirac
    >>> line = dirac(load("linear_predictor"), {"coef": [[2.0]], "intercept": [1.0]})
    >>> kernel(line, {"x": [[3.0], [0.0]], "y": [9.0, 2.0]}).tolist()  # scores (6, 2) and (0, 1)
    [[40.0, 2.0], [2.0, 1.0]]
    """
    view = _seen(release, metric)
    (z, w), (probes, _) = (measure_of(view.release.model, some, "the records") for some in (records, others or records))
    return view.cross(Basis(z, np.eye(len(w))), probes).T


@in_float64
def embedding(
    release: Release, records: Measure, *, of: Measure | None = None, metric: Metric | str | None = None
) -> Float[np.ndarray, " M"]:
    """The mean embedding of the private data at any records, from the release alone; or that of a measure `of`.

        mu(z) = - sum_t a_t [tau tr(Sigma Hess l(theta_t, z)) + <phi_z(t), Sigma^(1/2)' grad log pi0(theta_t)>]

    for the private data, and `sum_n w_n k(x_n, z)` for a measure. Weights w of records Z whose embedding is nearest to
    that of the private data solve `kernel(release, Z) @ w = embedding(release, Z)`.

    Args:
        release, records, metric: as in `phi`.
        of: the measure; by default the private data, which nobody has to have.

    Returns:
        `(M,)`.

    Raises:
        BayesreconError: as in `phi`.

    >>> import bayesrecon, numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> private = {"x": np.arange(12.0)[:, None], "y": np.arange(12.0) % 5}
    >>> release = bayesrecon.posteriors.from_sklearn(Ridge(alpha=2.0).fit(private["x"], private["y"]))
    >>> anybody = {"x": [[3.5], [-2.0]], "y": [1.0, 4.0]}
    >>> bool(np.allclose(embedding(release, anybody), embedding(release, anybody, of=private)))
    True
    """
    view = _seen(release, metric)
    model = view.release.model
    z, w = measure_of(model, records, "the records")
    if of is not None:
        known, weights = measure_of(model, of, "the measure")
        return view.cross(Basis(known, weights[:, None]), z)[:, 0]
    parts = [{k: v[i : i + _RECORDS] for k, v in z.items()} for i in range(0, len(w), _RECORDS)]
    return np.concatenate([view.moments(Basis(part, np.eye(len(next(iter(part.values())))))).target for part in parts])


@in_float64
def metric(release: Release, name: Metric | str | None = None) -> Float[np.ndarray, "d d"]:
    """Sigma: the weighted covariance of the draws, by default, or the identity (the default at a trained parameter).

    Args:
        release: as in `phi`.
        name: as `metric` in `phi`.

    Returns:
        `(d, d)`, in the squared units of the coordinates.

    Raises:
        BayesreconError: as in `phi`.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)
    >>> bool(np.allclose(metric(release), np.cov(release.theta.T, bias=True)))
    True
    """
    factor = _seen(release, name).metric
    return factor @ factor.T


def _seen(release: Release, metric: Metric | str | None) -> DenseEmbedding:
    refuse_others(release, EQUATIONS, "bayesrecon.divergence", LIMITED)
    chosen = Metric.of(metric, release)
    view = in_coordinates(release, str(chosen.coordinates))
    return DenseEmbedding(view, metric_factor(view, chosen.sigma))


def measure_of(model: Model, measure: Measure, subject: str) -> tuple[Records, Float[np.ndarray, " M"]]:
    """The records `{field: (M, *shape)}` and weights `(M,)` of a measure, checked.

    Raises:
        BayesreconError: the records lack a field, have another shape or are not finite, or there are not as many
            weights as records.
    """
    given = measure.records if isinstance(measure, PseudoData) else measure
    arrays = {name: np.asarray(given[name]) if name in given else None for name in model.fields}
    counts = set()
    for name, value in arrays.items():
        if value is None:
            raise BayesreconError(f"{subject} lack field {name} (fields: {', '.join(model.fields)})")
        shape = model.fields[name].shape
        if value.shape[1:] != shape or not value.size or not np.isfinite(value).all():
            expected = ", ".join(map(str, ("records", *shape)))
            raise BayesreconError(f"{subject}: {name} has shape {value.shape}: expected finite numbers, ({expected})")
        counts.add(len(value))
    if len(counts) > 1:
        raise BayesreconError(f"{subject} have fields of {' and '.join(map(str, sorted(counts)))} records")
    (count,) = counts
    weights = np.asarray(measure.weights, float) if isinstance(measure, PseudoData) else np.ones(count)
    if weights.shape != (count,) or not np.isfinite(weights).all():
        raise BayesreconError(f"weights of shape {weights.shape}: expected {count} finite numbers, one per record")
    return arrays, weights
