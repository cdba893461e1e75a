"""Digits that were cut: how far rounding moves what a release determines.

A parameter that is rounded to a multiple of a step carries noise of variance `step^2 / 12`. Where that is the share rho
of its posterior's variance, the kernel and its target are those of the draws with noise, and totals are off by about
rho: by more than their errors where rho exceeds the least relative error of any total, `sqrt(2 / (d T))`.
"""

import numpy as np

from bayesrecon.kernels.metric import constrained_theta
from bayesrecon.types import Release, entry

_DIGITS = 7  # at which single precision passes for a number that was rounded
_MATCH = 2e-7  # relative: single precision beside the decimal it stands for
_FELT = 0.5  # of the least relative error, from which rounding is felt
_REPEATED = 0.98  # distinct values per draw, from which nothing was rounded


def rounding_steps(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Significant digits `(S,)` that all values of a column `(T, S)` have, 0 where that is not few, and the step.

    >>> import numpy as np
    >>> digits, step = rounding_steps(np.array([[1.25, 0.5], [2.5, 1 / 3], [3.75, 0.1]]))
    >>> digits.tolist(), float(step[0])
    ([3, 0], 0.01)
    """
    size = np.maximum(np.abs(values), 1e-300)
    power = np.floor(np.log10(size))
    digits, step = np.zeros(values.shape[1], int), np.zeros(values.shape[1])
    for count in range(_DIGITS - 1, 0, -1):
        unit = 10.0 ** (power - count + 1)
        whole = np.all(np.abs(np.round(values / unit) * unit - values) <= _MATCH * size, axis=0)
        digits[whole], step[whole] = count, np.median(unit, axis=0)[whole]
    return digits, step


def felt_rounding(release: Release, independent: float) -> str | None:
    """What is wrong where draws were rounded so that it is felt; None where not.

    Args:
        independent: number of independent draws.
    """
    theta = np.asarray(release.theta)
    distinct = np.array([len(np.unique(column)) for column in theta.T])
    if not release.temperature or distinct.min() > _REPEATED * len(theta):
        return None
    values = constrained_theta(release.model, theta)
    names = [entry(p.name, index) for p in release.model.parameters for index in np.ndindex(*p.shape)]
    digits, step = rounding_steps(values)
    share = (step / np.maximum(values.std(axis=0), 1e-300)) ** 2 / 12
    worst = int(share.argmax())
    if share[worst] <= _FELT * np.sqrt(2 / (theta.shape[1] * independent)):
        return None
    return (
        f"{names[worst]} is rounded to {digits[worst]} digits, steps of {np.sqrt(12 * share[worst]):.2g} of its "
        f"standard deviation: totals are off by about {share[worst]:.1%}, which their errors do not tell; supply "
        f"draws with more digits"
    )
