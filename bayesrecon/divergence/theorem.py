"""The Fisher divergence of two posteriors is half the squared distance of their data's mean embeddings.

    1/2 E_theta |Sigma^(1/2)' (score of a - score of b)|^2  =  1/2 |mu_a - mu_b|^2,

Wynne, *On Reconstructing Training Data From Bayesian Posteriors and Trained Models* (2025), Theorem 3.4 for posterior
draws and Theorem 4.3 for a trained parameter. The expectation is over the draws, or at the parameter. The score of
weighted records is the gradient of the log posterior that they would give; priors cancel in the difference. The
distance is the maximum mean discrepancy (MMD) with the kernel `k(z, z') = E_theta <phi_z, phi_z'>`. Measures are not
normalised: n records have mass n.

Both sides are computed here, `fisher_divergence` from gradients of whole data sets and `mmd` from kernels between
single records. They share the model and Sigma and nothing else. They agree for draws (Theorem 3.4):

>>> import bayesrecon, numpy as np
>>> from bayesrecon.divergence import fisher_divergence, mmd
>>> from bayesrecon.types import PseudoData
>>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
>>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
>>> draws = bayesrecon.posteriors.from_draws(values, model)
>>> a, b = ({"x": rng.normal(m, 2, (n, 1)), "y": rng.normal(m, 3, n)} for m, n in ((0, 40), (1, 25)))
>>> def agree(release, a, b, **options):
...     return bool(np.isclose(fisher_divergence(release, a, b, **options), mmd(release, a, b, **options) ** 2 / 2,
...                            rtol=1e-12))
>>> agree(draws, a, b), agree(draws, a, b, metric="identity")
(True, True)

for weighted measures, with weights of either sign:

>>> agree(draws, PseudoData(rng.uniform(0, 9, 40), a), b), agree(draws, PseudoData(rng.normal(size=40), a), b)
(True, True)

and for a Dirac mass on a trained parameter (Theorem 4.3), where it is half the squared difference of two gradients:

>>> from sklearn.linear_model import LogisticRegression
>>> x = rng.normal(size=(80, 3)); y = (x[:, 0] + rng.normal(size=80) > 0).astype(int)
>>> trained = bayesrecon.posteriors.from_sklearn(LogisticRegression(tol=1e-10).fit(x, y))
>>> agree(trained, {"x": x[:30], "y": y[:30]}, {"x": x[30:], "y": y[30:]})
True
"""

from functools import partial

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.divergence.definitions import Measure, embedding, measure_of
from bayesrecon.divergence.definitions import metric as sigma_of
from bayesrecon.divergence.metrics import Metric, in_coordinates
from bayesrecon.divergence.score import log_lik
from bayesrecon.model import Model, Records
from bayesrecon.precision import in_float64
from bayesrecon.releases import Release
from bayesrecon.running.draws_on_disk import as_rows, row_blocks

_BLOCK = 2**22  # derivatives in memory at a time


@in_float64
def fisher_divergence(release: Release, a: Measure, b: Measure, *, metric: Metric | str | None = None) -> float:
    """The Fisher divergence of the posteriors of two measures, as an integral of score differences:

        FD = 1/2 sum_t a_t |Sigma^(1/2)' (sum_m w_m grad l(theta_t, z_m) - sum_n v_n grad l(theta_t, x_n))|^2

    It is `mmd(release, a, b) ** 2 / 2` (Wynne 2025, Theorem 3.4; Theorem 4.3 at a trained parameter). If it is zero, no
    release of this kind distinguishes the two data sets, even if their records look different.

    Args:
        release: the draws, the trained parameter or the approximation at which scores are compared.
        a, b: records `{field: (M, *shape)}` with weight one, or a `PseudoData`, which has weights.
        metric: Sigma: "covariance" (of the draws, their default), "identity" (as published, and the default at a
            trained parameter), or a `Metric`, which also chooses the coordinates.

    Returns:
        FD, without a unit in the covariance of the draws.

    Raises:
        BayesreconError: the release has no equations, a measure does not fit its model, or there are too few draws for
            their covariance.

    >>> import bayesrecon
    >>> model = bayesrecon.models.load("linear_predictor")
    >>> release = bayesrecon.posteriors.dirac(model, {"coef": [[2.0]], "intercept": [1.0]})
    >>> b = {"x": [[0.0], [2.0]], "y": [2.0, 5.0]}
    >>> fisher_divergence(release, {"x": [[0.0], [5.0]], "y": [2.0, 11.0]}, b)  # record 2 moved along the fitted line
    0.0
    """
    sigma, chosen = sigma_of(release, metric), Metric.of(metric, release)
    view = in_coordinates(release, str(chosen.coordinates))
    (z, w), (x, v) = (measure_of(view.model, some, subject) for some, subject in ((a, "a"), (b, "b")))
    weights, total = np.asarray(view.weights), 0.0
    for at, theta in row_blocks(as_rows(view.theta), max(1, _BLOCK // (len(w) + len(v)))):
        difference = np.asarray(_score(view.model, theta, z, w) - _score(view.model, theta, x, v))
        total += float(weights[at] @ np.einsum("td,de,te->t", difference, sigma, difference, optimize=True))
    return total / 2


@in_float64
def mmd(release: Release, a: Measure, b: Measure, *, metric: Metric | str | None = None) -> float:
    """The maximum mean discrepancy of two measures in the kernel of a release, `|mu_a - mu_b|`:

        MMD^2 = sum_mm' w_m w_m' k(z_m, z_m') - 2 sum_mn w_m v_n k(z_m, x_n) + sum_nn' v_n v_n' k(x_n, x_n')

    Half its square is `fisher_divergence(release, a, b)` (Wynne 2025, Theorem 3.4; Theorem 4.3 at a trained parameter).

    Args:
        release, a, b, metric: as in `fisher_divergence`.

    Returns:
        MMD, without a unit in the covariance of the draws.

    Raises:
        BayesreconError: as in `fisher_divergence`.

    >>> import bayesrecon
    >>> model = bayesrecon.models.load("linear_predictor")
    >>> release = bayesrecon.posteriors.dirac(model, {"coef": [[2.0]], "intercept": [1.0]})
    >>> mmd(release, {"x": [[3.0]], "y": [9.0]}, {"x": [[0.0]], "y": [3.0]})  # scores (6, 2) and (0, 2)
    6.0
    """
    w, v = (measure_of(release.model, some, subject)[1] for some, subject in ((a, "a"), (b, "b")))
    own, cross, other = (embedding(release, one, of=two, metric=metric) for one, two in ((a, a), (b, a), (b, b)))
    return float(np.sqrt(max(w @ own - 2 * v @ cross + v @ other, 0.0)))


@partial(jax.jit, static_argnames="model")
def _score(model: Model, theta: Array, records: Records, weights: Array) -> jax.Array:
    """`sum_m w_m grad l(theta_t, z_m)`, `(T, d)`, by one reverse sweep over all records."""

    def weighted_log_lik(point: Array) -> jax.Array:
        return weights @ jax.vmap(partial(log_lik, model), in_axes=(None, 0))(point, records)

    return jax.vmap(jax.grad(weighted_log_lik))(theta)
