"""Exact draws of conjugate posteriors of simulated data: the records, and the release."""

from collections.abc import Sequence

import numpy as np

from bayesrecon.posteriors import from_draws
from bayesrecon.types import Release
from tests.support import conjugate

Simulated = tuple[dict[str, np.ndarray], Release]


def normal_mean(rng: np.random.Generator, draws: int) -> Simulated:
    y = rng.normal(2, 1, 60)
    return {"y": y}, from_draws(conjugate.sample_normal_mean(y, draws, rng), conjugate.normal_mean_model())


def regression(
    rng: np.random.Generator, draws: int, slopes: Sequence[float], records: int = 60, mean: float = 3, sd: float = 2
) -> Simulated:
    """On one covariate a slope, each with that mean and standard deviation."""
    x = rng.normal(mean, sd, (records, len(slopes)))
    y = 1 + x @ slopes + rng.normal(0, 1.5, records)
    drawn = conjugate.sample_regression(x, y, draws, rng)
    return {"x": x, "y": y}, from_draws(drawn, conjugate.regression_model(len(slopes)))


def slopes_of_groups(rng: np.random.Generator, draws: int) -> Simulated:
    group, x = rng.integers(0, 4, 80), rng.integers(0, 2, 80)
    y = np.array([1.0, 2.0, -1.0, 0.0])[group] * x + rng.normal(size=80)
    drawn = conjugate.sample_slopes(group, x, y, 4, draws, rng)
    return {"group": group, "x": x, "y": y}, from_draws(drawn, conjugate.slopes_model(4))


def effects(rng: np.random.Generator, draws: int, each: int = 12) -> Simulated:
    """Of five groups with so many records each."""
    group = np.repeat(np.arange(1, 6), each)
    y = rng.normal(0, 1, 5)[group - 1] + rng.normal(size=5 * each)
    drawn = conjugate.sample_effects(group, y, 5, draws, rng)
    return {"group": group, "y": y}, from_draws(drawn, conjugate.effects_model(5))
