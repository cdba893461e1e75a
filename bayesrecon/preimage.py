"""Records from their own columns: every record is the pre-image of what was released about it alone.

Two kinds of columns. A pointwise log likelihood `c_t = l(theta_t, x) + rounding` is solved by least squares over the
record's fields; a posterior predictive column `y_t ~ p(. | theta_t, x)` by maximum likelihood over the fields that are
not simulated. Both are Levenberg-Marquardt iterations, vectorised over records and starts, with derivatives from JAX.
Fields with finitely many values are enumerated; of all starts the best fit is kept, and starts that fit as well
somewhere else are reported as an ambiguity.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.anchors import Reference
from bayesrecon.embedding import CHUNK
from bayesrecon.errors import BayesreconError
from bayesrecon.types import Field, Model, Records

IGNORED = 1e100
"""Noise from which a value counts as absent: shapes stay, and nothing is compiled anew."""

_SEARCH = 96  # draws on which starts compete
_STEPS, _POLISH = 30, 30
_CANDIDATES = 64
_LARGE = 1e12
_LOST = 4.0  # misfit from which a column is tried again
_APART = 0.05  # in units of a field's spread: ends of two descents that are not the same
_SAME = 9.0  # an increase of chi-squared that does not tell two solutions apart


@dataclass(frozen=True, eq=False)
class PreImages:
    """Recovered records, one per column.

    Attributes:
        records: `{field: (N, *shape)}`.
        se: `{field: (N, *shape)}` standard errors; infinite where the column does not determine the field; zero for
            enumerated fields.
        misfit: `(N,)` root mean squared residual in units of the noise (log likelihoods), one where it fits.
        ambiguous: `(N,)` whether another record explains the column as well.
    """

    records: Records
    se: Records
    misfit: np.ndarray
    ambiguous: np.ndarray

    def __len__(self) -> int:
        return len(self.misfit)


@dataclass(frozen=True)
class _Layout:
    """Which entries of a record move, stacked as `u (F,)` in units of their spread; the others are given."""

    fields: tuple[tuple[str, tuple[int, ...]], ...]
    moved: tuple[str, ...]

    def unpack(self, values: Any) -> Records:
        """Moving fields from their stacked entries `(..., F)`."""
        parts, start = {}, 0
        for name, shape in self.fields:
            if name in self.moved:
                size = math.prod(shape)
                parts[name] = values[..., start : start + size].reshape(*values.shape[:-1], *shape)
                start += size
        return parts


class _Box(NamedTuple):
    """Location, scale and bounds of the moving entries, each `(F,)`; the bounds in units of the scale."""

    centre: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    high: np.ndarray


@partial(jax.jit, static_argnames=("model", "layout", "likelihood"))
def _descend(
    model: Model,
    layout: _Layout,
    likelihood: bool,
    steps: Any,
    box: _Box,
    theta: Any,
    columns: Any,
    noise: Any,
    u: Any,
    fixed: Records,
) -> tuple[Any, Any, Any]:
    """Levenberg-Marquardt for a block: `columns, noise (B, T)`, `u (B, F)`, `fixed {field: (B, ...)}`.

    Returns `u`, the objective (half chi-squared, or minus the log likelihood) and the information matrices.
    """

    def values(u: Any, column: Any, fix: Records) -> Any:
        record = {**fix, **layout.unpack(box.centre + box.scale * u)}
        if not likelihood:
            return jax.vmap(lambda t: model.log_lik(t, record))(theta)
        return jax.vmap(lambda t, simulated: model.log_lik(t, {**record, **simulated}))(theta, column)

    def pieces(u: Any, column: Any, sd: Any, fix: Records) -> tuple[Any, Any, Any]:
        found = values(u, column, fix)
        jacobian = jax.jacfwd(lambda w: values(w, column, fix))(u)  # (T, F)
        if likelihood:
            # The outer product of the scores is the information, as the draws were simulated from the model.
            return -found.sum(), -jacobian.sum(axis=0), jacobian.T @ jacobian
        residual = (found - column) / sd
        scaled = jacobian / sd[:, None]
        return 0.5 * (residual**2).sum(), scaled.T @ residual, scaled.T @ scaled

    def cost(u: Any, column: Any, sd: Any, fix: Records) -> Any:
        found = values(u, column, fix)
        return -found.sum() if likelihood else 0.5 * (((found - column) / sd) ** 2).sum()

    def one(u: Any, column: Any, sd: Any, fix: Records) -> tuple[Any, Any, Any]:
        def body(state: tuple[Any, Any, Any, Any]) -> tuple[Any, Any, Any, Any]:
            u, value, damping, step = state
            _, slope, information = pieces(u, column, sd, fix)
            ridge = damping * jnp.diag(information) + 1e-30 * jnp.trace(information) + 1e-300
            move = jnp.linalg.solve(information + jnp.diag(ridge), slope)
            tried = jnp.clip(u - move, box.low, box.high)
            new = cost(tried, column, sd, fix)
            better = (new < value) & jnp.isfinite(new)
            settled = better & (value - new < 1e-12 * (1 + jnp.abs(new)))
            return (
                jnp.where(better, tried, u),
                jnp.where(better, new, value),
                jnp.where(better, jnp.maximum(damping / 8, 1e-12), jnp.minimum(damping * 6, 1e9)),
                jnp.where(settled | (damping > 1e8), steps, step + 1),
            )

        first = cost(u, column, sd, fix)
        start = (u, jnp.where(jnp.isfinite(first), first, _LARGE * _LARGE), jnp.asarray(1e-2), jnp.asarray(0))
        u, value, _, _ = jax.lax.while_loop(lambda s: s[3] < steps, body, start)
        return u, value, pieces(u, column, sd, fix)[2]

    return jax.vmap(one)(u, columns, noise, fixed)


def invert_columns(
    model: Model,
    theta: np.ndarray,
    columns: Any,
    noise: np.ndarray,
    reference: Reference,
    rng: np.random.Generator,
    *,
    likelihood: bool = False,
    starts: int = 6,
) -> PreImages:
    """Solve for the records behind columns.

    Args:
        theta: `(T, d)` the draws.
        columns: `(N, T)` pointwise log likelihoods; with `likelihood` `{field: (N, T, *shape)}` simulated fields.
        noise: `(N, T)` standard deviation of the log likelihoods' rounding error (ones with `likelihood`).
        reference: fields, known fields row by row, and where the unknown ones lie.
        starts: random starts per record and combination of enumerated fields. Columns that do not fit are tried again
            from five times as many, further away.

    Raises:
        BayesreconError: a field with too many combinations of values to enumerate.
    """
    task = _Task(model, theta, columns, noise, reference, likelihood)
    everything = np.arange(len(noise))
    found = task.solve(everything, starts, 1.0, rng)
    lost = np.flatnonzero(~(found.misfit < _LOST))
    if lost.size and not likelihood:
        again = task.solve(lost, 5 * starts, 3.0, rng)
        better = again.misfit < found.misfit[lost]
        at = lost[better]
        for old, new in ((found.records, again.records), (found.se, again.se)):
            for name in old:
                old[name][at] = new[name][better]
        found.misfit[at], found.ambiguous[at] = again.misfit[better], again.ambiguous[better]
    return found


def standard_errors(
    model: Model, theta: np.ndarray, found: PreImages, chosen: np.ndarray, noise: np.ndarray, reference: Reference
) -> Records:
    """Standard errors that log likelihoods of these records at these draws would have, from theory.

    Args:
        theta: `(T, d)`.
        chosen: `(B,)` positions of the records.
        noise: `(B, T)` standard deviations of the log likelihoods.
    """
    task, u, level = _at(model, theta, found, chosen, np.zeros(noise.shape), noise, reference)
    information = task.descend(u, np.arange(len(chosen)), level, np.arange(len(theta)), 0)[2]
    return task.layout.unpack(_errors(information, np.ones(len(chosen))) * task.box.scale)


def linear_response(
    model: Model,
    theta: np.ndarray,
    found: PreImages,
    chosen: np.ndarray,
    errors: np.ndarray,
    reference: Reference,
    noise: np.ndarray | None = None,
) -> Records:
    """How far these records would move, to first order, if errors `(B, T)` were added to their log likelihoods.

    Values are weighed by their `noise (B, T)`, alike by default.
    """
    sd = np.ones(errors.shape) if noise is None else noise
    task, u, level = _at(model, theta, found, chosen, errors, np.ones(errors.shape), reference)
    fixed = task.fixed(np.arange(len(chosen)), level)
    moved = _response(model, task.layout, task.box, theta, errors, sd, u, fixed)
    return task.layout.unpack(np.asarray(moved) * task.box.scale)


@partial(jax.jit, static_argnames=("model", "layout"))
def _response(
    model: Model, layout: _Layout, box: _Box, theta: Any, errors: Any, noise: Any, u: Any, fixed: Records
) -> Any:
    def one(u: Any, error: Any, sd: Any, fix: Records) -> Any:
        def values(w: Any) -> Any:
            record = {**fix, **layout.unpack(box.centre + box.scale * w)}
            return jax.vmap(lambda t: model.log_lik(t, record))(theta)

        return jnp.linalg.lstsq(jax.jacfwd(values)(u) / sd[:, None], error / sd)[0]

    return jax.vmap(one)(u, errors, noise, fixed)


def _at(
    model: Model,
    theta: np.ndarray,
    found: PreImages,
    chosen: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    reference: Reference,
) -> tuple["_Task", np.ndarray, np.ndarray]:
    """A task for some records that were found, with their moving entries and combinations of levels."""
    known = {k: np.asarray(v)[chosen] for k, v in reference.known.items()}
    task = _Task(model, theta, columns, noise, replace(reference, known=known), False)
    level = np.array([_level_of(task, found, int(n)) for n in chosen])
    flat = [np.asarray(found.records[n], float)[chosen].reshape(len(chosen), -1) for n in task.layout.moved]
    values = np.concatenate(flat, axis=1) if flat else np.zeros((len(chosen), 0))
    return task, (values - task.box.centre) / task.box.scale, level


def _level_of(task: "_Task", found: PreImages, n: int) -> int:
    """Which combination of the enumerated fields a record has."""
    for i, one in enumerate(task.combinations):
        if all(np.array_equal(one[name], found.records[name][n]) for name in task.enumerated):
            return i
    raise AssertionError("a record was enumerated")


class _Task:
    """The columns of one release, and how they are solved."""

    def __init__(
        self, model: Model, theta: np.ndarray, columns: Any, noise: np.ndarray, reference: Reference, likelihood: bool
    ):
        simulated = tuple(columns) if likelihood else ()
        fields = reference.fields
        self.model, self.theta, self.columns, self.noise = model, theta, columns, noise
        self.likelihood = likelihood
        self.known = {k: np.asarray(v, float) for k, v in reference.known.items()}
        self.unknown = [name for name in fields if name not in self.known and name not in simulated]
        self.enumerated = [name for name in self.unknown if fields[name].domain.kind == "levels"]
        moved = tuple(name for name in self.unknown if name not in self.enumerated)
        self.combinations = _combinations({name: fields[name] for name in self.enumerated})
        self.layout = _Layout(tuple((name, spec.shape) for name, spec in fields.items()), moved)
        self.box = _box(reference, moved)

    def solve(self, chosen: np.ndarray, starts: int, spread: float, rng: np.random.Generator) -> PreImages:
        """The records of the chosen columns: starts compete on few draws, the best two on all."""
        width, draws, count = len(self.box.centre), len(self.theta), len(chosen)
        used = np.flatnonzero(self.noise[chosen[0]] < IGNORED)
        few = used[np.linspace(0, len(used) - 1, min(len(used), max(_SEARCH, 4 * width))).astype(int)]
        trials = starts if width else 1
        copies = trials * len(self.combinations)
        u = spread * rng.normal(size=(count * copies, width))
        u[::trials] = 0.0
        u = np.clip(u, self.box.low, self.box.high)
        owner = np.repeat(chosen, copies)
        which = np.tile(np.repeat(np.arange(len(self.combinations)), trials), count)
        u, cost, _ = self.descend(u, owner, which, few, _STEPS)
        u, which = u.reshape(count, copies, width), which.reshape(count, copies)
        order = np.argsort(cost.reshape(count, copies), axis=1)
        rival = _rivals(u, which, order)
        rows, alone = np.arange(count), rival == order[:, 0]
        ends = []
        for trial in (order[:, 0], rival):
            end = self.descend(u[rows, trial], chosen, which[rows, trial], np.arange(draws), _POLISH)
            ends.append((*end, which[rows, trial]))
        swap = ends[1][1] < ends[0][1]
        solution, cost, information, level = (_choose(swap, b, a) for a, b in zip(*ends, strict=True))
        second = [_choose(swap, a, b) for a, b in zip(*ends, strict=True)]
        freedom = max(1, len(used) - width)
        misfit = np.ones(count) if self.likelihood else np.sqrt(2 * np.maximum(cost, 0) / freedom)
        inflate = np.maximum(1.0, misfit)
        elsewhere = (np.abs(second[0] - solution) > 1e-3).any(axis=1) | (second[3] != level)
        ambiguous = ~alone & elsewhere & (2 * (second[1] - cost) < _SAME * inflate**2)
        box = self.box
        records = self.layout.unpack(box.centre + box.scale * solution)
        se = self.layout.unpack(_errors(information, inflate) * box.scale)
        for name in self.enumerated:
            records[name] = np.array([c[name] for c in self.combinations])[level]
            se[name] = np.zeros(records[name].shape)
        return PreImages({n: records[n] for n in self.unknown}, {n: se[n] for n in self.unknown}, misfit, ambiguous)

    def fixed(self, rows: np.ndarray, level: np.ndarray) -> Records:
        """Known and enumerated fields of some rows."""
        given = {name: values[rows] for name, values in self.known.items()}
        return given | {name: np.array([c[name] for c in self.combinations])[level] for name in self.enumerated}

    def descend(
        self, u: np.ndarray, rows: np.ndarray, level: np.ndarray, draws: np.ndarray, steps: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The descent over blocks of one shape; the last block is filled up with copies."""
        width, theta = max(1, u.shape[1]), self.theta[draws]
        block = int(2 ** np.clip(np.log2(CHUNK / (len(draws) * (width + 2))), 0, 10))
        block = min(block, 2 ** int(len(u) - 1).bit_length())
        found: list[tuple[np.ndarray, ...]] = []
        for start in range(0, len(u), block):
            at = np.minimum(np.arange(start, start + block), len(u) - 1)
            r = rows[at]
            columns: Any = self.columns
            given = {k: v[r][:, draws] for k, v in columns.items()} if self.likelihood else columns[r][:, draws]
            fixed = self.fixed(r, level[at])
            result = _descend(
                self.model,
                self.layout,
                self.likelihood,
                steps,
                self.box,
                theta,
                given,
                self.noise[r][:, draws],
                u[at],
                fixed,
            )
            found.append(tuple(np.asarray(part)[: len(u) - start] for part in result))
        u, cost, information = (np.concatenate(part) for part in zip(*found, strict=True))
        return u, cost, information


def _choose(mask: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.where(mask.reshape(-1, *[1] * (one.ndim - 1)), one, other)


def _box(reference: Reference, moved: tuple[str, ...]) -> _Box:
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
    return _Box(*(np.concatenate(part) if part else np.zeros(0) for part in parts))


def _combinations(fields: Mapping[str, Field]) -> list[Records]:
    """All combinations of the levels of enumerated fields."""
    found: list[Records] = [{}]
    for name, spec in fields.items():
        levels = np.asarray(spec.domain.levels, float)
        size = int(np.prod(spec.shape, dtype=int))
        if len(found) * len(levels) ** size > _CANDIDATES:
            raise BayesreconError(
                f"field {name!r} has too many combinations of values to try ({len(levels)} levels, {size} entries)"
            )
        grids = np.stack(np.meshgrid(*[levels] * size, indexing="ij"), axis=-1).reshape(-1, *spec.shape)
        found = [{**one, name: value} for one in found for value in grids]
    return found


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


def _errors(information: np.ndarray, inflate: np.ndarray) -> np.ndarray:
    """Standard errors `(N, F)` in units of the scale; infinite along what is not determined."""
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
