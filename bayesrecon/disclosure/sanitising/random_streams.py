"""Random numbers that are not secret: each use has its own stream, which is the same in every run."""

import numpy as np


def public_stream(use: str) -> np.random.Generator:
    """The random number generator for a named use. Other names give independent numbers.

    >>> first, again, other = (public_stream(use).normal() for use in ("records", "records", "trial tilts"))
    >>> first == again, first == other
    (True, False)
    """
    return np.random.default_rng(list(use.encode()))
