"""Chains of a release, and exact draws of coefficients."""

import dataclasses

import numpy as np


def chains_of(release, numbers):
    """The release's draws of these chains alone."""
    own = np.isin(np.asarray(release.chain), numbers)
    weights = np.asarray(release.weights)[own]
    log_density = None if release.log_density is None else np.asarray(release.log_density)[own]
    return dataclasses.replace(
        release,
        theta=np.asarray(release.theta)[own],
        weights=weights / weights.sum(),
        chain=np.asarray(release.chain)[own],
        log_density=log_density,
    )


def gaussian(design, y, draws, rng):
    """Exact draws of coefficients with prior Normal(0, 10) and unit noise."""
    precision = design.T @ design + np.eye(design.shape[1]) / 100
    mean = np.linalg.solve(precision, design.T @ y)
    return mean + rng.normal(size=(1, draws, len(mean))) @ np.linalg.inv(np.linalg.cholesky(precision))
