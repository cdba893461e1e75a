"""Theorem 4.2: whoever can reconstruct the deleted record can tell which of two records it was."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesrecon.games.adversary import Adversary, X, Y
from bayesrecon.games.reconstructor import Guess, Reconstructor
from bayesrecon.games.reconstructors.instance import DeletedInstance
from bayesrecon.games.reconstructors.label import DeletedLabel
from bayesrecon.games.reconstructors.response import KnownInstance
from bayesrecon.games.view import View

Distance = Callable[[Guess, np.ndarray, float], float]
"""Function of a guess, a record `(p,)` and its response that returns their distance."""


def euclidean(guess: Guess, x: np.ndarray, y: float) -> float:
    """The Euclidean distance over the guessed entries; for a class 0 if it is right, else 1."""
    squared = 0.0 if guess.x is None else float(np.sum((guess.x - x) ** 2))
    return float(np.sqrt(squared + (0.0 if guess.y is None else (guess.y - y) ** 2)))


@dataclass(frozen=True)
class Reconstructed(Adversary):
    """A reconstructor as an adversary (Gao et al. 2022, theorem 4.2): the challenge within `radius` of the guess.

    If the reconstructor is `(rho, radius)`-successful and the challenges are more than twice the radius apart with
    probability `1 - delta`, the adversary succeeds with probability at least `rho - delta`. It is a tie if both
    challenges or neither are within the radius, or if there is no guess. (If both are near, the theorem names the first
    challenge. Which one comes first is random.)

    If instances are known and responses are guessed, each challenge is compared with the guess for its own instance.

    Attributes:
        reconstructor: any reconstructor.
        radius: largest distance from the guess. None compares distances instead: the closer challenge was deleted.
        distance: function that measures the distance of a guess to a record.
    """

    reconstructor: Reconstructor
    radius: float | None = None
    distance: Distance = euclidean

    @property
    def name(self) -> str:
        return f"theorem 4.2, {self.reconstructor.name}"

    def required(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((X, Y, *self.reconstructor.required())))

    def scores(self, view: View) -> np.ndarray:
        guesses = list(self.reconstructor.guesses(view))
        if X not in self.reconstructor.required():  # one guess for all challenges
            guesses = guesses * len(view.labels)
        distances = np.array(
            [
                np.inf if g is None else self.distance(g, x, float(y))
                for g, x, y in zip(guesses, view.features, view.labels, strict=True)
            ]
        )
        return -distances if self.radius is None else (distances <= self.radius).astype(float)


ADVERSARIES = {
    "label": ("theorem 4.2 with the deleted label, queries from public records", Reconstructed(DeletedLabel(), 0.0)),
    "instance": (
        "theorem 4.2 with the deleted instance, queries from public records",
        Reconstructed(DeletedInstance()),
    ),
    "response": ("theorem 4.2 with the response of a known instance: the nearer one", Reconstructed(KnownInstance())),
}
