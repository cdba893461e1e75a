"""Noise of the discrete Gaussian distribution, and what it guarantees in (epsilon, delta).

Noise in floating-point numbers protects nothing: which sums can be reached depends on the data (Mironov 2012). So
totals are whole numbers, noise is drawn from whole numbers by exact arithmetic on random bits of the operating system,
and only their sum is ever turned into a floating-point number (Canonne, Kamath and Steinke 2020).
"""

import math
import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.optimize

from bayesrecon.errors import BayesreconError

Below = Callable[[int], int]
"""A function that draws a whole number from 0 to below its argument."""

LARGE_EPSILON = 20.0
"""An epsilon above this guarantees nothing in practice: odds may change by a factor of 5e8."""

_WORST_DELTA = 1e-3  # with n records, an algorithm that publishes n * delta of them at random has this delta


def discrete_gaussian(variance: Fraction, below: Below = secrets.randbelow) -> int:
    """A whole number x with probability proportional to `exp(-x^2 / (2 variance))`, without rounding.

    Args:
        variance: a positive fraction. The variance of x is at most this.
        below: source of randomness.

    >>> import random
    >>> values = [discrete_gaussian(Fraction(9), random.Random(i).randrange) for i in range(2000)]
    >>> round(float(np.var(values)))
    9
    """
    scale = math.isqrt(variance.numerator // variance.denominator) + 1
    while True:
        x = _discrete_laplace(scale, below)
        if _is_exponential((abs(x) - variance / scale) ** 2 / (2 * variance), below):
            return x


def _discrete_laplace(scale: int, below: Below) -> int:
    """A whole number x with probability proportional to `exp(-|x| / scale)`."""
    while True:
        part = below(scale)
        if not _is_exponential(Fraction(part, scale), below):
            continue
        whole = 0
        while _is_exponential(Fraction(1), below):
            whole += 1
        x, is_negative = part + scale * whole, below(2)
        if x or not is_negative:  # zero has one sign
            return -x if is_negative else x


def _is_exponential(rate: Fraction, below: Below) -> bool:
    """True with probability `exp(-rate)`, for a rate of at least 0."""
    while rate > 1:
        if not _is_exponential(Fraction(1), below):
            return False
        rate -= 1
    tries = 1
    while below(rate.denominator * tries) < rate.numerator:
        tries += 1
    return tries % 2 == 1


def check_guarantee(epsilon: object, delta: object) -> tuple[float, float]:
    """Epsilon and delta as numbers.

    Raises:
        BayesreconError: one of them guarantees nothing.
    """
    for name, value, high, example in (("epsilon", epsilon, math.inf, "1"), ("delta", delta, _WORST_DELTA, "1e-6")):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 < value < high:
            bound = "" if math.isinf(high) else f" below {high:g}, and far below one over the number of records"
            raise BayesreconError(f"{name}={value!r}: expected a positive number{bound}, such as {example}")
    return float(epsilon), float(delta)  # pyright: ignore[reportArgumentType]


def epsilon_of(rho: float, delta: float) -> float:
    """The smallest epsilon at which rho-zCDP is known to imply (epsilon, delta)-differential privacy.

        epsilon = min_a  a rho + (log(1 / (delta (a - 1))) + a log(1 - 1 / a)) / (a - 1)

    over a > 1 (Canonne, Kamath and Steinke 2020, corollary 13). A Gaussian mechanism has about this epsilon.

    >>> round(epsilon_of(0.5, 1e-6), 3)
    5.222
    """

    def at(log_order: float) -> float:
        less = math.exp(log_order)  # a - 1
        inverse = math.log1p(1 / less)  # -log(1 - 1 / a)
        return (1 + less) * rho + (-math.log(delta) - log_order - (1 + less) * inverse) / less

    best = 0.5 * math.log(max(math.log(1 / delta), 1.0) / rho)
    found: Any = scipy.optimize.minimize_scalar(
        at, bounds=(best - 5, best + 5), method="bounded", options={"xatol": 1e-10}
    )
    return max(0.0, float(found.fun))


def rho_of(epsilon: float, delta: float) -> float:
    """The rho of zero-concentrated differential privacy that (epsilon, delta) allows.

    It is the largest one whose `epsilon_of` is at most epsilon.

    >>> round(epsilon_of(rho_of(1.0, 1e-6), 1e-6), 6)
    1.0
    """
    low, high = 1e-12, epsilon + 10.0  # epsilon_of(rho) is above rho for a small delta
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if epsilon_of(middle, delta) <= epsilon else (low, middle)
    return low
