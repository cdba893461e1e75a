"""Random numbers of which nothing is secret: each use has a stream of its own, the same in every run."""

import numpy as np


def public_stream(use: str) -> np.random.Generator:
    """The generator of a use, by its name: other names give independent numbers.

    >>> first, again, other = (public_stream(use).normal() for use in ("records", "records", "trial tilts"))
    >>> first == again, first == other
    (True, False)
    """
    return np.random.default_rng(list(use.encode()))
