"""Stated probabilities are no higher than the share of correct values on simulated tables."""

from types import SimpleNamespace

import numpy as np
import pytest

from bayesrecon.attacks.records import attack as calibration
from bayesrecon.attacks.records.attack import calibrated, repeats_affordable, simulated_tables
from bayesrecon.attacks.records.rows import KnownRows

ROWS = KnownRows({"person": np.arange(500)}, {}, {"y": np.array([0.0, 1.0, 2.0])}, np.ones((500, 2), bool))


def test_tables_are_drawn_by_the_models_probabilities():
    rng = np.random.default_rng(0)
    prior = np.tile([0.7, 0.3, 0.0], (500, 1))
    amplitudes, noise = rng.normal(size=(500, 3, 2)), rng.normal(size=1000)
    chosen, solutions = simulated_tables(ROWS, amplitudes, prior, noise, rng)
    assert chosen.shape == (8, 500)
    assert 0.27 < (chosen == 1).mean() < 0.33
    assert chosen.max() == 1
    for k, sign in ((0, 1), (1, -1)):
        true = amplitudes[np.arange(500), chosen[k]].ravel()
        np.testing.assert_allclose(solutions[k], true + sign * noise)
    assert repeats_affordable(ROWS)
    assert not repeats_affordable(SimpleNamespace(count=50_000))


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95, 1.0])
def test_overconfidence_is_lowered_to_what_was_right(share):
    """Statements of a decoder that is right less often than it says, about rows that were not rehearsed."""
    rng = np.random.default_rng(1)
    prior = np.full((4000, 3), 1 / 3)

    def stated():
        top = rng.uniform(0.5, 1.0, 4000)
        chosen = np.where(rng.random(4000) < np.minimum(top, share * top), 0, 1)
        return np.stack([top, 0.8 * (1 - top), 0.2 * (1 - top)], axis=1), chosen

    table, chosen = stated()
    real, true = stated()
    found = calibrated(real, [table], chosen[None], prior)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert (found.argmax(axis=1) == 0).all()
    assert (found[:, 0] <= real[:, 0]).all()
    sure = real[:, 0] > 0.8
    assert abs(found[sure, 0].mean() - (true[sure] == 0).mean()) < 0.03


def test_what_a_value_loses_goes_to_what_the_model_expects():
    table, prior = np.array([[1.0, 0.0, 0.0]] * 100), np.array([[0.1, 0.3, 0.6]])
    found = calibrated(table[:1], [table], np.repeat([0, 1], [80, 20])[None], prior)
    np.testing.assert_allclose(found, [[0.797, 0.203 / 3, 0.203 * 2 / 3]], atol=1e-3)
    alone = np.array([[1.0, 0.0]])
    np.testing.assert_array_equal(calibrated(alone, [alone], np.array([[1]]), np.array([[1.0, 0.0]])), alone)


def test_few_simulated_tables_are_no_certainty():
    table = np.array([[0.999, 0.001]] * 3)
    assert calibrated(table, [table], np.zeros((1, 3), int), table)[0, 0] == 3.5 / 4
    assert calibration._FEWEST >= 2  # either sign of the noise
