"""Estimates of an input from its outputs: errors that hold on records that were never seen."""

import numpy as np
import pytest
from asked import OUTPUTS, PRIVATE, PUBLIC, WEIGHTS, WIDTH, curved, linear, softmax

import bayesrecon
from bayesrecon.attacks.outputs.calibration import calibrated, split
from bayesrecon.attacks.outputs.decoding import LinearDecoding, TrainedDecoding, linear_decoder
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors import outputs


def covered(found, truth):
    return float(np.mean((truth >= found.lower) & (truth <= found.upper)))


def test_intervals_hold_on_private_records():
    shares = [
        covered(bayesrecon.recover(outputs(curved, z, public=PUBLIC)), x)
        for x, z in zip(PRIVATE[:60], np.asarray(curved(PRIVATE[:60])), strict=True)
    ]
    # Fields of a record fail together, so the records are the sample.
    assert abs(np.mean(shares) - 0.95) < 4 * np.std(shares) / np.sqrt(len(shares)) + 0.01


def test_it_is_the_best_linear_estimate():
    found = bayesrecon.recover(outputs(linear, linear(PRIVATE[0]), public=PUBLIC))
    exact = linear_decoder(PUBLIC.mean(axis=0), np.cov(PUBLIC, rowvar=False), WEIGHTS)
    np.testing.assert_allclose(found.visibility, exact.visibility, atol=0.12)
    told = exact(((PRIVATE[0] - PUBLIC.mean(axis=0)) @ WEIGHTS)[None])[0]
    np.testing.assert_allclose(found.estimate, told, atol=4 * PUBLIC.std() * np.sqrt(OUTPUTS / 600))
    assert found.to_dict()["fields"][0]["field"] == "x[1]"
    assert "12 fields by linear-decoding" in repr(found)


def test_noise_hides_and_models_add():
    z = linear(PRIVATE[0])
    seen = [bayesrecon.recover(outputs(linear, z, public=PUBLIC, noise=s)).gain for s in (0.0, 1.0, 5.0)]
    assert seen[0] > seen[1] > seen[2]
    other = np.random.default_rng(5).normal(size=(WIDTH, OUTPUTS)) / 3
    both = outputs([linear, lambda x: x @ other], [z, PRIVATE[0] @ other], public=PUBLIC)
    assert bayesrecon.recover(both).gain > seen[0] + 0.02


def test_views_tell_less_and_less():
    z = linear(PRIVATE[0])
    p = softmax(z)
    views = [
        ("logits", z, {}),
        ("softmax", p, {}),
        ("rounded", p.round(1), {"decimals": 1}),
        ("argmax", z.argmax(), {}),
    ]
    gains = [
        bayesrecon.recover(outputs(linear, one, public=PUBLIC, view=view, **more)).gain for view, one, more in views
    ]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > gains[1] + 0.01


def test_a_decoder_of_ones_own():
    release = outputs(linear, linear(PRIVATE[0]), public=PUBLIC[600:])
    inverse = np.linalg.lstsq(linear(PUBLIC[:600]), PUBLIC[:600])[0]
    found = bayesrecon.reconstruct(release, attack=TrainedDecoding(decoder=lambda z: z @ inverse))
    assert found.method == "trained-decoding"
    assert 0.9 < found.coverage < 0.99
    with pytest.raises(BayesreconError, match="needs decoder="):
        bayesrecon.reconstruct(release, attack=TrainedDecoding())
    for decoder, message in (
        (lambda z: z[:, :1], "expected 12 finite numbers"),
        (lambda z: 1 / 0, "ZeroDivisionError"),
    ):
        with pytest.raises(BayesreconError, match=message):
            bayesrecon.reconstruct(release, attack=TrainedDecoding(decoder=decoder))


def test_options_that_do_not_apply_are_refused():
    release = outputs(linear, linear(PRIVATE[0]), public=PUBLIC)
    with pytest.raises(BayesreconError, match="total= does not apply to outputs"):
        bayesrecon.recover(release, total=1)
    with pytest.raises(BayesreconError, match="LinearDecoding has no use for total="):
        bayesrecon.reconstruct(release, attack=LinearDecoding(), total=1)
    wide = np.random.default_rng(0).normal(size=(WIDTH, 40))
    release = outputs(lambda x: x @ wide, PRIVATE[0] @ wide, public=PUBLIC[:60])
    with pytest.raises(BayesreconError, match="more than twice as many records as outputs"):
        bayesrecon.recover(release)


def test_the_split_shares_no_record():
    at = split(101, np.random.default_rng(0))
    assert sorted(np.concatenate([at.fit, at.calibrate, at.check])) == list(range(101))


def test_few_records_share_one_factor_that_holds():
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(200):
        x = rng.normal(size=(90, 5)) * [1, 2, 3, 4, 0]
        told = calibrated(x, np.zeros_like(x), x.std(axis=0), x.std(axis=0), 50, (-99, 99))
        shares.append(told.coverage)
    assert np.mean(shares) == pytest.approx(0.95, abs=0.01)
    with pytest.raises(BayesreconError, match="10 public records to calibrate with"):
        calibrated(x[:10], x[:10], 1.0, np.ones(5), 0, (-99, 99))
