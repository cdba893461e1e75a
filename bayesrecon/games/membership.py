"""The base class of membership attacks."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesrecon.games.view import View

NonMembership = Callable[[np.ndarray], np.ndarray]
"""Function from the answers at the challenges to the probabilities `(k,)` that they are not in the training data."""


@dataclass(frozen=True)
class Membership:
    """Decides whether a record was in a model's training data, from the model's answer and auxiliary records."""

    @property
    def name(self) -> str:
        raise NotImplementedError

    def prepare(self, view: View) -> NonMembership:
        """Train on the auxiliary records, for the challenges of one round."""
        raise NotImplementedError
