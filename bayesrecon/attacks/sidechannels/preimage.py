"""Records as pre-images of their columns, that is of released values that depend on a single record.

There are two kinds of columns. For pointwise log likelihoods `c_t = l(theta_t, x) + rounding`, the fields of the record
are found by least squares. For posterior predictive draws `y_t ~ p(. | theta_t, x)`, the fields that are not simulated
are found by maximum likelihood. Both are Levenberg-Marquardt iterations, vectorised over records and starts, with
derivatives from JAX. Fields with finitely many values are enumerated. The best fit of all starts is returned. If
another record fits as well, the result is marked as ambiguous.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.metric_view import CHUNK
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Field, Model, Records

# Levenberg-Marquardt for many records at once, each with its own column.
#
# The free entries of a record are stacked, in units of their spread. Fields with finitely many values are fixed, with
# one descent for each of their combinations. Blocks have few different shapes, so that little is compiled.

_CANDIDATES = 64  # largest number of combinations of enumerated values
_LARGE = 1e24  # objective if the likelihood is not finite


@dataclass(frozen=True)
class EntryLayout:
    """The free entries of a record, stacked as `u (F,)` in units of their spread.

    Attributes:
        fields: `(name, shape)` of all fields.
        moved: names of the free fields.
    """

    fields: tuple[tuple[str, tuple[int, ...]], ...]
    moved: tuple[str, ...]

    def unpack(self, values: Array) -> Records:
        """Free fields from their stacked entries `(..., F)`."""
        parts, start = {}, 0
        for name, shape in self.fields:
            if name in self.moved:
                size = math.prod(shape)
                parts[name] = values[..., start : start + size].reshape(*values.shape[:-1], *shape)
                start += size
        return parts


class FreeEntries(NamedTuple):
    """Location, scale and bounds of the free entries, `(F,)` each. Bounds are in units of the scale."""

    centre: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    high: np.ndarray


@partial(jax.jit, static_argnames=("model", "layout", "likelihood"))
def _descend(
    model: Model,
    layout: EntryLayout,
    likelihood: bool,
    steps: Array,
    box: FreeEntries,
    theta: Array,
    columns: Array | Records,
    noise: Array,
    u: Array,
    fixed: Records,
) -> tuple[Array, Array, Array]:
    """Levenberg-Marquardt for a block: `columns, noise (B, T)`, `u (B, F)`, `fixed {field: (B, ...)}`.

    Returns `u`, the objective (half chi-squared, or minus the log likelihood) and the information matrices.
    """

    def values(u: Array, column: Array | Records, fix: Records) -> Array:
        record = {**fix, **layout.unpack(box.centre + box.scale * u)}
        if not likelihood:
            return jax.vmap(lambda t: model.log_lik(t, record))(theta)
        return jax.vmap(lambda t, simulated: model.log_lik(t, {**record, **simulated}))(theta, column)

    def pieces(u: Array, column: Array | Records, sd: Array, fix: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        prediction = values(u, column, fix)
        jacobian = jax.jacfwd(lambda w: values(w, column, fix))(u)  # (T, F)
        if likelihood:
            # The outer product of the scores is the information, as the draws were simulated from the model.
            return -prediction.sum(), -jacobian.sum(axis=0), jacobian.T @ jacobian
        assert not isinstance(column, dict)
        residual = (prediction - column) / sd
        scaled = jacobian / sd[:, None]
        return 0.5 * (residual**2).sum(), scaled.T @ residual, scaled.T @ scaled

    def cost(u: Array, column: Array | Records, sd: Array, fix: Records) -> jax.Array:
        prediction = values(u, column, fix)
        if likelihood:
            return -prediction.sum()
        assert not isinstance(column, dict)
        return 0.5 * (((prediction - column) / sd) ** 2).sum()

    def of_record(u: Array, column: Array | Records, sd: Array, fix: Records) -> tuple[Array, Array, Array]:
        def body(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
            u, value, damping, step = state
            _, slope, information = pieces(u, column, sd, fix)
            ridge = damping * jnp.diag(information) + 1e-30 * jnp.trace(information) + 1e-300
            move = jnp.linalg.solve(information + jnp.diag(ridge), slope)
            tried = jnp.clip(u - move, box.low, box.high)
            new = cost(tried, column, sd, fix)
            better = (new < value) & jnp.isfinite(new)
            converged = better & (value - new < 1e-12 * (1 + jnp.abs(new)))
            return (
                jnp.where(better, tried, u),
                jnp.where(better, new, value),
                jnp.where(better, jnp.maximum(damping / 8, 1e-12), jnp.minimum(damping * 6, 1e9)),
                jnp.where(converged | (damping > 1e8), steps, step + 1),
            )

        first = cost(u, column, sd, fix)
        start = (u, jnp.where(jnp.isfinite(first), first, _LARGE), jnp.asarray(1e-2), jnp.asarray(0))
        u, value, _, _ = jax.lax.while_loop(lambda s: s[3] < steps, body, start)
        return u, value, pieces(u, column, sd, fix)[2]

    return jax.vmap(of_record)(u, columns, noise, fixed)


class ReleasedColumns:
    """The columns of a release.

    Attributes:
        enumerated: names of the unknown fields with finitely many values.
        combinations: all combinations of their values.
        box: location, scale and bounds of the free entries.
    """

    def __init__(
        self,
        model: Model,
        theta: np.ndarray,
        columns: np.ndarray | Records,
        noise: np.ndarray,
        reference: Reference,
        likelihood: bool,
    ):
        simulated = tuple(columns) if likelihood else ()
        fields = reference.fields
        self.model, self.theta, self.columns, self.noise = model, theta, columns, noise
        self.likelihood = likelihood
        self.known = {k: fields[k].domain.typed(np.asarray(v, float)) for k, v in reference.known.items()}
        self.unknown = [name for name in fields if name not in self.known and name not in simulated]
        self.enumerated = [name for name in self.unknown if fields[name].domain.kind == "levels"]
        moved = tuple(name for name in self.unknown if name not in self.enumerated)
        self.combinations = _combinations({name: fields[name] for name in self.enumerated})
        self.layout = EntryLayout(tuple((name, spec.shape) for name, spec in fields.items()), moved)
        self.box = _box(reference, moved)

    def fixed(self, rows: np.ndarray, level: np.ndarray) -> Records:
        """Known and enumerated fields of the given rows."""
        known = {name: values[rows] for name, values in self.known.items()}
        return known | {name: np.array([c[name] for c in self.combinations])[level] for name in self.enumerated}

    def descend(
        self, u: np.ndarray, rows: np.ndarray, level: np.ndarray, draws: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Descend in blocks of one shape. The last block is filled up with copies."""
        width, theta = max(1, u.shape[1]), self.theta[draws]
        block = int(2 ** np.clip(np.log2(CHUNK / (len(draws) * (width + 2))), 0, 10))
        block = min(block, 2 ** int(len(u) - 1).bit_length())
        blocks: list[tuple[np.ndarray, ...]] = []
        for start in range(0, len(u), block):
            positions = np.minimum(np.arange(start, start + block), len(u) - 1)
            chosen = rows[positions]
            if isinstance(self.columns, dict):
                block_columns = {name: values[chosen][:, draws] for name, values in self.columns.items()}
            else:
                block_columns = self.columns[chosen][:, draws]
            fixed = self.fixed(chosen, level[positions])
            result = _descend(
                self.model,
                self.layout,
                self.likelihood,
                steps,
                self.box,
                theta,
                block_columns,
                self.noise[chosen][:, draws],
                u[positions],
                fixed,
            )
            blocks.append(tuple(np.asarray(part)[: len(u) - start] for part in result))
        u, cost, information = (np.concatenate(part) for part in zip(*blocks, strict=True))
        return u, cost, information


def _box(reference: Reference, moved: tuple[str, ...]) -> FreeEntries:
    parts: list[list[np.ndarray]] = [[], [], [], []]
    for name, spec in reference.fields.items():
        if name in moved:
            c = np.ravel(np.broadcast_to(reference.centre.get(name, 0.0), spec.shape)).astype(float)
            s = np.ravel(np.broadcast_to(reference.scale.get(name, 1.0), spec.shape)).astype(float)
            s = np.where(s > 0, s, 1.0)
            # Strictly inside an open end, where densities may be infinite.
            ends = ((spec.domain.low - c) / s + 1e-9, (spec.domain.high - c) / s - 1e-9)
            for part, value in zip(parts, (c, s, *ends), strict=True):
                part.append(value)
    return FreeEntries(*(np.concatenate(part) if part else np.zeros(0) for part in parts))


def _combinations(fields: Mapping[str, Field]) -> list[Records]:
    """All combinations of the levels of enumerated fields."""
    result: list[Records] = [{}]
    for name, spec in fields.items():
        levels = np.asarray(spec.domain.levels, spec.domain.dtype)
        size = int(np.prod(spec.shape, dtype=int))
        if len(result) * len(levels) ** size > _CANDIDATES:
            raise BayesreconError(
                f"field {name!r} has too many combinations of values to try ({len(levels)} levels, {size} entries)"
            )
        grids = np.stack(np.meshgrid(*[levels] * size, indexing="ij"), axis=-1).reshape(-1, *spec.shape)
        result = [{**combination, name: value} for combination in result for value in grids]
    return result


def errors_of(information: np.ndarray, inflate: np.ndarray) -> Float[np.ndarray, "N F"]:
    """Standard errors `(N, F)` in units of the scale; infinite if the entry is not determined."""
    if not information.shape[1]:
        return np.zeros(information.shape[:2])
    size = np.sqrt(np.maximum(np.einsum("nff->nf", information), 1e-300))
    scaled = information / size[:, :, None] / size[:, None, :]
    scaled = np.where(np.isfinite(scaled), scaled, 0.0)
    values, vectors = np.linalg.eigh(scaled)
    inverse = np.where(values > 1e-13, 1 / np.maximum(values, 1e-13), np.inf)
    with np.errstate(invalid="ignore"):
        variance = np.einsum("nfk,nk->nf", vectors**2, np.where(np.isinf(inverse), 1e300, inverse))
    return np.where(variance > 1e290, np.inf, np.sqrt(np.minimum(variance, 1e290)) / size * inflate[:, None])


IGNORED = 1e100
"""Standard deviation of a value that is ignored. The shapes stay the same, so that nothing is compiled again."""

_SEARCH = 96  # number of draws on which starts are compared
_STEPS, _POLISH = 30, 30  # largest number of steps of all starts on these draws, and of the best two on all draws
_LOST = 4.0  # columns with a larger misfit are tried again
_APART = 0.05  # end points of descents are different if they are farther apart, in units of a field's spread
_SAME = 9.0  # largest difference of chi-squared between two solutions that fit equally well


@dataclass(frozen=True, eq=False)
class PreImages:
    """Recovered records, one per column.

    Attributes:
        records: `{field: (N, *shape)}`.
        se: `{field: (N, *shape)}` standard errors. They are infinite if the column does not determine the field, and
            zero for enumerated fields.
        misfit: `(N,)` root mean squared residual of log likelihoods, in units of the noise.
        ambiguous: `(N,)` whether another record fits the column equally well.
    """

    records: Records
    se: Records
    misfit: Float[np.ndarray, " N"]
    ambiguous: Bool[np.ndarray, " N"]

    def __len__(self) -> int:
        return len(self.misfit)


def invert_columns(
    model: Model,
    theta: Float[np.ndarray, "T d"],
    columns: np.ndarray | Records,
    noise: Float[np.ndarray, "N T"],
    reference: Reference,
    rng: np.random.Generator,
    *,
    likelihood: bool = False,
    starts: int = 6,
) -> PreImages:
    """Solve for the records behind columns.

    Args:
        theta: `(T, d)` the draws.
        columns: pointwise log likelihoods `(N, T)`, or simulated fields `{field: (N, T, *shape)}`.
        noise: `(N, T)` standard deviations of the log likelihoods' rounding errors. Ones for simulated fields.
        reference: the fields, the known ones row by row, and the distribution of the unknown ones.
        likelihood: whether the columns are simulated fields.
        starts: random starts per record and combination of enumerated fields. Columns that do not fit are tried again
            with five times as many starts, which are spread more widely.
    """
    problem = ReleasedColumns(model, theta, columns, noise, reference, likelihood)
    all_columns = np.arange(len(noise))
    result = _solve(problem, all_columns, starts, 1.0, rng)
    misfitting = np.flatnonzero(~(result.misfit < _LOST))
    if misfitting.size and not likelihood:
        again = _solve(problem, misfitting, 5 * starts, 3.0, rng)
        better = again.misfit < result.misfit[misfitting]
        replaced = misfitting[better]
        for old, new in ((result.records, again.records), (result.se, again.se)):
            for name in old:
                old[name][replaced] = new[name][better]
        result.misfit[replaced], result.ambiguous[replaced] = again.misfit[better], again.ambiguous[better]
    return result


def standard_errors(
    model: Model,
    theta: Float[np.ndarray, "T d"],
    solution: PreImages,
    chosen: Int[np.ndarray, " B"],
    noise: Float[np.ndarray, "B T"],
    reference: Reference,
) -> Records:
    """Theoretical standard errors of records from their log likelihoods at these draws.

    Args:
        theta: `(T, d)` the draws.
        chosen: `(B,)` positions of the records.
        noise: `(B, T)` standard deviations of the log likelihoods.
    """
    problem, u, level = _columns_of(model, theta, solution, chosen, np.zeros(noise.shape), noise, reference)
    information = problem.descend(u, np.arange(len(chosen)), level, np.arange(len(theta)), 0)[2]
    return problem.layout.unpack(errors_of(information, np.ones(len(chosen))) * problem.box.scale)


def linear_response(
    model: Model,
    theta: np.ndarray,
    solution: PreImages,
    chosen: np.ndarray,
    errors: np.ndarray,
    reference: Reference,
    noise: Float[np.ndarray, "B T"] | None = None,
) -> Records:
    """First-order changes of records if errors `(B, T)` are added to their log likelihoods.

    Values are weighted by their `noise (B, T)`, by default equally.
    """
    sd = np.ones(errors.shape) if noise is None else noise
    problem, u, level = _columns_of(model, theta, solution, chosen, errors, np.ones(errors.shape), reference)
    fixed = problem.fixed(np.arange(len(chosen)), level)
    change = _response(model, problem.layout, problem.box, theta, errors, sd, u, fixed)
    return problem.layout.unpack(np.asarray(change) * problem.box.scale)


@partial(jax.jit, static_argnames=("model", "layout"))
def _response(
    model: Model,
    layout: EntryLayout,
    box: FreeEntries,
    theta: Array,
    errors: Array,
    noise: Array,
    u: Array,
    fixed: Records,
) -> jax.Array:
    def of_record(u: Array, error: Array, sd: Array, fix: Records) -> jax.Array:
        def values(w: Array) -> jax.Array:
            record = {**fix, **layout.unpack(box.centre + box.scale * w)}
            return jax.vmap(lambda t: model.log_lik(t, record))(theta)

        return jnp.linalg.lstsq(jax.jacfwd(values)(u) / sd[:, None], error / sd)[0]

    return jax.vmap(of_record)(u, errors, noise, fixed)


def _columns_of(
    model: Model,
    theta: np.ndarray,
    solution: PreImages,
    chosen: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
) -> tuple[ReleasedColumns, np.ndarray, np.ndarray]:
    """The columns of chosen records, with their free entries and their combinations of levels."""
    known = {k: np.asarray(v)[chosen] for k, v in reference.known.items()}
    problem = ReleasedColumns(model, theta, columns, noise, replace(reference, known=known), False)
    level = np.array([_level_of(problem, solution, int(name)) for name in chosen])
    entries = [
        np.asarray(solution.records[name], float)[chosen].reshape(len(chosen), -1) for name in problem.layout.moved
    ]
    values = np.concatenate(entries, axis=1) if entries else np.zeros((len(chosen), 0))
    return problem, (values - problem.box.centre) / problem.box.scale, level


def _level_of(problem: ReleasedColumns, solution: PreImages, n: int) -> int:
    """Number of the combination of enumerated fields that a record has."""
    for i, combination in enumerate(problem.combinations):
        if all(np.array_equal(combination[name], solution.records[name][n]) for name in problem.enumerated):
            return i
    raise AssertionError("a record was enumerated")


def _solve(
    problem: ReleasedColumns, chosen: np.ndarray, starts: int, spread: float, rng: np.random.Generator
) -> PreImages:
    """Records of the chosen columns. All starts use a few draws, and the best two of them all draws."""
    width, draws, count = len(problem.box.centre), len(problem.theta), len(chosen)
    used = np.flatnonzero(problem.noise[chosen[0]] < IGNORED)
    sample = used[evenly(len(used), max(_SEARCH, 4 * width))]
    trials = starts if width else 1
    copies = trials * len(problem.combinations)
    u = spread * rng.normal(size=(count * copies, width))
    u[::trials] = 0.0
    u = np.clip(u, problem.box.low, problem.box.high)
    owner = np.repeat(chosen, copies)
    combination = np.tile(np.repeat(np.arange(len(problem.combinations)), trials), count)
    u, cost, _ = problem.descend(u, owner, combination, sample, _STEPS)
    u, combination = u.reshape(count, copies, width), combination.reshape(count, copies)
    order = np.argsort(cost.reshape(count, copies), axis=1)
    rival = _rivals(u, combination, order)
    rows, alone = np.arange(count), rival == order[:, 0]
    solutions = []
    for trial in (order[:, 0], rival):
        solution_ = problem.descend(u[rows, trial], chosen, combination[rows, trial], np.arange(draws), _POLISH)
        solutions.append((*solution_, combination[rows, trial]))
    swap = solutions[1][1] < solutions[0][1]
    solution, cost, information, level = (_choose(swap, b, a) for a, b in zip(*solutions, strict=True))
    second = [_choose(swap, a, b) for a, b in zip(*solutions, strict=True)]
    freedom = max(1, len(used) - width)
    misfit = np.ones(count) if problem.likelihood else np.sqrt(2 * np.maximum(cost, 0) / freedom)
    inflate = np.maximum(1.0, misfit)
    elsewhere = (np.abs(second[0] - solution) > 1e-3).any(axis=1) | (second[3] != level)
    ambiguous = ~alone & elsewhere & (2 * (second[1] - cost) < _SAME * inflate**2)
    box = problem.box
    records = problem.layout.unpack(box.centre + box.scale * solution)
    se = problem.layout.unpack(errors_of(information, inflate) * box.scale)
    for name in problem.enumerated:
        records[name] = np.array([c[name] for c in problem.combinations])[level]
        se[name] = np.zeros(records[name].shape)
    return PreImages({n: records[n] for n in problem.unknown}, {n: se[n] for n in problem.unknown}, misfit, ambiguous)


def _choose(mask: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.where(mask.reshape(-1, *[1] * (first.ndim - 1)), first, second)


def _rivals(u: np.ndarray, which: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Per record the best trial that ended elsewhere than the best one, `(N,)`; else the best one itself."""
    rows, best = np.arange(len(u)), order[:, 0]
    rival = best.copy()
    for rank in range(order.shape[1] - 1, 0, -1):
        trial = order[:, rank]
        elsewhere = (np.abs(u[rows, trial] - u[rows, best]) > _APART).any(axis=1)
        elsewhere |= which[rows, trial] != which[rows, best]
        rival = np.where(elsewhere, trial, rival)
    return rival
