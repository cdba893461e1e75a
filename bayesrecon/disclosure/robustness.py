"""Bounds on reconstruction from differential privacy: reconstruction robustness."""

from collections.abc import Sequence

import numpy as np
import scipy.special

from bayesrecon.errors import BayesreconError


def reconstruction_bound(
    guess: float | Sequence[float], *, epsilon: float | None = None, delta: float = 0.0, mu: float | None = None
) -> np.ndarray | float:
    """Upper bound on the success rate of any reconstruction of one record from a differentially private release.

    The attacker may know all other records. A reconstruction succeeds if it is close enough to the record, by any
    criterion. Let `guess` be the success rate of the best fixed guess without the release. For K equally likely records
    it is 1 / K. Then

        success <= 1 - f(guess)

    where f is the trade-off function of the release under substitution of one record: f(a) is the smallest type II
    error of any test of level a between two data sets that differ in one record. The bound is

        min(e^epsilon guess + delta, 1 - e^-epsilon (1 - delta - guess))   for (epsilon, delta)-privacy,
        Phi(Phi^-1(guess) + mu)                                             for Gaussian privacy.

    Balle, Cherubin and Hayes (2022) bound the success rate by `e^epsilon guess`, and Hayes, Mahloujifar and Balle
    (2023) by the trade-off function.

    Proof: for each record z, "the reconstruction succeeds for z" is a test between the release with z and the release
    with a fixed record in its place. So `P(success with z) <= 1 - f(P(success without z))`. The function 1 - f is
    concave. The mean over z of the second probability is at most `guess`, since a release without z is a fixed guess.

    Args:
        guess: success rates between 0 and 1, of any shape.
        epsilon, delta: privacy parameters under substitution. If they are stated for adding or removing a record, use
            twice that epsilon.
        mu: parameter of Gaussian privacy, instead of epsilon and delta: the distance between two normal means in units
            of the standard deviation of the noise.

    Returns:
        The bound, with the shape of `guess`.

    Raises:
        BayesreconError: a rate is outside [0, 1], epsilon or mu is negative, or both or neither of them are given.

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
    budget = epsilon if mu is None else mu
    if budget is None or not budget >= 0 or not 0 <= delta < 1 or (mu is not None and delta):
        raise BayesreconError(
            f"epsilon={epsilon}, delta={delta}, mu={mu}: expected no negative number, and delta below 1"
        )
    if mu is not None:
        bound = scipy.special.ndtr(scipy.special.ndtri(kappa) + mu)
    else:
        bound = np.minimum(np.exp(budget) * kappa + delta, 1 - np.exp(-budget) * (1 - delta - kappa))
        bound = np.clip(bound, kappa, 1.0)
    return float(bound) if bound.ndim == 0 else bound
