"""A release seen through a metric: its atoms in blocks, each with the factor of the metric that it is summed in."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Stored
from bayesrecon.diagnostics import effective_sample_size, evenly
from bayesrecon.divergence.mean_embedding import Featured, MeanEmbedding
from bayesrecon.model import Atoms, Model, Progress, Records
from bayesrecon.running.draws_on_disk import as_rows, column_blocks, mean_and_covariance, part_of
from bayesrecon.running.engine import Work, block_entries, mapped, on_host
from bayesrecon.running.scratch import Series

R = TypeVar("R")
S = TypeVar("S")

CHUNK = 2**22
"""Largest block of the score tensor, in doubles (32 MiB): memory is bounded by it whatever the number of atoms."""

_NORMAL = (
    2**14
)  # atoms of a normal distribution at which noise is simulated, with a small error compared to that of draws
_ENTRIES = 32  # of a record, from which a block counts as larger: series are kept whole while they are differentiated

_PART = 8  # blocks of a part, so that handing one over is little beside working on it

AtomBlock = tuple[np.ndarray, np.ndarray, np.ndarray, int, int]
"""Metric factor, atoms, weights and their number without padding, and the stretch that the block belongs to."""


@dataclass(frozen=True)
class AtomPart:
    """Successive atoms of one fold and one stretch, the unit in which a pass is handed over.

    Attributes:
        metric: factor of the metric.
        theta: atoms, `(n, d)`; in a file if they are `Stored`.
        weights: `(n,)`.
        chunk: number of atoms in a block.
        stretch: number of the stretch.
        fold: number of the fold.
    """

    metric: Float[np.ndarray, "d k"]
    theta: np.ndarray | Stored
    weights: Float[np.ndarray, " n"]
    chunk: int
    stretch: int
    fold: int = 0

    def blocks(self) -> Iterator[AtomBlock]:
        """Blocks of exactly `chunk` atoms."""
        for block in blocks(np.asarray(self.theta), self.weights, self.chunk):
            yield self.metric, *block, self.stretch


class OneRelease(MeanEmbedding, Featured, Protocol):
    """The embedding of one release: a dataclass, so that `replace` gives the same with another metric or other atoms.

    Attributes:
        release: atoms in the coordinates in use.
        metric: `(d, k)` factor of Sigma.
        progress: called with the share of a pass that is done.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def release(self) -> Atoms: ...
    @property
    def metric(self) -> Float[np.ndarray, "d k"]: ...
    @property
    def progress(self) -> Progress | None: ...

    def information(self, records: Records) -> Float[np.ndarray, " M"]:
        """`k(z, z) / d` of each record, `(M,)`, judged on a few atoms; infinite where the score overflows.

        In the metric of the posterior covariance the private records' values add up to about one.
        """
        ...

    def informations(self, records: Records) -> tuple[Float[np.ndarray, " A"], Float[np.ndarray, "A M"]]:
        """The weights of these atoms, which sum to one, and their shares in the information of each record."""
        ...


@dataclass(frozen=True)
class ReleaseView:
    """What the embeddings of one release are made of.

    Args:
        release: atoms in the coordinates to be used.
        metric: `(d, k)` factor with `metric @ metric.T = Sigma`.
        progress: called with a label and the fraction done.
        folds: `(F, d, k)` factors in place of `metric`, each for one of F successive parts of the atoms and made
            without them (`fold_factors`).
    """

    release: Atoms
    metric: Float[np.ndarray, "d k"]
    progress: Progress | None = None
    folds: Float[np.ndarray, "F d k"] | None = None

    @property
    def temperature(self) -> float:
        return self.release.temperature

    @property
    def size(self) -> int:
        """T, the number of atoms."""
        return self.release.size

    @property
    def equations(self) -> int:
        """Rows of the score matrix: atoms times directions."""
        return self.release.size * self.metric.shape[1]

    @property
    def weights(self) -> Float[np.ndarray, " T"]:
        return np.asarray(self.release.weights)

    @property
    def chain(self) -> Int[np.ndarray, " T"]:
        return np.asarray(self.release.chain)

    @property
    def effective_size(self) -> float:
        """`1 / sum a_t^2`: T for equal weights."""
        return float(1.0 / np.sum(np.asarray(self.release.weights) ** 2))

    @property
    def independent_size(self) -> float:
        """The same, less what draws of a typical coordinate lose by being correlated."""
        return self.effective_size * self._independent

    @cached_property
    def _independent(self) -> float:
        sizes = [effective_sample_size(part, self.chain) for _, part in column_blocks(self._theta)]
        typical = np.median(np.concatenate(sizes))
        return float(min(1.0, typical / self.size))

    def thinned(self, count: int) -> Int[np.ndarray, " A"]:
        """Evenly spread atoms, enough for eight rows of the score matrix per record."""
        number = min(self.release.size, max(8, -(-8 * count // self.metric.shape[1])))
        return evenly(self.release.size, number)

    def tame(self, records: Records, *, everywhere: bool = False) -> Bool[np.ndarray, " M"]:
        return np.ones(len(next(iter(records.values()))), bool)

    def _noise_parts(self, chunk: int, simulated: bool) -> list[AtomPart]:
        if not simulated:
            return self._parts(chunk)
        theta = self._normal[0]
        weights = np.full(len(theta), 1 / len(theta))
        return self._divided(theta, weights, chunk, np.arange(len(theta)) / len(theta))

    @cached_property
    def _normal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Atoms of the normal distribution with the release's mean and covariance, its centre and its precision."""
        centre, covariance = mean_and_covariance(self._theta, self.weights)
        values, vectors = np.linalg.eigh(covariance)
        positive = values > 1e-15 * len(values) * values[-1]
        values, vectors = values[positive], vectors[:, positive]
        noise = np.random.default_rng(0).normal(size=(_NORMAL, len(values))) @ (vectors * np.sqrt(values)).T
        return centre + noise, centre, (vectors / values) @ vectors.T

    def _series(self, width: int) -> tuple[Series, Series]:
        """For residuals along so many directions, and for fitted scores."""
        return Series(self.size, width), Series(round(self.size * self.temperature), len(self.metric))

    def _extremes(self, most: int) -> np.ndarray:
        """Positions of the smallest and largest value of the first coordinates."""
        positions = [np.r_[x.argmin(axis=0), x.argmax(axis=0)] for _, x in column_blocks(self._theta, stop=most)]
        return np.unique(np.concatenate(positions))

    def _chunk(self, *records: Records) -> int:
        """Atoms per block: a power of two, so that few shapes are ever compiled."""
        width = sum(len(next(iter(r.values()))) for r in records) * self.metric.shape[1]
        entries = sum(math.prod(f.shape) for f in self.release.model.fields.values())
        width *= max(1, entries // _ENTRIES)
        return 2 ** int(np.clip(np.log2(block_entries(CHUNK) / width), 0, 11 if on_host() else 16))

    def _atoms(
        self, chunk: int, label: str | None, atoms: np.ndarray | None = None, stretches: int = 1
    ) -> Iterator[AtomBlock]:
        return self._read(self._parts(chunk, atoms, stretches), label)

    def _parts(self, chunk: int, atoms: np.ndarray | None = None, stretches: int = 1) -> list[AtomPart]:
        """All atoms, or those at some positions, in fixed parts."""
        theta, weights = self._theta, np.asarray(self.release.weights)
        place = np.arange(len(weights)) / len(weights)
        if atoms is not None:
            theta, weights, place = theta[atoms], weights[atoms] / weights[atoms].sum(), place[atoms]
        return self._divided(theta, weights, chunk, place, stretches)

    @property
    def _theta(self) -> np.ndarray | Stored:
        return as_rows(self.release.theta)

    def _read(self, parts: list[AtomPart], label: str | None) -> Iterator[AtomBlock]:
        done, total = 0, sum(len(part.weights) for part in parts)
        for part in parts:
            for block in part.blocks():
                yield block
                done += block[3]
                self._tell(label, done / total)

    def _pass(
        self, work: Work[Model, S, AtomPart, R], shared: S, parts: list[AtomPart], label: str | None
    ) -> Iterator[tuple[AtomPart, R]]:
        """What `work(model, shared, part)` gives for every part, in their order, by the engine in use."""
        done, total = 0, sum(len(part.weights) for part in parts)
        for part, result in zip(parts, mapped(work, self.release.model, shared, parts), strict=True):
            yield part, result
            done += len(part.weights)
            self._tell(label, done / total)

    def _tell(self, label: str | None, share: float) -> None:
        if self.progress is not None and label is not None:
            self.progress(label, share)

    def _divided(
        self, theta: np.ndarray | Stored, weights: np.ndarray, chunk: int, place: np.ndarray, stretches: int = 1
    ) -> list[AtomPart]:
        """Fixed parts; `place` in [0, 1), increasing, tells fold and stretch."""
        factors = self.metric[None] if self.folds is None else self.folds
        pieces = np.lcm(len(factors), stretches)
        edges = np.searchsorted(place, np.arange(pieces + 1) / pieces)
        chunk = min(chunk, power_of_two(int(np.diff(edges).max())))
        parts = []
        for i, (start, end) in enumerate(pairwise(edges.tolist())):
            fold, stretch = int(i * len(factors) // pieces), int(i * stretches // pieces)
            for first in range(start, end, _PART * chunk):
                last = min(end, first + _PART * chunk)
                atoms, a = part_of(theta, first, last), weights[first:last]
                parts.append(AtomPart(factors[fold], atoms, a, chunk, stretch, fold))
        return parts


def unwhitened(
    metric: Float[np.ndarray, "d k"], scores: Float[np.ndarray, "n k"], temperature: float
) -> Float[np.ndarray, "rows d"]:
    """Fitted scores `(n, d)` in the coordinates of the atoms, from those along a metric `(n, k)`.

    There are none at temperature 0, because the one atom is stationary.
    """
    if not temperature:
        return np.zeros((0, len(metric)))
    return np.linalg.solve(metric.T, scores.T).T


def power_of_two(count: int) -> int:
    """The smallest that is not below the count: few shapes are ever compiled."""
    return 2 ** (count - 1).bit_length()


def blocks(theta: np.ndarray, weights: np.ndarray, chunk: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Blocks of exactly `chunk` atoms; the last is padded with copies of weight zero."""
    for start in range(0, len(theta), chunk):
        block, a = theta[start : start + chunk], weights[start : start + chunk]
        n = len(block)
        if n < chunk:
            block = np.concatenate([block, np.repeat(block[-1:], chunk - n, axis=0)])
            a = np.concatenate([a, np.zeros(chunk - n)])
        yield block, a, n
