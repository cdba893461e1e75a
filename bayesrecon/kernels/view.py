"""A release seen through a metric: its atoms in blocks, each with the factor of the metric that it is summed in."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from bayesrecon.diagnostics import effective_sample_size, evenly
from bayesrecon.types import Model, Progress, Records, Release

CHUNK = 2**22
"""Largest block of the score tensor, in doubles (32 MiB): memory is bounded by it whatever the number of atoms."""

_NORMAL = 2**14  # atoms of a normal law at which noise is simulated: their error is small beside that of the draws
_ENTRIES = 32  # of a record, from which a block counts as larger: series are kept whole while they are differentiated

AtomBlock = tuple[np.ndarray, np.ndarray, np.ndarray, int, int]
"""Metric factor, atoms, weights and their number without padding, and the stretch that the block belongs to."""


@dataclass(frozen=True)
class View:
    """What the embeddings of one release are made of.

    Args:
        release: atoms in the coordinates to be used.
        metric: `(d, k)` factor with `metric @ metric.T = Sigma`.
        progress: called with a label and the fraction done.
        folds: `(F, d, k)` factors in place of `metric`, each for one of F successive parts of the atoms and made
            without them (`fold_factors`).
    """

    release: Release
    metric: np.ndarray
    progress: Progress | None = None
    folds: np.ndarray | None = None

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
    def weights(self) -> np.ndarray:
        return np.asarray(self.release.weights)

    @property
    def chain(self) -> np.ndarray:
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
        typical = np.median(effective_sample_size(np.asarray(self.release.theta), self.chain))
        return float(min(1.0, typical / self.size))

    def thinned(self, count: int) -> np.ndarray:
        """Evenly spread atoms, enough for eight rows of the score matrix per record."""
        number = min(self.release.size, max(8, -(-8 * count // self.metric.shape[1])))
        return evenly(self.release.size, number)

    def tame(self, records: Records, *, everywhere: bool = False) -> np.ndarray:
        return np.ones(len(next(iter(records.values()))), bool)

    def _noise_atoms(self, chunk: int, simulated: bool) -> Iterator[AtomBlock]:
        theta = self._normal[0] if simulated else np.asarray(self.release.theta)
        weights = np.full(len(theta), 1 / len(theta)) if simulated else self.weights
        return self._in_blocks(theta, weights, chunk, "noise", np.arange(len(theta)) / len(theta))

    @cached_property
    def _normal(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Atoms of the normal law that has the mean and covariance of the release's, its centre and precision."""
        theta, weights = np.asarray(self.release.theta), np.asarray(self.release.weights)
        centre = weights @ theta
        values, vectors = np.linalg.eigh((theta - centre).T @ ((theta - centre) * weights[:, None]))
        kept = values > 1e-15 * len(values) * values[-1]
        root = vectors[:, kept] * np.sqrt(values[kept])
        drawn = np.random.default_rng(0).normal(size=(_NORMAL, kept.sum())) @ root.T
        return centre + drawn, centre, (vectors[:, kept] / values[kept]) @ vectors[:, kept].T

    @property
    def _static(self) -> tuple[Model, float]:
        return self.release.model, self.release.temperature

    def _chunk(self, *records: Records) -> int:
        """Atoms per block: a power of two, so that few shapes are ever compiled."""
        width = sum(len(next(iter(r.values()))) for r in records) * self.metric.shape[1]
        entries = sum(math.prod(f.shape) for f in self.release.model.fields.values())
        width *= max(1, entries // _ENTRIES)
        return 2 ** int(np.clip(np.log2(CHUNK / width), 0, 11))

    def _atoms(
        self, chunk: int, label: str | None, atoms: np.ndarray | None = None, stretches: int = 1
    ) -> Iterator[AtomBlock]:
        theta, weights = np.asarray(self.release.theta), np.asarray(self.release.weights)
        place = np.arange(len(theta)) / len(theta)
        if atoms is not None:
            theta, weights, place = theta[atoms], weights[atoms] / weights[atoms].sum(), place[atoms]
        return self._in_blocks(theta, weights, chunk, label, place, stretches)

    def _in_blocks(
        self,
        theta: np.ndarray,
        weights: np.ndarray,
        chunk: int,
        label: str | None,
        place: np.ndarray,
        stretches: int = 1,
    ) -> Iterator[AtomBlock]:
        """Metric, atoms, weights and their number, block by block, and the stretch that a block belongs to; `place`
        in [0, 1), increasing, tells fold and stretch."""
        factors = self.metric[None] if self.folds is None else self.folds
        whole = np.lcm(len(factors), stretches)
        edges = np.searchsorted(place, np.arange(whole + 1) / whole)
        chunk = min(chunk, power_of_two(int(np.diff(edges).max())))
        done = 0
        for i, (start, end) in enumerate(pairwise(edges)):
            metric, stretch = factors[i * len(factors) // whole], i * stretches // whole
            for block in blocks(theta[start:end], weights[start:end], chunk):
                yield metric, *block, stretch
                done += block[2]
                if self.progress is not None and label is not None:
                    self.progress(label, done / len(theta))


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
