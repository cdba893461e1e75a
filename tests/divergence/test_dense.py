"""Dense passes over the atoms: padded bases give the same sums."""

import numpy as np
import pytest

from bayesrecon.divergence.dense import DenseEmbedding
from bayesrecon.divergence.mean_embedding import Basis
from bayesrecon.divergence.metrics import metric_factor
from bayesrecon.precision import x64


@pytest.mark.slow
@pytest.mark.parametrize("size", [5, 33])
def test_padding_changes_nothing(regression, size):
    """A basis of a spectrum that decays is summed with anchors of no weight, in parts of one size."""
    _, release = regression
    rng = np.random.default_rng(0)
    records, probes = ({"x": rng.normal(size=(n, 1)), "y": rng.normal(size=n)} for n in (size, 50))
    coefficients, y, b = (rng.normal(size=shape) for shape in ((size, size - 1), size - 1, (size - 1, 3)))
    found = []
    with x64():
        embedding = DenseEmbedding(release, metric_factor(release, None))
        for decays in (False, True):
            basis = Basis(records, coefficients, decays)
            moments = embedding.moments(basis, stretches=2)
            parts = [moments.gram, moments.target, moments.value, moments.stretches[1].gram]
            parts += [embedding.cross(basis, probes), embedding.noise(basis, y), *embedding.influence(basis, y, b)]
            found.append([*parts, embedding.normal_noise(basis), embedding.normal_noise(basis, simulated=True)])
    for plain, padded in zip(*found, strict=True):
        np.testing.assert_allclose(padded, plain, rtol=1e-9, atol=1e-9 * np.abs(plain).max())
