"""The distribution of the solution's noise by normal theory, and what it says of functionals and of legal values.

For a posterior close to normal, gradients that are constant over the draws (a linear f) carry noise of covariance K and
gradients that are linear (a quadratic f) carry twice that: in both cases K noise^-1 K is the covariance of f itself,
the Cramer-Rao bound, half of `K + mean' mean` on the rows of every set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, Inverse, NotSolved, layered
from bayesrecon.attacks.records.conjugate import Solver
from bayesrecon.attacks.records.decode import decode, inverse_root
from bayesrecon.attacks.records.decode_layers import decode_layers
from bayesrecon.attacks.records.doubts import Table, with_rival_tables
from bayesrecon.attacks.records.rows import Rows
from bayesrecon.attacks.records.system import REMEDY, System
from bayesrecon.diagnostics import evenly
from bayesrecon.errors import check_memory

_AT_ONCE = 1024  # functionals whose products with the noise are held at once
_CHECKED = 32  # variances that are also computed exactly,
_OFF = 0.1  # and how far from their common ratio to the approximate ones they may be


Solutions = Sequence[np.ndarray] | np.ndarray


class Noise(Protocol):
    """Precision of the solution per draw."""

    @property
    def scattered(self) -> int:
        """Functionals of which exact errors are affordable."""
        ...

    def variances(self, columns: Any) -> np.ndarray:
        """Variances `(S,)` of the functionals `columns (M, S)`, sparse."""
        ...

    def length(self, x: np.ndarray) -> float:
        """`x' precision x`."""
        ...

    def probabilities(
        self, scale: float, rows: Rows, solutions: Solutions, amplitudes: np.ndarray, log_prior: np.ndarray
    ) -> list[np.ndarray]:
        """Probabilities `(N, C)` of candidates given each of some solutions `(M,)`, for `scale` independent draws. May
        use up the noise."""
        ...


def noise_of(system: System) -> Noise:
    """Noise with a precision in layers if their approximate inverse is accurate, else in one array.

    Raises:
        BayesreconError: the array does not fit into memory.
    """
    size = len(system.target)
    if isinstance(system.gram, Blocks):
        sets, values = [], []
        for slots, rows in system.slots.sharing():
            mean = system.mean[np.ix_(slots, rows)]
            sets.append(rows)
            values.append(mean.T @ mean)
        means = layered(sets, values, size)
        del values
        precision = system.gram.with_(means, lambda a, b: 0.5 * (a + b))
        del means
        try:
            return _checked(precision, system.common)
        except NotSolved:
            return DenseNoise(_affordable(precision))
    result = np.array(system.gram)
    for slots, rows in system.slots.sharing():
        mean = system.mean[np.ix_(slots, rows)]
        if len(rows) == len(result):
            result += mean.T @ mean
        else:
            result[np.ix_(rows, rows)] += mean.T @ mean
    result *= 0.5
    return DenseNoise(result)


@dataclass(frozen=True)
class DenseNoise:
    """`precision (M, M)` per draw."""

    precision: Float[np.ndarray, "M M"]
    scattered: int = 2048

    def variances(self, columns: Any) -> np.ndarray:
        unit = np.sqrt(np.maximum(np.diag(self.precision), 1e-300))
        scaled = self.precision / unit[:, None]
        scaled /= unit
        scaled[np.diag_indices_from(scaled)] += 1e-10
        root = inverse_root(scaled)
        a = (columns / unit[:, None]).tocsc()
        starts = range(0, a.shape[1], _AT_ONCE)
        return np.concatenate([((a[:, i : i + _AT_ONCE].T @ root) ** 2).sum(axis=1) for i in starts])

    def length(self, x: np.ndarray) -> float:
        return float(x @ self.precision @ x)

    def probabilities(
        self, scale: float, rows: Rows, solutions: Solutions, amplitudes: np.ndarray, log_prior: np.ndarray
    ) -> list[np.ndarray]:
        precision = self.precision
        precision *= scale
        precision = rows.padded_square(precision)
        single_layer = layered([np.arange(len(precision))], [precision], len(precision))
        two = _two_valued(amplitudes, log_prior)

        def decoded(solution: np.ndarray) -> np.ndarray:
            probability = decode(precision, solution, amplitudes, log_prior)
            return (
                with_rival_tables(Table(single_layer, 1.0, solution, amplitudes[:, :, 0], log_prior), probability)
                if two
                else probability
            )

        return [decoded(rows.padded(solution).ravel()) for solution in solutions]


@dataclass(frozen=True)
class LayeredNoise:
    """Noise of rows with one feature each.

    Attributes:
        precision: per draw.
        common: as in `Solver`.
        inverse: of the precision.
        level: exact variances as a multiple of the approximate ones.
    """

    precision: Blocks
    common: Any
    inverse: Inverse
    level: float
    scattered: int = 128

    def variances(self, columns: Any) -> np.ndarray:
        return np.asarray((columns.tocsc() ** 2).T @ (self.level * self.inverse.variance))

    def length(self, x: np.ndarray) -> float:
        return float(x @ (self.precision @ x))

    def probabilities(
        self, scale: float, rows: Rows, solutions: Solutions, amplitudes: np.ndarray, log_prior: np.ndarray
    ) -> list[np.ndarray]:
        candidates, two = amplitudes[:, :, 0], _two_valued(amplitudes, log_prior)

        def decoded(solution: np.ndarray) -> np.ndarray:
            probability = decode_layers(self.precision, scale, self.common, solution, candidates, log_prior)
            return (
                with_rival_tables(Table(self.precision, scale, solution, candidates, log_prior), probability)
                if two
                else probability
            )

        try:
            return [decoded(solution) for solution in solutions]
        except NotSolved:
            return DenseNoise(_affordable(self.precision)).probabilities(scale, rows, solutions, amplitudes, log_prior)


def _checked(precision: Blocks, common: Any) -> LayeredNoise:
    """Raises `NotSolved` where approximate and exact variances are not all in one ratio."""
    inverse = precision.inverse()
    sample = evenly(precision.size, _CHECKED)
    ones = np.zeros((precision.size, len(sample)))
    ones[sample, np.arange(len(sample))] = 1.0
    exact = Solver(precision, inverse, common, np.zeros(precision.size))(ones)[sample, np.arange(len(sample))]
    ratio = exact / inverse.variance[sample]
    level = float(np.median(ratio))
    if not np.abs(ratio / level - 1).max() <= _OFF:
        raise NotSolved
    return LayeredNoise(precision, common, inverse, level)


def _two_valued(amplitudes: np.ndarray, log_prior: np.ndarray) -> bool:
    return amplitudes.shape[1:] == (2, 1) and bool(np.isfinite(log_prior).all())


def _affordable(precision: Blocks) -> np.ndarray:
    check_memory(4 * 8 * precision.size**2, f"{precision.size} unknowns whose blocks cannot be separated", REMEDY)
    return precision.dense()
