"""The distributions of the workshop paper's experiments: a noisy linear response, and two normal classes."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LinearLaw:
    """`x ~ N(0, I)`, `y = <w, x> + noise` with variance 0.1; w is the same in all rounds, drawn from N(0, I)."""

    features: int = 10
    variance: float = 0.1
    seed: int = 0

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        weights = np.random.default_rng(self.seed).normal(size=self.features)
        x = rng.normal(size=(n, self.features))
        return x, x @ weights + rng.normal(0.0, self.variance**0.5, n)


@dataclass(frozen=True)
class TwoNormals:
    """Two classes, equally likely: N(0, I) and N(0.1, I)."""

    features: int = 10
    shift: float = 0.1

    def __call__(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.arange(n) % 2)
        return rng.normal(size=(n, self.features)) + self.shift * y[:, None], y
