"""Levenberg-Marquardt for many records at once, each with its own column.

The free entries of a record are stacked, in units of their spread. Fields with finitely many values are fixed, with one
descent for each of their combinations. Blocks have few different shapes, so that little is compiled.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.divergence.metric_view import CHUNK
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Field, Model, Records

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
