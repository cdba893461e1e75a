"""Draws that were rounded after their densities were computed, such as draws in single and densities in double
precision.

A density that belongs to the draw before rounding has an error of its slope times the rounding error. A quadratic fit
of the values gives the slopes.
"""

from dataclasses import replace

import numpy as np

from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.sources import accepted_draws

_ROWS = 3  # draws per feature that a quadratic fit needs; with fewer, the fit is linear
_FEATURES = 2000  # largest number of features of a fit, which takes a second


def as_written(draws: Draws, model: Model, positions: np.ndarray, rng: np.random.Generator) -> np.ndarray | None:
    """Random draws `(T, d)` that would be rounded to these; None if there are no signs of rounding.

    Args:
        draws: the draws of the file.
        model: the model.
        positions: `(T,)` positions of the release's draws among those of the file.
        rng: random generator.
    """
    moved, coarse = {}, False
    for name, values in draws.values.items():
        written = resolution(values)
        moved[name] = values
        if written.label != "double precision":
            coarse = True
            moved[name] = values + np.where(values == 0, 0.0, written.step) * rng.uniform(-0.5, 0.5, values.shape)
    if not coarse:
        return None
    try:
        release, at = accepted_draws(replace(draws, values=moved), model, ignore_unknown=True)
    except BayesreconError:  # a random draw is outside the support
        return None
    return np.asarray(release.theta) if np.array_equal(at, positions) else None


def noise_of(theta: np.ndarray, moved: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Standard deviations `(N,)` of the errors that the rounding of the draws causes in N columns.

    Args:
        theta: `(T, d)` rounded draws.
        moved: `(T, d)` random draws that would be rounded to `theta`.
        columns: `(T, N)`.

    >>> rng = np.random.default_rng(0)
    >>> theta, error = rng.normal(size=(500, 1)), rng.uniform(-0.05, 0.05, size=(500, 1))
    >>> round(float(noise_of(theta, theta + error, 3 * theta)[0] / (3 * 0.1 / np.sqrt(12))), 1)
    1.0
    """
    centre, scale = theta.mean(axis=0), theta.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    first, second = np.triu_indices(theta.shape[1])
    squares = len(first) <= _FEATURES and len(theta) >= _ROWS * (theta.shape[1] + len(first) + 1)

    def features(points: np.ndarray) -> np.ndarray:
        z = (points - centre) / scale
        return np.column_stack([z, z[:, first] * z[:, second]]) if squares else z

    design = features(theta)
    slopes = np.linalg.lstsq(np.column_stack([np.ones(len(theta)), design]), columns, rcond=1e-12)[0][1:]
    return np.sqrt(np.mean(((features(moved) - design) @ slopes) ** 2, axis=0))
