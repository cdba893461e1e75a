"""Posterior draws of an input against the exact posterior, views by their likelihoods, and intervals that hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from asked import PRIVATE, PUBLIC, WEIGHTS, WIDTH, curved, linear, softmax

import bayesrecon
from bayesrecon.attacks.outputs.decoding import linear_decoder
from bayesrecon.attacks.outputs.output_inversion import OutputInversion
from bayesrecon.attacks.outputs.posterior_sampling import PosteriorSampling
from bayesrecon.attacks.outputs.record_prior import log_between
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import outputs
from bayesrecon.precision import x64

SMALL = {"components": WIDTH, "warmup": 150, "draws": 150, "calibration": 20, "checked": 20}


@pytest.fixture(scope="module")
def drawn():
    release = outputs(linear, linear(PRIVATE[0]), public=PUBLIC, noise=0.2)
    return bayesrecon.reconstruct(release, attack=PosteriorSampling(**SMALL))


@pytest.mark.slow
def test_of_a_normal_law_and_a_linear_model_they_are_the_exact_posterior(drawn):
    mean, covariance = PUBLIC.mean(axis=0), np.cov(PUBLIC, rowvar=False)
    exact = linear_decoder(mean, covariance, WEIGHTS, noise=0.2, centre=mean @ WEIGHTS)
    sd = np.sqrt(exact.unexplained)
    np.testing.assert_allclose((drawn.estimate - exact(linear(PRIVATE[:1]))[0]) / sd, 0, atol=0.45)
    np.testing.assert_allclose(drawn.draws.std(axis=0) / sd, 1, atol=0.25)
    assert drawn.draws.shape == (300, WIDTH)
    # The law is right, so there is nothing to mend.
    assert drawn.settings["factor"] == pytest.approx(1.96, abs=0.35)


@pytest.mark.slow
def test_their_intervals_hold(drawn):
    assert 0.88 < drawn.coverage <= 1
    assert drawn.coverage_records == 20


@pytest.mark.slow
def test_the_largest_class_moves_the_estimate_towards_it():
    z = np.asarray(curved(PRIVATE[:1]))[0]
    release = outputs(curved, z.argmax(), public=PUBLIC, view="argmax")
    found = bayesrecon.reconstruct(release, attack=PosteriorSampling(**SMALL))
    share = np.mean((found.draws @ WEIGHTS).argmax(axis=1) == z.argmax())
    assert share > 0.85


@pytest.mark.slow
def test_of_a_rounded_softmax_the_draws_lie_in_its_cells():
    p = softmax(linear(PRIVATE[0])).round(1)
    release = outputs(linear, p, public=PUBLIC, view="rounded", decimals=1)
    found = bayesrecon.reconstruct(release, attack=PosteriorSampling(**SMALL))
    assert np.mean(abs(softmax(linear(found.draws)) - p) < 0.07) > 0.9


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (3.0, 4.0), (-9.0, -8.0), (9.0, np.inf), (-np.inf, 1.0), (20.0, 21.0)]
)
def test_probabilities_of_cells_and_their_gradients(low, high):
    with x64():
        value, gradient = jax.jit(jax.value_and_grad(lambda m: log_between(low - m, high - m)))(0.0)
    normal = scipy.stats.norm
    exact = np.log(normal.cdf(high) - normal.cdf(low)) if low < 5 else np.log(normal.sf(low) - normal.sf(high))
    assert value == pytest.approx(exact, rel=1e-6)
    assert np.isfinite(gradient)


@pytest.mark.slow
def test_inversion_fits_the_outputs():
    release = outputs(curved, np.asarray(curved(PRIVATE[0])), public=PUBLIC[:300])
    found = bayesrecon.reconstruct(release, attack=OutputInversion(calibration=20, checked=20))
    assert found.settings["misfit"] < 0.02
    assert found.coverage > 0.85
    with pytest.raises(BayesreconError, match="inversion needs outputs that change"):
        bayesrecon.reconstruct(outputs(curved, 1, public=PUBLIC, view="argmax"), attack=OutputInversion())


@pytest.mark.parametrize(
    "attack", [PosteriorSampling(calibration=20, checked=0), OutputInversion(calibration=20, checked=0)]
)
def test_without_a_gradient_it_is_refused(attack):
    release = outputs(lambda x: np.asarray(x) @ WEIGHTS, linear(PRIVATE[0]), public=PUBLIC)
    with pytest.raises(BayesreconError, match=r"cannot be differentiated by JAX .* LinearDecoding"):
        bayesrecon.reconstruct(release, attack=attack)
    release = outputs(lambda x: jnp.round(curved(x)), np.asarray(curved(PRIVATE[0])).round(), public=PUBLIC)
    with pytest.raises(BayesreconError, match="predict has no gradient"):
        bayesrecon.reconstruct(release, attack=attack)


def test_settings_that_cannot_work():
    for wrong, message in (
        ({"calibration": 5}, "need 20 held-out"),
        ({"scale": 0.0}, "scale=0.0"),
        ({"draws": 1}, "draws at least"),
    ):
        with pytest.raises(BayesreconError, match=message):
            PosteriorSampling(**wrong)
    release = outputs(linear, linear(PRIVATE[0]), public=PUBLIC[:80])
    with pytest.raises(BayesreconError, match="80 public records leave 40"):
        bayesrecon.reconstruct(release, attack=PosteriorSampling())
