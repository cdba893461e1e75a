"""The distribution of the solution's noise by normal theory, with variances of functionals and probabilities of values.

Assume a posterior close to normal. If gradients are constant over the draws (f is linear), their noise has covariance
K. If they are linear (f is quadratic), it has covariance 2 K. In both cases `K noise^-1 K` is the covariance of f, the
Cramer-Rao bound. It is half of `K + mean' mean` on the rows of each set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import scipy.sparse
from jaxtyping import Float

from bayesrecon.attacks.records.blocks import Blocks, Inverse, NotSolved, layered
from bayesrecon.attacks.records.conjugate import Solver
from bayesrecon.attacks.records.decode import decode, inverse_root
from bayesrecon.attacks.records.decode_layers import decode_layers
from bayesrecon.attacks.records.rival_tables import BinaryTable, with_rival_tables
from bayesrecon.attacks.records.rows import KnownRows
from bayesrecon.attacks.records.system import REMEDY, System
from bayesrecon.diagnostics import evenly
from bayesrecon.errors import check_memory

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

    SparseColumns = csc_array | csr_array

_AT_ONCE = 1024  # functionals per block
_CHECKED = 32  # number of variances that are also computed exactly
_OFF = 0.1  # largest relative deviation of the ratio of exact to approximate variances from its median


Solutions = Sequence[np.ndarray] | np.ndarray


class SolutionNoise(Protocol):
    """Precision of the solution per draw."""

    @property
    def scattered(self) -> int:
        """Number of functionals whose exact errors are affordable."""
        ...

    def variances(self, columns: "SparseColumns") -> np.ndarray:
        """Variances `(S,)` of the functionals `columns (M, S)`."""
        ...

    def length(self, x: np.ndarray) -> float:
        """`x' precision x`."""
        ...

    def probabilities(
        self, scale: float, rows: KnownRows, solutions: Solutions, amplitudes: np.ndarray, log_prior: np.ndarray
    ) -> list[np.ndarray]:
        """Probabilities `(N, C)` of candidates for each solution `(M,)`, given `scale` independent draws.

        The noise may be overwritten.
        """
        ...


def noise_of(system: System) -> SolutionNoise:
    """Noise with a precision in layers if the approximate inverse is accurate, or else as one array.

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
    """Noise with a dense `precision (M, M)` per draw."""

    precision: Float[np.ndarray, "M M"]
    scattered: int = 2048

    def variances(self, columns: "SparseColumns") -> np.ndarray:
        unit = np.sqrt(np.maximum(np.diag(self.precision), 1e-300))
        scaled = self.precision / unit[:, None]
        scaled /= unit
        scaled[np.diag_indices_from(scaled)] += 1e-10
        root = inverse_root(scaled)
        a = scipy.sparse.csc_array(columns / unit[:, None])
        starts = range(0, len(a.indptr) - 1, _AT_ONCE)
        return np.concatenate([((a[:, i : i + _AT_ONCE].T @ root) ** 2).sum(axis=1) for i in starts])

    def length(self, x: np.ndarray) -> float:
        return float(x @ self.precision @ x)

    def probabilities(
        self, scale: float, rows: KnownRows, solutions: Solutions, amplitudes: np.ndarray, log_prior: np.ndarray
    ) -> list[np.ndarray]:
        precision = self.precision
        precision *= scale
        precision = rows.padded_square(precision)
        single_layer = layered([np.arange(len(precision))], [precision], len(precision))
        two_valued = _two_valued(amplitudes, log_prior)

        def decoded(solution: np.ndarray) -> np.ndarray:
            probability = decode(precision, solution, amplitudes, log_prior)
            if not two_valued:
                return probability
            return with_rival_tables(
                BinaryTable(single_layer, 1.0, solution, amplitudes[:, :, 0], log_prior), probability
            )

        return [decoded(rows.padded(solution).ravel()) for solution in solutions]


@dataclass(frozen=True)
class LayeredNoise:
    """Noise of rows with one feature each, as a sum of layers.

    Attributes:
        precision: precision per draw.
        common: as in `Solver`.
        inverse: approximate inverse of the precision.
        level: typical ratio of exact to approximate variances.
    """

    precision: Blocks
    common: "csr_array"
    inverse: Inverse
    level: float
    scattered: int = 128

    def variances(self, columns: "SparseColumns") -> np.ndarray:
        return np.asarray((columns.tocsc() ** 2).T @ (self.level * self.inverse.variance))

    def length(self, x: np.ndarray) -> float:
        return float(x @ (self.precision @ x))

    def probabilities(
        self, scale: float, rows: KnownRows, solutions: Solutions, amplitudes: np.ndarray, log_prior: np.ndarray
    ) -> list[np.ndarray]:
        candidates, two_valued = amplitudes[:, :, 0], _two_valued(amplitudes, log_prior)

        def decoded(solution: np.ndarray) -> np.ndarray:
            probability = decode_layers(self.precision, scale, self.common, solution, candidates, log_prior)
            if not two_valued:
                return probability
            return with_rival_tables(BinaryTable(self.precision, scale, solution, candidates, log_prior), probability)

        try:
            return [decoded(solution) for solution in solutions]
        except NotSolved:
            return DenseNoise(_affordable(self.precision)).probabilities(scale, rows, solutions, amplitudes, log_prior)


def _checked(precision: Blocks, common: "csr_array") -> LayeredNoise:
    """Noise in layers. Raises `NotSolved` if exact variances are not proportional to the approximate ones."""
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
