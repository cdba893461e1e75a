import numpy as np

from bayesrecon.estimation.ascent import settling

RATES = np.array([0.2, 0.5, 1.0, 1.0, 1.0, 2.0])


def wandering(rng, rate, count, start=0.0):
    r, x = np.exp(-rate * RATES), rng.normal(size=len(RATES)) + start
    points = [x]
    for _ in range(count - 1):
        x = r * x + np.sqrt(1 - r**2) * rng.normal(size=len(RATES))
        points.append(x)
    return np.array(points)


def test_the_mean_of_an_autoregression_and_its_error():
    rng = np.random.default_rng(0)
    for rate in (0.2, 1.0, 5.0):
        found = [settling(wandering(rng, rate, 20), RATES, np.ones(len(RATES))) for _ in range(100)]
        z = np.array([s.mean / s.error for s in found])
        assert 0.8 < np.sqrt(np.mean(z**2)) < 1.2  # 600 of them, a fifth of them independent at worst
    assert np.median([s.freedom for s in found]) > 50


def test_points_that_have_not_come_to_rest():
    rng = np.random.default_rng(1)
    found = settling(wandering(rng, 0.3, 40, start=8.0), RATES, np.ones(len(RATES)))
    assert np.abs(found.mean / found.error).max() < 4


def test_too_few_points_tell_nothing():
    assert settling(np.zeros((3, 6)), RATES, np.ones(6)).freedom == 0
    assert settling(np.ones((9, 6)), RATES, np.ones(6)).freedom == 0
