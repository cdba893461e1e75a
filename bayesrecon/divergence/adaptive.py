"""The mean embedding of one release: in closed form if the model has one, and otherwise by dense or sparse passes,
whichever cost less for the records."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Array, Stored
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.definite import largest
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
    Stretch,
    distinct,
)
from bayesrecon.divergence.metric_view import CHUNK, AtomPart, ReleaseView
from bayesrecon.divergence.metrics import fold_factors, metric_factor
from bayesrecon.divergence.score import along_coordinates, gradients, prior_score, touches
from bayesrecon.divergence.sums import (
    KernelSums,
    ValueSums,
    compiled_on_devices,
    covariance,
    kernels,
    numbers,
    plus,
    summed,
)
from bayesrecon.divergence.touched import Touched, coloured, pays
from bayesrecon.model import Model, Progress, Records
from bayesrecon.releases import Release
from bayesrecon.running.engine import block_entries, on_host, placed, pooled, spread

# The kernel mean embedding where a record moves with few of the parameters: a county's own and those all share.
#
# With `D_a(t, m)` the derivative of record m's log likelihood in the coordinate `i_a(m)`, its a-th, the kernel is
#
#     k(m, n) = sum_ab Sigma[i_a(m), i_b(n)]  E_t[ D_a(t, m) D_b(t, n) ],
#
# a product of two tall matrices for every pair of coordinates of a record in place of one for every coordinate of
# the posterior. Coordinates that no record touches together share a sweep (Curtis, Powell and Reid 1974).


# Kernels of records that move with few of the parameters: products of their derivatives, weighted with Sigma.


def own_kernel(slopes: Array, index: Array, sigma: Array) -> Array:
    """The kernel `(M, M)` of records with themselves. The product of two colours is used for both orders."""
    i, j = np.tril_indices(len(index))
    pairs = np.stack([i, j], axis=1)
    diagonal, off_diagonal = (
        kernel_between(slopes, slopes, index, index, sigma, pairs[chosen]) for chosen in (i == j, i > j)
    )
    return diagonal + off_diagonal + off_diagonal.T


def kernel_between(x: Array, y: Array, rows: Array, columns: Array, sigma: Array, pairs: np.ndarray) -> Array:
    """`sum_ab Sigma[rows_a, columns_b] x_a' y_b` over pairs of colours, `x (q, C, M)`, `y (p, C, N)`."""
    total = np.zeros((x.shape[2], y.shape[2]))
    if not isinstance(x, np.ndarray):
        return jax.lax.scan(partial(_added, x, y, rows, columns, sigma), jnp.asarray(total), jnp.asarray(pairs))[0]
    for a, b in pairs:
        row, column = _common(np.asarray(rows[a])), _common(np.asarray(columns[b]))
        if isinstance(row, int) or isinstance(column, int):  # a product of vectors needs no entry for every pair
            share = np.atleast_1d(sigma[row, column])
            left, right = (x[a] * share, y[b]) if isinstance(column, int) else (x[a], y[b] * share)
            total += left.T @ right
        else:
            part = x[a].T @ y[b]
            part *= sigma.take(column, axis=1).take(row, axis=0)
            total += part
    return total


def _common(coordinates: np.ndarray) -> int | np.ndarray:
    """The coordinate that all records with this colour share, or else those of each."""
    present = coordinates[coordinates >= 0]
    return int(present[0]) if present.size and (present == present[0]).all() else coordinates


def _added(
    x: Array, y: Array, rows: Array, columns: Array, sigma: Array, total: Array, pair: Array
) -> tuple[Array, None]:
    a, b = pair
    return total + (x[a].T @ y[b]) * sigma[rows[a][:, None], columns[b]], None


_FEWEST = 3  # coordinates of a record, with fewer parameters than pay for which it is not worth a look
_FIRST = 8  # records that are looked at first
_EXAMINED = 8  # atoms at which gradients are looked at for coordinates that are touched
_REMEMBERED = 8  # sets of records: a basis, its probes and those before them
_SAME = 1e-10  # of its terms, to which a sum of a few derivatives is kept in double precision
_CONDITION = 1e4  # of the records, from which the kernel of combinations of them loses too many digits


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Block:
    """A block of atoms with the derivatives of the records' log likelihoods there.

    Attributes:
        theta: `(C, d)`.
        weights: `(C,)`.
        sigma: `(d, d)`.
        value: log likelihoods, `(C, M)`.
        slopes: derivatives along the colours, `(q, C, M)`.
        lap: `tr(Sigma Hess l)`, `(C, M)`; zero in sweeps without second derivatives.
    """

    theta: Array
    weights: Array
    sigma: Array
    value: Array
    slopes: Array
    lap: Array


@dataclass(frozen=True)
class SparseEmbedding(ReleaseView):
    """`MeanEmbedding` of a release on records that touch few parameters each: those for which `touched` is not None."""

    _cache: dict[int, tuple[Records, Touched | None]] = field(default_factory=dict, init=False, repr=False)

    def touched(self, records: Records) -> Touched | None:
        """What the records touch; None where that is so much that dense products are cheaper."""
        if id(records) not in self._cache:
            if len(self._cache) > _REMEMBERED:
                self._cache.clear()
            self._cache[id(records)] = records, self._touched_by(records)  # holding them keeps their identity
        return self._cache[id(records)][1]

    def scores(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "rows M"]:
        touched = self._of(records)
        inputs, rows = self._inputs(touched), []
        for part in self._parts(self._chunk(records), atoms):
            for block, n in inputs.sweeps(self.release.model, part, inputs.touched, second=False):
                weights, slopes = jax.device_get((block.weights, block.slopes))
                slopes = slopes[:, :n] * np.sqrt(weights[:n])[:, None]
                phi = sum(s[:, None] * part.metric.T[:, i] for i, s in zip(touched.index, slopes, strict=True))
                rows.append(np.reshape(phi, (-1, touched.size)))
        return np.concatenate(rows)

    def pieces(self, records: Records, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As in `Separable`, for records for which `touched` is not None."""
        touched = self._of(records)
        inputs, derivatives = self._inputs(touched), []
        for part in self._parts(chunk_of(touched), atoms):
            for block, n in inputs.sweeps(self.release.model, part, inputs.touched, second=False):
                weights, slopes = jax.device_get((block.weights, block.slopes))
                derivatives.append(slopes[:, :n] * np.sqrt(weights[:n])[:, None])
        return np.asarray(touched.index), np.concatenate(derivatives, axis=1)

    def informations(self, records: Records, atoms: Int[np.ndarray, " A"]) -> Float[np.ndarray, "A M"]:
        """As in `OneRelease`, at these atoms, in the one metric, and times their weights."""
        index, slopes = self.pieces(records, atoms)
        sigma, slopes = self.metric @ self.metric.T, np.clip(slopes, -1e150, 1e150)
        norm = np.zeros(slopes.shape[1:])
        for (i, first), (j, second) in product(zip(index, slopes, strict=True), repeat=2):
            norm += sigma[i, j] * first * second
        return norm / self.metric.shape[1]

    def slopes(self, records: Records, h: Array | Stored, j: Int[np.ndarray, " P"]) -> Float[np.ndarray, "M P"]:
        """`sum_t a_t h_tp d_j(p) l(theta_t, z)` of records, `(M, P)`."""
        touched = self._of(records)
        inputs, values, start = self._inputs(touched), np.zeros((touched.size, len(j))), 0
        columns_of = [(coordinate, np.flatnonzero(j == coordinate)) for coordinate in np.unique(j)]
        for part in replace(self, folds=None)._parts(chunk_of(touched)):
            for block, n in inputs.sweeps(self.release.model, part, inputs.touched, second=False):
                weights, slopes = jax.device_get((block.weights, block.slopes))
                scaled = np.asarray(h[start : start + n]) * weights[:n, None]
                for index, slope in zip(touched.index, slopes[:, :n], strict=True):
                    for coordinate, columns in columns_of:
                        rows = np.flatnonzero(index == coordinate)
                        if rows.size:
                            values[np.ix_(rows, columns)] += slope[:, rows].T @ scaled[:, columns]
                start += n
        return values

    def moments(
        self,
        basis: Basis,
        atoms: Int[np.ndarray, " A"] | None = None,
        label: str = "summing over the draws",
        stretches: int = 1,
    ) -> Moments:
        touched, a = self._of(basis.records), np.asarray(basis.coefficients)
        parts = self._parts(chunk_of(touched), atoms, stretches)
        sums, value = kernels(self._pass(_moments_of, self._inputs(touched, a), parts, label))
        if not largest(np.sum([np.diag(gram) for _, (gram, _) in sums], axis=0), a) <= _CONDITION:
            raise LostDigits
        stretched = [Stretch(share, np.asarray(gram), np.asarray(target), a) for share, (gram, target) in sums]
        return Moments.of_stretches(stretched, value)

    def cross(
        self, basis: Basis, probes: Records, atoms: Int[np.ndarray, " A"] | None = None
    ) -> Float[np.ndarray, "Q r"]:
        anchors, others = self._of(basis.records), self._of(probes)
        parts = self._parts(min(chunk_of(anchors), chunk_of(others)), atoms)
        passed = self._pass(_cross_of, self._inputs(anchors, others=others), parts, "comparing records")
        return jax.device_get(summed(products for _, products in passed)) @ basis.coefficients

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        touched, a = self._of(basis.records), basis.coefficients
        return self._covariance(self._inputs(touched, a, fitted=a @ y), self._parts(chunk_of(touched)))

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        touched = self._of(basis.records)
        inputs = self._inputs(touched, basis.coefficients, normal=self._normal[1:])
        return self._covariance(inputs, self._noise_parts(chunk_of(touched), simulated))

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> Influence:
        touched, a = self._of(basis.records), basis.coefficients
        inputs = self._inputs(touched, a @ b, fitted=a @ y)
        rows, scores = self._series(b.shape[1])
        for _, (series, score) in self._pass(
            _influence_of, inputs, self._parts(chunk_of(touched)), "estimating errors"
        ):
            rows.add(series)
            scores.add(score)
        return rows.done(), scores.done()

    def _covariance(self, inputs: "_PassInputs", parts: list[AtomPart]) -> np.ndarray:
        return covariance(self._pass(_noise_of, inputs, parts, "estimating noise"))

    def _inputs(
        self,
        touched: Touched,
        functions: Array | None = None,
        *,
        fitted: Array | None = None,
        normal: tuple[np.ndarray, np.ndarray] | None = None,
        others: Touched | None = None,
    ) -> "_PassInputs":
        """The inputs of a pass, on the devices in use."""
        inputs = _PassInputs(touched, self._sigmas, self.temperature, functions, fitted, normal, others)
        return inputs if on_host() or pooled() else placed(inputs)

    @cached_property
    def _sigmas(self) -> tuple[np.ndarray, ...]:
        """Sigma `(d, d)` of every fold."""
        return tuple(factor @ factor.T for factor in (self.metric[None] if self.folds is None else self.folds))

    def _of(self, records: Records) -> Touched:
        touched = self.touched(records)
        assert touched is not None, "these records touch too much for sparse passes"
        return touched

    def _touched_by(self, records: Records) -> Touched | None:
        model, theta = self.release.model, self._theta
        if not self.temperature or not pays(_FEWEST, theta.shape[1]):
            return None
        first = {k: v[:_FIRST] for k, v in records.items()}
        if not _few(np.asarray(gradients(model, theta[:1][0], first)) != 0):  # a few records are usually enough
            return None
        pattern = np.asarray(touches(model, theta[:1][0], records)).T
        if not _few(pattern):
            return None
        examined = theta[evenly(len(theta), _EXAMINED)]
        touched = _by_colours(records, pattern)
        if pays(len(touched.index), theta.shape[1]) and _accounts_for(model, touched, examined):
            return touched
        for t in examined:
            pattern = pattern | (np.asarray(gradients(model, t, records)) != 0)
        touched = _by_colours(records, pattern)
        return touched if pays(len(touched.index), theta.shape[1]) else None


def _few(pattern: np.ndarray) -> bool:
    """Whether no record touches too many coordinates, `(M, d)`."""
    return pays(pattern.sum(axis=1).max(), pattern.shape[1])


def _by_colours(records: Records, pattern: np.ndarray) -> Touched:
    """The coloured coordinates of records, from a pattern `(M, d)` of those that they touch."""
    colour, index = coloured(pattern)
    return Touched(records, index, (colour == np.arange(len(index))[:, None]).astype(float))


def _accounts_for(model: Model, touched: Touched, theta: np.ndarray) -> bool:
    """Whether the log likelihoods depend on no other coordinates at these atoms.

    Then the derivative along a random direction is the sum of the derivatives along the colours, each times the
    direction's entry at the record's coordinate.
    """
    direction = np.random.default_rng(0).normal(size=(1, theta.shape[1]))
    axes = np.concatenate([touched.colours, direction])
    slopes = np.asarray(along_coordinates(model, theta, touched.records, axes, *_no_pairs(touched.index))[1])
    with np.errstate(over="ignore", invalid="ignore"):
        terms = slopes[:-1] * np.append(direction, 0.0)[touched.index][:, None]
        return bool((abs(slopes[-1] - terms.sum(axis=0)) <= _SAME * abs(terms).sum(axis=0)).all())


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _PassInputs:
    """Inputs that all parts of a pass share.

    Attributes:
        touched: records and their coordinates.
        sigmas: Sigma `(d, d)` of each fold.
        temperature: tau.
        functions: `(M, r)`, coefficients of the functions that are summed; None if the pass has none.
        fitted: `(M,)`, weights of the fitted data.
        normal: centre and precision of a normal distribution whose score replaces that of the fitted data; or None.
        others: records whose inner products with the records are computed.
    """

    touched: Touched
    sigmas: tuple[Array, ...]
    temperature: float = field(metadata={"static": True})
    functions: Array | None = None
    fitted: Array | None = None
    normal: tuple[Array, Array] | None = None
    others: Touched | None = None

    def sweeps(
        self, model: Model, part: AtomPart, touched: Touched, second: bool = True
    ) -> Iterator[tuple[_Block, int]]:
        """Derivatives at the atoms of a part, block by block, and the number of atoms without padding."""
        sigma = self.sigmas[part.fold]
        pairs, share = _shares(touched.index, sigma) if second else _no_pairs(touched.index)
        for _, theta, weights, n, _ in part.blocks():
            t = spread(theta)
            derivatives = along_coordinates(model, t, touched.records, touched.colours, pairs, share)
            if on_host():
                value, slopes, lap = map(np.asarray, derivatives)
                yield _Block(theta[:n], weights[:n], sigma, value[:n], slopes[:, :n], lap[:n]), n
            else:
                yield _Block(t, spread(weights), sigma, *derivatives), n

    def scores(self, model: Model, block: _Block, axes: Array) -> Array:
        """Scores `(C, d)` of the posterior of the fitted records, or of the normal distribution in its place."""
        prior = None if self.normal is not None else _prior(model, self, block, axes)
        return _score(self, block, prior)


def _prior(model: Model, inputs: _PassInputs, block: _Block, axes: Array) -> Array:
    """Scores `(C, d)` of prior and transforms."""
    score = prior_score(model, axes, block.theta, inputs.temperature)
    return np.asarray(score) if on_host() else score


@compiled_on_devices
def _score(inputs: _PassInputs, block: _Block, prior: Array | None) -> Array:
    if inputs.normal is not None:
        centre, precision = inputs.normal
        return -(block.theta - centre) @ precision
    assert prior is not None
    assert inputs.fitted is not None
    return prior + inputs.touched.gather(block.slopes * inputs.fitted)


def _residual(inputs: _PassInputs, block: _Block, score: Array) -> Array:
    """`<phi_m, score> + tau tr(Sigma Hess l_m)`, `(C, M)`."""
    scaled_score = score @ block.sigma
    pairs = zip(inputs.touched.index, block.slopes, strict=True)
    return sum((slope * scaled_score[:, column] for column, slope in pairs), inputs.temperature * block.lap)


def _moments_of(model: Model, inputs: _PassInputs, part: AtomPart) -> tuple[KernelSums, ValueSums]:
    shift: Array | None = None
    sums: tuple[Array, Array, Array, Array] | None = None
    axes = numbers(np.eye(part.metric.shape[0]))
    for block, _ in inputs.sweeps(model, part, inputs.touched):
        # One atom's values as a shift keep the covariance of large log likelihoods accurate.
        shift = _shift_of(inputs, block) if shift is None else shift
        sums = plus(sums, _moments(inputs, block, _prior(model, inputs, block, axes), shift))
    assert sums is not None
    assert shift is not None
    gram, target, mean, square = sums
    return (gram, target), (numbers(part.weights.sum()), shift, mean, square)


@compiled_on_devices
def _shift_of(inputs: _PassInputs, block: _Block) -> Array:
    assert inputs.functions is not None
    return block.value[0] @ inputs.functions


@compiled_on_devices
def _moments(inputs: _PassInputs, block: _Block, prior: Array, shift: Array) -> tuple[Array, Array, Array, Array]:
    assert inputs.functions is not None
    heavy, index = block.weights[:, None], inputs.touched.index
    value = block.value @ inputs.functions - shift
    gram = own_kernel(block.slopes * heavy**0.5, index, block.sigma)
    target = -(block.weights @ _residual(inputs, block, prior))
    return gram, target, block.weights @ value, (value * heavy).T @ value


def _cross_of(model: Model, inputs: _PassInputs, part: AtomPart) -> Array:
    assert inputs.others is not None
    sweeps = (inputs.sweeps(model, part, touched, second=False) for touched in (inputs.others, inputs.touched))
    return summed(_cross(inputs, first, second) for (first, _), (second, _) in zip(*sweeps, strict=True))


@compiled_on_devices
def _cross(inputs: _PassInputs, first: _Block, second: _Block) -> Array:
    assert inputs.others is not None
    rows, columns = inputs.others.index, inputs.touched.index
    pairs = np.indices((len(rows), len(columns))).reshape(2, -1).T
    return kernel_between(first.slopes * first.weights[:, None], second.slopes, rows, columns, first.sigma, pairs)


def _noise_of(model: Model, inputs: _PassInputs, part: AtomPart) -> tuple[Array, Array]:
    axes = numbers(np.eye(part.metric.shape[0]))
    blocks = (block for block, _ in inputs.sweeps(model, part, inputs.touched))
    return summed(_noise(inputs, block, inputs.scores(model, block, axes)) for block in blocks)


@compiled_on_devices
def _noise(inputs: _PassInputs, block: _Block, score: Array) -> tuple[Array, Array]:
    assert inputs.functions is not None
    residual = _residual(inputs, block, score) @ inputs.functions
    return block.weights @ residual, (residual * block.weights[:, None]).T @ residual


def _influence_of(model: Model, inputs: _PassInputs, part: AtomPart) -> tuple[np.ndarray, np.ndarray]:
    rows, scores = [], []
    axes = numbers(np.eye(part.metric.shape[0]))
    for block, n in inputs.sweeps(model, part, inputs.touched):
        score = inputs.scores(model, block, axes)
        row, score = jax.device_get((_along(inputs, block, score), score))
        rows.append(row[:n])
        scores.append(score[:n])
    return np.concatenate(rows), np.concatenate(scores)


@compiled_on_devices
def _along(inputs: _PassInputs, block: _Block, score: Array) -> Array:
    assert inputs.functions is not None
    return _residual(inputs, block, score) @ inputs.functions


@compiled_on_devices
def _shares(index: Array, sigma: Array) -> tuple[Array, Array]:
    """The pairs of colours, and the weight of each record's mixed derivative, from the entries of Sigma."""
    i, j = np.triu_indices(len(index))
    return np.stack([i, j], axis=1), sigma[index[i], index[j]] * np.where(i == j, 1.0, 2.0)[:, None]


@compiled_on_devices
def _no_pairs(index: Array) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((0, 2), int), np.zeros((0, index.shape[1]))


def chunk_of(touched: Touched) -> int:
    """Atoms per block."""
    size = max(1, touched.index.size)
    return 2 ** int(np.clip(np.log2(block_entries(CHUNK) / size), 4, 11 if on_host() else 16))


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
        which, different = distinct(probes)
        try:
            found = self._passes(basis, different).cross(basis, different, atoms)
        except LostDigits:
            found = self.dense.cross(basis, different, atoms)
        return found if which is None else found[which]

    def noise(self, basis: Basis, y: Float[np.ndarray, " r"]) -> Float[np.ndarray, "r r"]:
        return self._passes(basis).noise(basis, y)

    def normal_noise(self, basis: Basis, *, simulated: bool = False) -> Float[np.ndarray, "r r"]:
        return self._passes(basis).normal_noise(basis, simulated=simulated)

    def influence(self, basis: Basis, y: Float[np.ndarray, " r"], b: Float[np.ndarray, "r S"]) -> Influence:
        return self._passes(basis).influence(basis, y, b)


def embedding_of(view: Release, metric: str, progress: Progress | None = None) -> AdaptiveEmbedding:
    """The embedding of a release, in the coordinates of the view."""
    return AdaptiveEmbedding(view, metric_factor(view, metric), progress, fold_factors(view, metric))
