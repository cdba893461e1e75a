"""Several releases of one data set whose records share their fields: targets add, and so do kernels.

    k(z, z') = sum_i omega_i k_i(z, z'),   mu(z) = sum_i omega_i mu_i(z),   omega_i = T_i / sum_j T_j

with `T_i` the effective number of draws of release i. What one release sees of a statistic and another sees of the
rest, they determine together.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from bayesrecon.kernels.dense import Basis, Embedding, Moments, Part
from bayesrecon.types import Records


class JointEmbedding:
    """The embeddings of several releases as one, with the interface of `Embedding`."""

    def __init__(self, parts: Sequence[Embedding]):
        self.parts = tuple(parts)
        self.temperature = parts[0].temperature
        self.size = sum(p.size for p in parts)
        self.equations = sum(p.equations for p in parts)
        self.effective_size = sum(p.effective_size for p in parts)
        self.independent_size = sum(p.independent_size for p in parts)
        self._offsets = np.cumsum([0, *(p.release.size for p in parts)])[:-1]
        self._shares = [p.effective_size / self.effective_size for p in parts]

    @cached_property
    def weights(self) -> np.ndarray:
        return np.concatenate([s * p.weights for s, p in zip(self._shares, self.parts, strict=True)])

    @cached_property
    def chain(self) -> np.ndarray:
        numbers, offset = [], 0
        for p in self.parts:
            numbers.append(np.unique(p.chain, return_inverse=True)[1] + offset)
            offset = numbers[-1].max() + 1
        return np.concatenate(numbers)

    def thinned(self, count: int) -> np.ndarray:
        """Evenly spread atoms of every release, counted through."""
        return np.concatenate([p.thinned(count) + o for p, o in zip(self.parts, self._offsets, strict=True)])

    def scores(self, records: Records, atoms: np.ndarray) -> np.ndarray:
        """Score matrices of all releases, stacked."""
        chosen = zip(self._shares, self.parts, self._split(atoms), strict=True)
        return np.concatenate([np.sqrt(s) * p.scores(records, a) for s, p, a in chosen])

    def moments(self, basis: Basis, atoms: np.ndarray | None = None, label: str = "kernel", parts: int = 1) -> Moments:
        """Gram matrix, target and value kernel of the basis under all releases, and of parts of each release."""
        found = [p.moments(basis, a, label, parts) for p, a in zip(self.parts, self._split(atoms), strict=True)]
        summed = [
            Part(s * part.share, s * part.gram, s * part.target)
            for s, m in zip(self._shares, found, strict=True)
            for part in m.parts
        ]
        return Moments.of_parts(summed, self._sum([m.value for m in found]))

    def cross(self, basis: Basis, probes: Records, atoms: np.ndarray | None = None) -> np.ndarray:
        """The basis functions at probe records, `(Q, r)`."""
        return self._sum([p.cross(basis, probes, a) for p, a in zip(self.parts, self._split(atoms), strict=True)])

    def noise(self, basis: Basis, y: np.ndarray) -> np.ndarray:
        """Covariance of the joint target times the joint effective size, `(r, r)`."""
        return self._sum([p.noise(basis, y) for p in self.parts])

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> np.ndarray:
        """As `noise`, before anything is solved."""
        return self._sum([p.normal_noise(basis, simulated=simulated) for p in self.parts])

    def influence(self, basis: Basis, y: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Per-atom residuals along `b`, each release's about their mean; fitted scores are not kept."""
        rows = []
        for p in self.parts:
            series = p.influence(basis, y, b)[0]
            rows.append(series - p.weights @ series)
        return np.concatenate(rows), np.zeros((0, 0))

    def _split(self, atoms: np.ndarray | None) -> list[Any]:
        """Each release's own indices."""
        if atoms is None:
            return [None] * len(self.parts)
        owner = np.searchsorted(self._offsets, atoms, side="right") - 1
        return [atoms[owner == i] - offset for i, offset in enumerate(self._offsets)]

    def _sum(self, terms: Sequence[np.ndarray]) -> np.ndarray:
        return np.sum([s * x for s, x in zip(self._shares, terms, strict=True)], axis=0)
