"""Ready-made penalties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bayesrecon.errors import BayesreconError
from bayesrecon.precision import x64
from bayesrecon.regularisers import Box, TotalVariation, described

ONE = np.ones(1)


@pytest.mark.slow
def test_total_variation_is_the_length_of_edges():
    """An edge of height h across a whole image, for any orientation and split over colours."""
    image = np.zeros((4, 8))
    image[:, 3:] = 0.7
    with x64():
        found = [
            float(TotalVariation(shape, 1.0, smooth=1e-9)(ONE, {"x": values.reshape(1, -1)}))
            for shape, values in (
                ((4, 8), image),
                ((8, 4), image.T),
                ((4, 8, 2), np.stack([image, 0 * image], -1)),
            )
        ]
    np.testing.assert_allclose(found, [0.7 * 4 / 32, 0.7 * 4 / 32, 0.7 * 4 / 64], rtol=1e-6)


@pytest.mark.slow
def test_penalties_add_up_over_records_and_each_other():
    rng = np.random.default_rng(0)
    tv, box = TotalVariation((3, 3), 2.0), Box(0.0, 1.0, 3.0)
    with x64():
        x = rng.normal(size=(5, 9))
        each = [float((tv + box)(ONE, {"x": one[None]})) for one in x]
        assert float((tv + box)(np.ones(5), {"x": x})) == pytest.approx(sum(each))
        assert float(box(ONE, {"x": rng.uniform(size=(1, 9))})) == 0
        bend = jax.hessian(lambda v: tv(ONE, {"x": v[None]}))(jnp.asarray(x[0]))
        assert np.linalg.eigvalsh(bend).min() > -1e-12  # convex


def test_descriptions_tell_penalties_apart():
    assert described(None) == ""
    assert described(Box(0, 1)) != described(Box(0, 2))
    assert "strength=0.5" in described(Box(0, 1) + TotalVariation((2, 2), 0.5))
    assert "<lambda>" in described(lambda w, z: 0.0)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: TotalVariation((3,)), "height, width"),
        (lambda: TotalVariation((3, 3), -1.0), "not negative"),
        (lambda: TotalVariation((3, 3), smooth=0.0), "positive number"),
        (lambda: Box(1.0, 0.0), "low < high"),
        (lambda: TotalVariation((3, 3))(ONE, {"x": np.ones((1, 8))}), "has 8 numbers"),
        (lambda: Box(0.0, 1.0, field="z")(ONE, {"x": np.ones((1, 8))}), "the records have x"),
    ],
)
def test_bad_penalties_are_refused(made, message):
    with pytest.raises(BayesreconError, match=message):
        made()
