"""How far private records' law is from the generic one is seen in what a release shows."""

import numpy as np
import pytest

from bayesrecon.estimation.deviation import deviation

RNG = np.random.default_rng(5)
COUNT, SEEN = 500, 60
GENERIC = RNG.normal(size=(4000, SEEN)) + 1


def totals(size, noise):
    """Totals of records whose law is off by g, as noise of that size in every direction, with errors."""
    off = size * COUNT * RNG.normal(size=SEEN)
    return (GENERIC[RNG.integers(4000, size=COUNT)]).sum(axis=0) + off + noise * RNG.normal(size=SEEN)


@pytest.mark.parametrize("size", [0.0, 0.1, 0.5])
def test_the_size_is_found(size):
    found = deviation(GENERIC, totals(size, 3.0), 9.0 * np.eye(SEEN), COUNT)
    assert found == pytest.approx(3 * np.sqrt(size**2 + 1 / COUNT), rel=0.3)


def test_units_of_functions_do_not_matter():
    target, units = totals(0.2, 3.0), RNG.lognormal(0, 3, SEEN)
    one = deviation(GENERIC, target, 9.0 * np.eye(SEEN), COUNT)
    other = deviation(GENERIC * units, target * units, 9.0 * np.diag(units**2), COUNT)
    assert other == pytest.approx(one, rel=1e-6)


def test_what_shows_little_says_that_laws_may_differ():
    drowned = 1e9 * np.eye(SEEN)
    assert deviation(GENERIC, totals(0.0, 3e4), drowned, COUNT) > 1
