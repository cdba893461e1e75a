"""When a start counts as confirmed by another one."""

from dataclasses import replace

import numpy as np
import pytest
from networks import problem_of, trained

from bayesrecon.attacks.matching.equations import Solution
from bayesrecon.attacks.matching.gradient import SOLVED, confirmed, floor
from bayesrecon.precision import x64

X = np.array([[0.1, 0.2], [0.5, -0.4], [-0.3, 0.9]])


def ends(*records, residual=1e-12, labels=None):
    fixed = {} if labels is None else {"y": np.asarray(labels)}
    return [Solution({"x": np.asarray(x), "weights": np.ones(len(x))}, fixed, np.zeros(1), residual) for x in records]


@pytest.fixture(scope="module")
def events():
    with x64():
        return problem_of(trained("events", 5)[0])


@pytest.mark.slow
def test_the_order_of_records_is_no_matter(events):
    alike, apart = confirmed(events, ends(X, X[[2, 0, 1]] + 1e-6), 0.0)
    assert alike.all()
    np.testing.assert_allclose(apart["x"], 1e-6)
    np.testing.assert_array_equal(apart["weight"], np.zeros(3))


def test_records_that_only_one_start_found_are_not_confirmed(events):
    moved = X + np.array([[0.0], [0.2], [0.0]])
    assert confirmed(events, ends(X, moved), 0.0)[0].tolist() == [True, False, True]
    assert not confirmed(events, ends(X), 0.0)[0].any()
    heavier = ends(X, X)
    heavier[1].x["weights"] = np.array([1.0, 1.0, 1.5])
    assert confirmed(events, heavier, 0.0)[0].tolist() == [True, True, False]


def test_records_with_another_label_are_others(events):
    one, two = ends(X, X, labels=[0, 1, 2])
    assert confirmed(events, [one, two], 0.0)[0].all()
    assert confirmed(events, [one, replace(two, fixed={"y": np.array([0, 2, 1])})], 0.0)[0].tolist() == [
        True,
        False,
        False,
    ]


def test_only_starts_at_the_floor_confirm(events):
    """Rounding, or what is certified to be left by all records."""
    above = ends(X, X, residual=4e-5)
    assert not confirmed(events, above, 0.0)[0].any()
    assert confirmed(events, above, 4e-5)[0].all()
    assert floor(0.0) == SOLVED
