"""The mean embedding of one release: in closed form if the model has one, and otherwise by dense or sparse passes,
whichever cost less for the records."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Array, Stored
from bayesrecon.divergence.dense import DenseEmbedding
from bayesrecon.divergence.gaussian import GaussianEmbedding
from bayesrecon.divergence.mean_embedding import (
    Basis,
    Coordinates,
    FeatureBasis,
    Influence,
    LostDigits,
    MeanEmbedding,
    Moments,
)
from bayesrecon.divergence.metric_view import ReleaseView
from bayesrecon.divergence.metrics import fold_factors, metric_factor
from bayesrecon.divergence.sparse import SparseEmbedding
from bayesrecon.model import Progress, Records
from bayesrecon.releases import Release

_SAMPLE = 64  # number of atoms from which the information of a record is computed
_OVERFLOW = 1e290  # squares of scores from which a record's information is infinite
_FEW = 91  # up to this number of monomials (twelve coefficients) the closed form is always the cheapest
_COST = 2  # cost of a product in closed form, in products of a dense pass
_BLOCK = 2**23  # largest number of entries of a score matrix that is only summed
_LARGE = 2**25  # from this number of entries of a score matrix on, compiling a sparse pass pays off


@dataclass(frozen=True)
class AdaptiveEmbedding(ReleaseView):
    """The embedding of one release that every public function uses (`OneRelease`)."""

    @cached_property
    def dense(self) -> DenseEmbedding:
        return DenseEmbedding(self.release, self.metric, self.progress, self.folds)

    @cached_property
    def sparse(self) -> SparseEmbedding:
        return SparseEmbedding(self.release, self.metric, self.progress, self.folds)

    @cached_property
    def closed(self) -> GaussianEmbedding | None:
        """The closed form, which only linear regressions have; None for other models."""
        if self.release.model.gaussian is None:
            return None
        return GaussianEmbedding(self.release, self.metric, self.progress, self.folds)

    @property
    def features(self) -> int:
        return 0 if self.closed is None else self.closed.features

    def _passes(self, basis: Basis, *records: Records) -> MeanEmbedding:
        if isinstance(basis, FeatureBasis) and basis.atoms is self.release and self.closed is not None:
            return self.closed
        return self._cheaper(basis.records, *records)

    def _cheaper(self, *records: Records) -> MeanEmbedding:
        if self.closed is not None and self.closed.width <= _FEW:
            return self.closed
        if all(self.sparse.touched(probes) is not None for probes in records):
            return self.sparse
        # The closed form multiplies all monomials; dense passes multiply the records in every direction.
        dense = _COST * self.metric.shape[1] * len(next(iter(records[0].values()))) ** 2
        return self.closed if self.closed is not None and self.closed.width**2 <= dense else self.dense

    def scores(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "rows M"]:
        if self.closed is not None:
            return self.closed.scores(records, atoms)
        entries = len(atoms) * self.metric.shape[1] * len(next(iter(records.values())))
        return (self.dense if entries < _LARGE else self._cheaper(records)).scores(records, atoms)

    def coordinates(self, atoms: Int[np.ndarray, " A"]) -> Coordinates | None:
        return None if self.closed is None else self.closed.coordinates(atoms)

    def columns(self, records: Records) -> Float[np.ndarray, "F M"]:
        return np.zeros((0, len(next(iter(records.values()))))) if self.closed is None else self.closed.columns(records)

    def totals(self, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, " F"] | None:
        return None if self.closed is None else self.closed.totals(atoms)

    def slopes(self, records: Records, h: Array | Stored, j: Int[np.ndarray, " P"]) -> Float[np.ndarray, "M P"] | None:
        if self.closed is not None:
            return self.closed.slopes(records, h, j)
        return None if self.sparse.touched(records) is None else self.sparse.slopes(records, h, j)

    def pieces(self, records: Records, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        if self.closed is not None or self.sparse.touched(records) is None:
            return None
        return self.sparse.pieces(records, atoms)

    def information(self, records: Records) -> Float[np.ndarray, " M"]:
        return self.informations(records)[1].sum(axis=0)

    def informations(self, records: Records) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, "A M"]]:
        atoms, count = self.thinned(_SAMPLE), len(next(iter(records.values())))
        weights = self.weights[atoms] / self.weights[atoms].sum()
        shape = len(atoms), self.metric.shape[1]
        step = max(1, _BLOCK // math.prod(shape))
        if count > step and self.closed is None and self.sparse.touched(records) is not None:
            weighted = self.sparse.informations(records, atoms)
        else:
            weighted = np.zeros((len(atoms), count))
            for start in range(0, count, step):
                block = {k: v[start : start + step] for k, v in records.items()}
                squares = np.clip(self.scores(block, atoms), -1e150, 1e150) ** 2
                weighted[:, start : start + step] = squares.reshape(*shape, -1).mean(axis=1)
        weighted[~(weighted < _OVERFLOW)] = np.inf
        return weights, weighted

    def tame(self, records: Records, *, everywhere: bool = False) -> Bool[np.ndarray, " M"]:
        return self._cheaper(records).tame(records, everywhere=everywhere)

    def moments(
        self,
        basis: Basis,
        atoms: Int[np.ndarray, " A"] | None = None,
        label: str = "summing over the draws",
        stretches: int = 1,
    ) -> Moments:
        try:
            return self._passes(basis).moments(basis, atoms, label, stretches)
        except LostDigits:
            return self.dense.moments(basis, atoms, label, stretches)

    def cross(
        self, basis: Basis, probes: Records, atoms: Int[np.ndarray, " A"] | None = None
    ) -> Float[np.ndarray, "Q r"]:
        try:
            return self._passes(basis, probes).cross(basis, probes, atoms)
        except LostDigits:
            return self.dense.cross(basis, probes, atoms)

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        return self._passes(basis).noise(basis, y)

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        return self._passes(basis).normal_noise(basis, simulated=simulated)

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> Influence:
        return self._passes(basis).influence(basis, y, b)


def embedding_of(view: Release, metric: str, progress: Progress | None = None) -> AdaptiveEmbedding:
    """The embedding of a release, in the coordinates of the view."""
    return AdaptiveEmbedding(view, metric_factor(view, metric), progress, fold_factors(view, metric))
