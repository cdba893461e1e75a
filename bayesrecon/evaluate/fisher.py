"""The Fisher divergence of pseudo-data from the private ones (`bayesrecon.divergence.theorem`)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.divergence.definitions import measure_of
from bayesrecon.divergence.metrics import Metric
from bayesrecon.divergence.theorem import fisher_divergence
from bayesrecon.errors import BayesreconError
from bayesrecon.model import PseudoData
from bayesrecon.releases import Release
from bayesrecon.results.reconstruction import Reconstruction


def divergence(
    release: Release,
    pseudo: Reconstruction | PseudoData | Mapping[str, ArrayLike],
    truth: Mapping[str, ArrayLike],
    *,
    weights: ArrayLike | None = None,
    metric: Metric | str = "identity",
) -> float:
    """The Fisher divergence of the posterior of weighted records from that of the private data, over the draws:

        FD = 1/2 E_theta |Sigma^1/2' sum_m w_m grad l(theta, z_m) - Sigma^1/2' sum_n grad l(theta, x_n)|^2

    It is half the squared MMD between the two measures (Wynne 2025, Theorem 3.4, and 4.3 at a trained parameter):
    `divergence.fisher_divergence`.

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
    measure = pseudo.pseudo if isinstance(pseudo, Reconstruction) else pseudo
    if weights is not None:
        if isinstance(measure, PseudoData):
            raise BayesreconError("a reconstruction has weights of its own: omit weights=")
        measure = PseudoData(np.asarray(weights, float), dict(measure))
    for records, subject in ((measure, "the pseudo-data"), (truth, "the truth")):
        measure_of(release.model, records, subject)
    return fisher_divergence(release, measure, truth, metric=metric)
