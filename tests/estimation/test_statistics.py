"""Statistics and what is seen of them."""

import numpy as np
import pytest

import bayesrecon
from bayesrecon.estimation.statistics import Component, moments
from bayesrecon.posteriors import from_posteriordb
from bayesrecon.posteriors.fitting.database import read_data


@pytest.mark.slow
def test_raw_second_moments_stand_in_for_invisible_variances(database):
    """A regression without intercept shows sums of squares about zero, not means."""
    release = from_posteriordb("sblrc-blr", draws=1000)
    result = bayesrecon.recover(release)
    data = read_data(database, "sblrc")
    truth = np.mean(np.asarray(data["X"])[:, 0] ** 2)
    row = result["mean(X[1]*X[1])"]
    assert result["var(X[1])"].verdict == "undetermined"
    assert row.verdict == "determined"
    assert abs(row.estimate - truth) < 4.5 * row.se


def test_the_square_of_a_binary_field_is_seen_as_far_as_the_field():
    rng = np.random.default_rng(0)
    records = {"y": rng.integers(0, 2, 400), "z": rng.normal(size=400)}
    library = moments([Component("y"), Component("z")])
    values = library.evaluate(records)
    shown = np.stack([np.ones(400), records["z"]], axis=1)
    fitted = shown @ np.linalg.lstsq(shown, values, rcond=None)[0]
    seen = dict(zip(library.parts, library.visibility(values, fitted, 2), strict=True))
    assert seen["1"] == pytest.approx(1)
    assert seen["z"] == pytest.approx(1)
    assert seen["y*y"] == pytest.approx(seen["y"], abs=0.01)
    assert seen["y"] < 0.02
    # Noise counts where there is any: as much as its share of the function.
    noisy = library.visibility(values, values, 2, np.full(len(library.parts), 0.01))
    assert noisy[list(library.parts).index("1")] == pytest.approx(0.99)
