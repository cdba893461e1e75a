"""Several releases of one data set whose records share their fields: targets add, and so do kernels.

    k(z, z') = sum_i omega_i k_i(z, z'),   mu(z) = sum_i omega_i mu_i(z),   omega_i = T_i / sum_j T_j

with `T_i` the effective number of draws of release i. If one release determines a part of a statistic and another
release the other part, they determine it together.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.divergence.mean_embedding import Basis, Influence, MeanEmbedding, Moments, Stretch
from bayesrecon.model import Records


class JointEmbedding:
    """`MeanEmbedding` of several releases."""

    def __init__(self, members: Sequence[MeanEmbedding]):
        self.members = tuple(members)
        self.temperature = members[0].temperature
        self.size = sum(p.size for p in members)
        self.equations = sum(p.equations for p in members)
        self.effective_size = sum(p.effective_size for p in members)
        self.independent_size = sum(p.independent_size for p in members)
        self._offsets = np.cumsum([0, *(p.size for p in members)])[:-1]
        self._shares = [p.effective_size / self.effective_size for p in members]

    @property
    def weights(self) -> Float[np.ndarray, " T"]:
        return np.concatenate([s * p.weights for s, p in zip(self._shares, self.members, strict=True)])

    @property
    def chain(self) -> Int[np.ndarray, " T"]:
        numbers, offset = [], 0
        for p in self.members:
            numbers.append(np.unique(p.chain, return_inverse=True)[1] + offset)
            offset = numbers[-1].max() + 1
        return np.concatenate(numbers)

    def thinned(self, count: int) -> Int[np.ndarray, " A"]:
        """Evenly spread atoms of every release, counted through."""
        return np.concatenate([p.thinned(count) + o for p, o in zip(self.members, self._offsets, strict=True)])

    def scores(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "rows M"]:
        """Score matrices of all releases, stacked."""
        terms = zip(self._shares, self.members, self._split(atoms), strict=True)
        return np.concatenate([np.sqrt(s) * p.scores(records, a) for s, p, a in terms])

    def tame(self, records: Records, *, everywhere: bool = False) -> Bool[np.ndarray, " M"]:
        """Records that are tame for all releases."""
        return np.all([p.tame(records, everywhere=everywhere) for p in self.members], axis=0)

    def moments(
        self,
        basis: Basis,
        atoms: Int[np.ndarray, " A"] | None = None,
        label: str = "summing over the draws",
        stretches: int = 1,
    ) -> Moments:
        """Sums over all releases, and over stretches of each."""
        chosen = [None] * len(self.members) if atoms is None else self._split(atoms)
        moments = [p.moments(basis, a, label, stretches) for p, a in zip(self.members, chosen, strict=True)]
        summed = [
            Stretch(s * stretch.share, s * stretch.gram, s * stretch.target)
            for s, m in zip(self._shares, moments, strict=True)
            for stretch in m.stretches
        ]
        return Moments.of_stretches(summed, self._sum([m.value for m in moments]))

    def cross(
        self, basis: Basis, probes: Records, atoms: Int[np.ndarray, " A"] | None = None
    ) -> Float[np.ndarray, "Q r"]:
        """The basis functions at probe records, `(Q, r)`."""
        chosen = [None] * len(self.members) if atoms is None else self._split(atoms)
        return self._sum([p.cross(basis, probes, a) for p, a in zip(self.members, chosen, strict=True)])

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        """Covariance of the joint target times the joint effective size, `(r, r)`."""
        return self._sum([p.noise(basis, y) for p in self.members])

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        """As `noise`, before anything is solved."""
        return self._sum([p.normal_noise(basis, simulated=simulated) for p in self.members])

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> Influence:
        """Per-atom residuals along `b`, each release's about their mean; fitted scores are not kept."""
        rows = []
        for p in self.members:
            series = np.asarray(p.influence(basis, y, b)[0])
            rows.append(series - p.weights @ series)
        return np.concatenate(rows), np.zeros((0, 0))

    def _split(self, atoms: np.ndarray) -> list[np.ndarray]:
        """Positions in each release."""
        owner = np.searchsorted(self._offsets, atoms, side="right") - 1
        return [atoms[owner == i] - offset for i, offset in enumerate(self._offsets)]

    def _sum(self, terms: Sequence[np.ndarray]) -> np.ndarray:
        return np.sum([s * x for s, x in zip(self._shares, terms, strict=True)], axis=0)
