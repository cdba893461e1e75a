"""The distribution of the solution's noise by normal theory, with variances of functionals and probabilities of values.

Assume a posterior close to normal. If gradients are constant over the draws (f is linear), their noise has covariance
K. If they are linear (f is quadratic), it has covariance 2 K. In both cases `K noise^-1 K` is the covariance of f, the
Cramer-Rao bound. It is half of `K + mean' mean` on the rows of each set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Float, Int

from bayesrecon.attacks.records.blocks import Blocks, Inverse, NotSolved, Solver, layered
from bayesrecon.attacks.records.rows import KnownRows
from bayesrecon.attacks.records.system import REMEDY, System
from bayesrecon.diagnostics import evenly
from bayesrecon.errors import check_memory

if TYPE_CHECKING:
    from scipy.sparse import csr_array


# Values from noisy amplitudes by expectation propagation over the possible values of each row.
#
# The solution is normal around the truth with precision Lambda. Each row holds one of finitely many values, with
# the model's probabilities as their prior. Rows interact through Lambda: a legal value of one row sharpens the
# others. Expectation propagation (Minka 2001; for linear systems with discrete unknowns, Cespedes et al. 2014)
# approximates the discrete distributions of all rows but one by normal ones, for each row in turn.


lapack: Any = scipy.linalg.lapack

STEPS, DAMPING = 15, 0.2  # larger steps oscillate between coupled rows; together these cover 96 % of the distance
_FLOOR = 1e-3  # smallest variance of a row, in squared distances between its values: certainty would never be revised
_SAME = 1e-6  # values closer than this share of the row's range differ by rounding only
_FIXED = 1e-7  # rows closer to certainty than this are fixed
_SETTLING = 4  # steps between searches for such rows
_LARGE = 3000  # with more unknowns there is also a search after the first step, since a factorisation costs more


def decode(
    precision: np.ndarray,
    solution: np.ndarray,
    candidates: Float[np.ndarray, "N C p"],
    log_prior: Float[np.ndarray, "N C"],
) -> Float[np.ndarray, "N C"]:
    """Posterior probabilities `(N, C)` of the candidates of every row.

    Args:
        precision: `(N * p, N * p)`, of the solution's noise.
        solution: `(N * p,)` noisy amplitudes.
        candidates: `(N, C, p)` amplitudes of the legal values.
        log_prior: `(N, C)`, minus infinity for padding.
    """
    n, _, p = candidates.shape
    floor = floor_of(candidates, log_prior)
    probability = normalised(log_prior)
    mean, covariance = moments_of(probability, candidates, floor)
    site = np.linalg.inv(covariance)  # (N, p, p)
    shift = np.einsum("npq,nq->np", site, mean)
    field = (precision @ solution).reshape(n, p)
    active = np.arange(n)
    for step in range(STEPS):
        rows = candidates[active], log_prior[active], floor[active]
        new_site, new_shift, new_probability = _step(precision, field, site[active], shift[active], *rows)
        probability[active] = new_probability
        site[active] += DAMPING * (new_site - site[active])
        shift[active] += DAMPING * (new_shift - shift[active])
        if step % _SETTLING == _SETTLING - 1 or (step == 0 and n * p > _LARGE):
            open_ = new_probability.max(axis=1) < 1 - _FIXED
            if not open_.any():
                break
            values = candidates[active, new_probability.argmax(axis=1)]
            precision, field = _settle(precision, field, open_, values)
            active = active[open_]
    return probability


def _step(
    precision: np.ndarray,
    field: np.ndarray,
    site: np.ndarray,
    shift: np.ndarray,
    candidates: np.ndarray,
    log_prior: np.ndarray,
    floor: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """New sites, `(N, p, p)` and `(N, p)`, and the candidates' probabilities given the other rows' sites."""
    n, p = field.shape
    joint = np.array(precision)
    positions = np.arange(n)[:, None] * p + np.arange(p)
    joint[positions[:, :, None], positions[:, None, :]] += site
    root = inverse_root(joint)
    mean = (root @ (root.T @ (field + shift).ravel())).reshape(n, p)
    root = root.reshape(n, p, n * p)
    marginal = np.linalg.inv(np.einsum("npm,nqm->npq", root, root))
    cavity = marginal - site
    cavity_shift = np.einsum("npq,nq->np", marginal, mean) - shift
    energy = (
        np.einsum("ncp,np->nc", candidates, cavity_shift)
        - 0.5 * np.einsum("ncp,npq,ncq->nc", candidates, cavity, candidates)
        + log_prior
    )
    result = normalised(energy)
    tilted_mean, tilted_covariance = moments_of(result, candidates, floor)
    tilted = np.linalg.inv(tilted_covariance)
    new_site, new_shift = tilted - cavity, np.einsum("npq,nq->np", tilted, tilted_mean) - cavity_shift
    # An improper site does not change.
    improper = np.linalg.eigvalsh(new_site)[:, 0] <= 0
    new_site[improper], new_shift[improper] = site[improper], shift[improper]
    return new_site, new_shift, result


def inverse_root(precision: Float[np.ndarray, "M M"]) -> np.ndarray:
    """The upper triangular R with `precision^-1 = R R'`. The array `precision (M, M)` is overwritten."""
    # LAPACK works by columns: the transpose of a symmetric array in rows is the array itself, without a copy.
    factor, info = lapack.dpotrf(precision.T, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError("the information of the draws is not positive definite")
    return lapack.dtrtri(factor, lower=1, overwrite_c=1)[0].T


def _settle(
    precision: np.ndarray, field: np.ndarray, open_: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Precision and field of the open rows, given the values `(N, p)` of the others."""
    p = field.shape[1]
    is_open = np.repeat(open_, p)
    shifted = field.ravel()[is_open] - precision[np.ix_(is_open, ~is_open)] @ values.ravel()[~is_open]
    return precision[np.ix_(is_open, is_open)], shifted.reshape(-1, p)


def normalised(energy: np.ndarray) -> np.ndarray:
    """Probabilities `(N, C)` proportional to `exp(energy)` in each row."""
    prob = np.exp(energy - energy.max(axis=1, keepdims=True))
    return prob / prob.sum(axis=1, keepdims=True)


def moments_of(prob: np.ndarray, candidates: np.ndarray, floor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means `(N, p)` and covariances `(N, p, p)` of the candidates, plus `floor`."""
    mean = np.einsum("nc,ncp->np", prob, candidates)
    centred = candidates - mean[:, None, :]
    cov = np.einsum("nc,ncp,ncq->npq", prob, centred, centred)
    return mean, cov + floor


def floor_of(candidates: np.ndarray, log_prior: np.ndarray) -> Float[np.ndarray, "N p p"]:
    """Diagonal matrices `(N, p, p)`: a small multiple of the squared spacing of the candidates in each direction."""
    n, _, p = candidates.shape
    result = np.zeros((n, p, p))
    for j in range(p):
        values = np.where(np.isfinite(log_prior), candidates[:, :, j], np.nan)
        ordered = np.sort(values, axis=1)
        gaps = np.diff(ordered, axis=1)
        range_ = np.nanmax(ordered, axis=1, keepdims=True) - ordered[:, :1]
        gaps = np.where(gaps > np.maximum(_SAME * range_, 1e-9), gaps, np.inf)
        smallest = gaps.min(axis=1)
        result[:, j, j] = _FLOOR * np.where(np.isfinite(smallest), smallest, 1.0) ** 2
    return result


# Expectation propagation over the legal values of rows, with a precision that is a sum of layers.
#
# This is `decode` for rows with one feature. The variances of the rows given the sites are approximate
# (`blocks.Blocks.inverse`), and the means are exact. At the end, the probabilities of some rows are compared with those
# from exact variances.

_SETTLED = 1e-3  # largest last change of a probability
_RESIDUAL = 1e-7  # relative residual of the means
_OFF_VARIANCE = 0.02  # largest difference of a probability with the exact variance


def decode_layers(
    precision: Blocks,
    scale: float,
    common: "csr_array",
    solution: Float[np.ndarray, " N"],
    candidates: Float[np.ndarray, "N C"],
    log_prior: Float[np.ndarray, "N C"],
) -> Float[np.ndarray, "N C"]:
    """Posterior probabilities `(N, C)` of the candidates of every row.

    Args:
        precision, scale: `scale * precision` is the precision of the solution's noise.
        common: as in `Solver`.
        solution: `(N,)` noisy amplitudes.
        candidates: `(N, C)` amplitudes of the legal values.
        log_prior: `(N, C)`, minus infinity for padding.

    Raises:
        NotSolved: the probabilities differ from those with exact variances.
    """
    amplitudes = candidates[:, :, None]
    floor = floor_of(amplitudes, log_prior)

    def moments(probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = moments_of(probability, amplitudes, floor)
        return mean[:, 0], covariance[:, 0, 0]

    # Sites and precisions are divided by the scale, so that the layers do not change.
    result = normalised(log_prior)
    mean, variance = moments(result)
    site, field = 1 / (variance * scale), precision @ solution
    shift, centre, start = site * mean, solution, None
    step = 0
    while True:
        inverse = precision.inverse(site, start)
        start = inverse.sites
        solver = Solver(precision, inverse, common, site)
        centre = solver(field + shift, centre, _RESIDUAL)
        cavity = np.maximum(1 / inverse.variance - site, 0.0)
        cavity_shift = centre / inverse.variance - shift
        previous, result = result, _tilted(cavity, cavity_shift, scale, candidates, log_prior)
        if step == STEPS - 1 or np.abs(result - previous).max() < _SETTLED:
            break
        mean, variance = moments(result)
        new = 1 / (variance * scale) - cavity
        proper = new > 0  # an improper site does not change
        step_size = DAMPING * proper
        shift = shift + step_size * (mean / (variance * scale) - cavity_shift - shift)
        site = site + step_size * (new - site)
        step += 1
    sample = evenly(len(candidates), _CHECKED)
    ones = np.zeros((len(candidates), len(sample)))
    ones[sample, np.arange(len(sample))] = 1.0
    exact = solver(ones, residual=_RESIDUAL)[sample, np.arange(len(sample))]
    cavity, cavity_shift = np.maximum(1 / exact - site[sample], 0.0), centre[sample] / exact - shift[sample]
    checked = _tilted(cavity, cavity_shift, scale, candidates[sample], log_prior[sample])
    if not np.abs(checked - result[sample]).max() <= _OFF_VARIANCE:
        raise NotSolved
    return result


def _tilted(
    cavity: np.ndarray, shift: np.ndarray, scale: float, candidates: np.ndarray, log_prior: np.ndarray
) -> np.ndarray:
    """Probabilities of the candidates of each row given the sites of all other rows."""
    gain = candidates * shift[:, None] - 0.5 * candidates**2 * cavity[:, None]
    return normalised(scale * gain + log_prior)


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


# Rival tables of two-valued rows: other tables that are about as likely as the decoded one.
#
# If two persons swap their answers to two items, all sums stay the same. Each of these four rows is then certain given
# the other three. Expectation propagation revises one row at a time, so it states probabilities near one both for such
# a table and for its rival. The search here flips rows one after another, the most likely first (Kernighan and Lin
# 1970). The probability of the best rival is then subtracted from the rows in which it differs.

_DEPTH, _BRANCHES = 4, 3  # consecutive flips (a swap has four), and alternatives for the second one
_SWEEPS = 3  # largest number of sweeps over all rows
_BETTER = 1e-6  # smallest gain of a better table: less is rounding
_CERTAIN = 0.9  # probability above which a value counts as certain


class BinaryTable:
    """A table of two-valued rows with the gains in log probability of flipping them, `(N,)`."""

    def __init__(
        self, precision: Blocks, scale: float, solution: np.ndarray, candidates: np.ndarray, log_prior: np.ndarray
    ) -> None:
        self.precision, self.scale = precision, scale
        self.solution, self.candidates = solution, candidates
        self.prior = log_prior[:, 1] - log_prior[:, 0]
        self.places = precision.places()
        self.visited = np.zeros(len(solution), bool)  # rows of the current path

    def start(self, chosen: Int[np.ndarray, " N"]) -> None:
        """Start from a table with `chosen (N,)` values, zero or one."""
        self.chosen = chosen.copy()
        value = np.take_along_axis(self.candidates, chosen[:, None], axis=1)[:, 0]
        sign = 1 - 2 * chosen
        self.move = sign * (self.candidates[:, 1] - self.candidates[:, 0])
        cost = 0.5 * self.scale * self.precision.diagonals().sum(axis=0) * self.move**2
        self.gains = self.move * (self.scale * (self.precision @ (self.solution - value))) + sign * self.prior - cost

    def flip(self, row: int) -> np.ndarray:
        """Flip a row. Returns the rows whose gains change."""
        gain, move, changed = -self.gains[row], self.scale * self.move[row], []
        for rows, values in self.precision.column(row, self.places):
            self.gains[rows] -= move * self.move[rows] * values
            changed.append(rows)
        self.gains[row], self.move[row], self.chosen[row] = gain, -self.move[row], 1 - self.chosen[row]
        return np.concatenate(changed)

    def paths(self, row: int) -> list[tuple[float, list[int]]]:
        """Best gains on paths of flips that start with a row, and the rows of each path. The table does not change.

        Consecutive rows of a path share a coordinate.
        """
        first_gain = float(self.gains[row])
        neighbours = self.flip(row)
        neighbours = neighbours[neighbours != row]
        result = [(first_gain, [row])]
        for second in neighbours[np.argsort(-self.gains[neighbours])[:_BRANCHES]]:
            step, path = int(second), [row]
            total, best = first_gain, (-np.inf, [row])
            while True:
                total += float(self.gains[step])
                path.append(step)
                if total > best[0]:
                    best = total, list(path)
                if len(path) == _DEPTH:
                    break
                neighbours = self.flip(step)
                self.visited[path] = True
                gain = np.where(self.visited[neighbours], -np.inf, self.gains[neighbours])
                self.visited[path] = False
                step = int(neighbours[gain.argmax()])
            result.append(best)
            for flipped in path[1:-1]:
                self.flip(flipped)
        self.flip(row)
        return result


def odds_against(table: BinaryTable, chosen: Int[np.ndarray, " N"]) -> tuple[np.ndarray, np.ndarray]:
    """The best table found, `(N,)`, and for each row the odds (at most one) of the best table with another value.

    Args:
        chosen: `(N,)` the first table, zero or one.
    """
    table.start(chosen)
    log_odds = np.zeros(len(chosen))
    for _ in range(_SWEEPS):
        better = False
        log_odds[:] = -np.inf
        for row in np.argsort(-table.gains):
            paths = table.paths(int(row))
            gain, path = max(paths)
            if gain > _BETTER:
                better = True
                for flipped in path:
                    table.flip(flipped)
            for gain, path in paths:
                log_odds[path] = np.maximum(log_odds[path], min(gain, 0.0))
        if not better:
            break
    return table.chosen, np.exp(log_odds)


def with_rival_tables(table: BinaryTable, probability: np.ndarray) -> Float[np.ndarray, "N 2"]:
    """Probabilities `(N, 2)`, lowered by the probabilities of rival tables.

    If the best table has another value of a row, both values get one half. The value of the best table comes first if
    the decoded one counted as certain.
    """
    chosen, rows = probability.argmax(axis=1), np.arange(len(probability))
    best, odds = odds_against(table, chosen)
    certainty = probability[rows, chosen]
    differs = best != chosen
    value = np.where(differs & (certainty > _CERTAIN), best, chosen)
    # Just above a half, so that the value is still the more probable one.
    stated = np.maximum(np.minimum(certainty, np.where(differs, 0.0, 1 / (1 + odds))), 0.5 + 1e-9)
    result = np.empty_like(probability)
    result[rows, value], result[rows, 1 - value] = stated, 1 - stated
    return result
