"""The experiment behind the page of deletions: both baselines, and records behind features."""

import importlib

import numpy as np
import pytest

from bayesrecon.evaluate import cosine_similarity


@pytest.fixture
def program():
    """A program of benchmarks by its name."""
    return lambda name: importlib.import_module(f"benchmarks.deletion.{name}")


@pytest.mark.slow
def test_rows_over_features_are_those_of_records(program):
    experiment, fourier, guesses = map(program, ("experiment", "fourier", "guesses"))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 3))
    y = (x @ [1.0, -1.0, 0.5] + rng.normal(size=240) > 0).astype(int)
    phi, parts = fourier.Fourier(3, 40, 5.0, rng), experiment.halves(240, 5, 1)
    one = experiment.prepare("", x, y, *parts, loss="logistic", phi=phi)
    variants = {key: guesses.VARIANTS[key] for key in (guesses.PUBLISHED, guesses.ALL)}
    found = guesses.attack(one, variants)
    rows = {row["method"]: row for row in guesses.rows_of([one], [found])}

    assert one.truth.shape == (5, 3)
    assert one.features.shape == (5, 40)
    titles = guesses.BASELINES
    assert set(rows) == {*variants, *titles.values()}
    cosines = {name: cosine_similarity(guess.x, one.truth) for name, guess in found.items()}
    for name, row in rows.items():
        assert row["median"] == pytest.approx(np.median(cosines[name]))
        assert row["features"] == pytest.approx(np.median(cosine_similarity(found[name].features, one.features)))
        assert ("above" in row) == ("above_probabilities" in row) == (name in variants)
    for column, key in guesses.ABOVE.items():
        better = np.maximum(cosines[titles["avg"]], cosines[titles[key]])
        assert rows[guesses.ALL][column][0] == pytest.approx(np.mean(cosines[guesses.ALL] > better))
    nearest = found[titles["maxdiff"]]
    np.testing.assert_allclose(nearest.features, np.stack([phi(v) for v in nearest.x]), atol=1e-6)
