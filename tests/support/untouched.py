"""Posterior laws of three parameters with their scores: skew, heavy-tailed, of two modes, and chains of them."""

import numpy as np
from scipy.signal import lfilter

ROOT = np.linalg.cholesky(np.array([[1, 0.9, 0.3], [0.9, 1, 0.2], [0.3, 0.2, 1]]))
PRECISION = np.linalg.inv(ROOT @ ROOT.T)


def normal(rng, draws):
    x = rng.normal(size=(draws, 3)) @ ROOT.T
    return x, -x @ PRECISION


def student(rng, draws, freedom=3):
    x = rng.normal(size=(draws, 3)) @ ROOT.T / np.sqrt(rng.chisquare(freedom, (draws, 1)) / freedom)
    return x, student_score(x, freedom)


def student_score(x, freedom):
    return -(freedom + 3) * (x @ PRECISION) / (freedom + ((x @ PRECISION) * x).sum(axis=1, keepdims=True))


def log_gamma(rng, draws, shape=1.5):
    x = np.log(rng.gamma(shape, size=(draws, 3)))
    return x, shape - np.exp(x)


def logit_beta(rng, draws, a=0.7, b=4.0):
    p = rng.beta(a, b, (draws, 3))
    return np.log(p) - np.log1p(-p), a * (1 - p) - b * p


def funnel(rng, draws):
    v, z = rng.normal(size=(draws, 1)), rng.normal(size=(draws, 2))
    return np.hstack([v, z * np.exp(v / 2)]), np.hstack(
        [-v - 1 + (z**2).sum(1, keepdims=True) / 2, -z * np.exp(-v / 2)]
    )


def two_modes(rng, draws):
    x = rng.normal(size=(draws, 3)) + 4 * (rng.random((draws, 1)) < 0.15)
    odds = 0.85 / 0.15 * np.exp(8 * 3 - 4 * x.sum(axis=1, keepdims=True))
    return x, -x + 4 / (1 + odds)


def correlated(rng, draws, along=0.9):
    """Four chains, each draw much like the one before."""
    steps = rng.normal(size=(4, draws // 4, 3)) * np.sqrt(1 - along**2)
    steps[:, 0] /= np.sqrt(1 - along**2)
    x = lfilter([1], [1, -along], steps, axis=1).reshape(-1, 3) @ ROOT.T
    return x, -x @ PRECISION


def metropolis(rng, draws, freedom=3, thin=4):
    """Four chains that stay where they are when a step is rejected, with heavy tails."""

    def log_density(x):
        return -(freedom + 3) / 2 * np.log1p(((x @ PRECISION) * x).sum(axis=1) / freedom)

    x, found = rng.normal(size=(4, 3)) @ ROOT.T, []
    for t in range(200 + thin * draws // 4):
        step = x + 1.6 * rng.normal(size=(4, 3)) @ ROOT.T
        x = np.where((np.log(rng.random(4)) < log_density(step) - log_density(x))[:, None], step, x)
        if t >= 200 and t % thin == 0:
            found.append(x)
    x = np.stack(found, axis=1).reshape(-1, 3)
    return x, student_score(x, freedom)


def one_at_a_time(rng, draws):
    """Four chains that step in one coordinate at a time, and are thinned less: values repeat in one coordinate."""
    x, found = rng.normal(size=(4, 3)) @ ROOT.T, []
    for t in range(200 + 2 * draws // 4):
        step = x.copy()
        step[:, t % 3] += rng.normal(size=4) * 0.8
        gain = ((x @ PRECISION) * x - (step @ PRECISION) * step).sum(axis=1) / 2
        x = np.where((np.log(rng.random(4)) < gain)[:, None], step, x)
        if t >= 200 and t % 2 == 0:
            found.append(x)
    x = np.stack(found, axis=1).reshape(-1, 3)
    return x, -x @ PRECISION


class Known:
    """A log density that is known, as that of fitted data without errors."""

    covariance = np.zeros((0, 0))

    def __init__(self, value):
        self.value = value

    def __call__(self, theta):
        return self.value(theta), np.zeros((len(theta), 0))


DENSITIES = {
    normal: Known(lambda x: -((x @ PRECISION) * x).sum(axis=1) / 2),
    student: Known(lambda x: -3 * np.log1p(((x @ PRECISION) * x).sum(axis=1) / 3)),
    log_gamma: Known(lambda x: (1.5 * x - np.exp(x)).sum(axis=1)),
    logit_beta: Known(lambda x: (0.7 * x - 4.7 * np.logaddexp(0, x)).sum(axis=1)),
    funnel: Known(lambda x: -(x[:, 0] ** 2) / 2 - x[:, 0] - (x[:, 1:] ** 2).sum(axis=1) * np.exp(-x[:, 0]) / 2),
    two_modes: Known(
        lambda x: np.logaddexp(np.log(0.85) - (x**2).sum(axis=1) / 2, np.log(0.15) - ((x - 4) ** 2).sum(axis=1) / 2)
    ),
}
"""Of the laws of independent draws."""
