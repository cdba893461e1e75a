"""Bounds on reconstruction from differential privacy: reconstruction robustness."""

from typing import Any

import numpy as np
import scipy.special

from bayesrecon.errors import BayesreconError


def reconstruction_bound(
    guess: Any, *, epsilon: float | None = None, delta: float = 0.0, mu: float | None = None
) -> Any:
    """The most often that anybody reconstructs a record from a private release, all other records being known.

    A reconstruction succeeds where it is near enough to the record, by whatever measure. `guess` is how often the best
    fixed guess succeeds without the release (1 / K for one of K records that are equally likely). Then

        success <= 1 - f(guess)

    with f the trade-off function of the release under the substitution of one record: f(a) is the least rate of misses
    of a test of level a that tells two data sets apart that differ in it. For `(epsilon, delta)`-privacy that is
    `min(e^epsilon guess + delta, 1 - e^-epsilon (1 - delta - guess))`, for Gaussian privacy `Phi(Phi^-1(guess) + mu)`.
    (Balle, Cherubin and Hayes 2022 bound the success by `e^epsilon guess`; Hayes, Mahloujifar and Balle 2023 by the
    trade-off function.)

    Why: for each record z, "success for z" is a test between the release with z and one with a fixed record in its
    place, so `P(success with z) <= 1 - f(P(success without z))`; 1 - f is concave, and the mean over z of the latter is
    at most `guess`, since a release without z is a fixed guess.

    Args:
        guess: between 0 and 1, any shape.
        epsilon, delta: of privacy under substitution; twice an epsilon for adding or leaving out a record.
        mu: of Gaussian privacy, in their place: the distance of two means with the noise of variance one.

    Returns:
        the bound, of the shape of `guess`.

    Raises:
        BayesreconError: a rate outside [0, 1], a negative epsilon or mu, or both of them or neither.

    >>> round(reconstruction_bound(0.1, epsilon=1.0), 4)
    0.2718
    >>> round(reconstruction_bound(0.1, mu=1.0), 4)
    0.3891
    """
    kappa = np.asarray(guess, float)
    if not ((kappa >= 0) & (kappa <= 1)).all():
        raise BayesreconError(f"guess={guess}: expected rates between 0 and 1")
    if (epsilon is None) is (mu is None):
        raise BayesreconError("a bound follows from epsilon= or from mu=; give one of them")
    given = epsilon if mu is None else mu
    if given is None or not given >= 0 or not 0 <= delta < 1 or (mu is not None and delta):
        raise BayesreconError(
            f"epsilon={epsilon}, delta={delta}, mu={mu}: expected no negative number, and delta below 1"
        )
    if mu is not None:
        found = scipy.special.ndtr(scipy.special.ndtri(kappa) + mu)
    else:
        found = np.minimum(np.exp(given) * kappa + delta, 1 - np.exp(-given) * (1 - delta - kappa))
        found = np.clip(found, kappa, 1.0)
    return float(found) if found.ndim == 0 else found
