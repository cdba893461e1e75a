"""Legal values of every row, their coordinates, and what the model itself says of them."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import scipy.sparse

from bayesrecon.records.rows import Rows, combinations, coordinates_of, log_likelihoods
from bayesrecon.records.slots import Slots
from bayesrecon.score import slopes
from bayesrecon.types import Records, Release, simulated

_ATOMS = 12  # draws on which coordinates are computed
_PRIOR = 64  # draws over which the model's own opinion is averaged
_WIDE, _WINDOW = 6.0, 400  # standard errors around an estimate that are searched, and the most values a row may have
_SIMULATED = 256
_PROBES = 8
_AFFINE = 1e-6
_BLOCK = 2**18  # records evaluated at once


@dataclass(frozen=True)
class Readout:
    """Unknown fields as affine functions of s: `u = offset + columns' s`.

    Attributes:
        columns: `(N * p, N * k)`, a sparse array by columns.
        offset: `(N, k)`.
        readable: `(N, k)` whether the field is such a function at all.
        values, coordinates: the values it was read off, `{field: (N, C)}`, and their coordinates `(N, C, p)`, not
            finite where a value is illegal.
    """

    columns: Any
    offset: np.ndarray
    readable: np.ndarray
    values: Records
    coordinates: np.ndarray


@dataclass(frozen=True)
class Candidates:
    """Legal values of the rows.

    Attributes:
        values: `{field: (N, C)}`.
        coordinates: `(N, C, p)`.
        log_prior: `(N, C)` the model's mean log likelihood over the draws; minus infinity where illegal or padding.
    """

    values: Records
    coordinates: np.ndarray
    log_prior: np.ndarray

    def most_probable(self, name: str, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The most probable value of a field, its probability, and the prior probability of the same value."""
        prior = np.exp(self.log_prior - self.log_prior.max(axis=1, keepdims=True))
        prior /= prior.sum(axis=1, keepdims=True)
        values = self.values[name]
        same = values[:, :, None] == values[:, None, :]
        marginal = np.einsum("ncd,nd->nc", same, probability)
        best = marginal.argmax(axis=1)
        rows = np.arange(len(values))
        return values[rows, best], marginal[rows, best], np.einsum("nd,nd->n", same[rows, best], prior)


def readout(release: Release, rows: Rows, slots: Slots, rng: np.random.Generator) -> Readout:
    """How the unknown fields are read off the coordinates."""
    probes = combinations(rows.unknown)
    if probes is None:
        probes = {}
        for name, anchors in rows.anchors.items():
            more = rng.choice(anchors, _PROBES)
            if rows.unknown[name].domain.kind != "levels":
                centre, spread = anchors.astype(float).mean(), np.ptp(anchors) + 1e-9
                more = rows.unknown[name].domain.draw(rng, (_PROBES,), centre, spread)
            probes[name] = np.concatenate([anchors, more])
    count, n, p = len(next(iter(probes.values()))), rows.count, rows.features
    values = {k: np.tile(v, (n, 1)) for k, v in probes.items()}
    coordinates = _coordinates(release, rows, slots, values)
    legal = np.asarray(np.isfinite(coordinates).all(axis=2))
    s = np.where(legal[:, :, None], coordinates, 0.0)
    design = np.concatenate([np.ones((n, count, 1)), s], axis=2) * legal[:, :, None]
    inverse = np.linalg.pinv(design, rcond=1e-10)
    k = len(rows.unknown)
    slope, offset = np.zeros((n, p, k)), np.zeros((n, k))
    readable = np.zeros((n, k), bool)
    for j, v in enumerate(values.values()):
        u = np.where(legal, v.astype(float), 0.0)
        beta = np.einsum("nbc,nc->nb", inverse, u)
        rest = u - np.einsum("ncb,nb->nc", design, beta)
        size = np.where(legal, u, np.nan)
        readable[:, j] = np.abs(rest).max(axis=1) <= _AFFINE * (np.nanmax(size, axis=1) - np.nanmin(size, axis=1))
        offset[:, j], slope[:, :, j] = beta[:, 0], beta[:, 1:]
    columns = scipy.sparse.bsr_array((slope, np.arange(n), np.arange(n + 1)), shape=(n * p, n * k)).tocsc()
    return Readout(columns, offset, readable, values, coordinates)


def candidates_of(
    release: Release, rows: Rows, slots: Slots, read: Readout, estimate: np.ndarray, se: np.ndarray
) -> Candidates | None:
    """Every combination of values where they are few, else those around the estimates; None if those are too many."""
    if combinations(rows.unknown) is not None:
        values, s = read.values, read.coordinates
        valid = np.ones_like(s[:, :, 0], bool)
    else:
        found = _windows(rows, estimate, se)
        if found is None:
            return None
        values, valid = found
        s = _coordinates(release, rows, slots, values)
    theta = np.asarray(release.theta)[np.linspace(0, release.size - 1, min(_PRIOR, release.size)).astype(int)]
    log_prior = np.concatenate(
        [
            log_likelihoods(release.model, theta, part).mean(axis=0)
            for part in _pieces(rows.filled({k: v.ravel() for k, v in values.items()}, valid.shape[1]), len(theta))
        ]
    ).reshape(valid.shape)
    legal = valid & np.isfinite(log_prior) & np.isfinite(s).all(axis=2)
    if not legal.any(axis=1).all():
        return None
    return Candidates(values, np.where(legal[:, :, None], s, 0.0), np.where(legal, log_prior, -np.inf))


def naive_guess(
    release: Release, rows: Rows, options: Candidates | None, rng: np.random.Generator
) -> dict[str, np.ndarray | None]:
    """What anyone would guess of a row from the posterior mean: its most probable value, or its expectation."""
    model = release.model
    mean = np.asarray(release.weights) @ np.asarray(release.theta)
    if options is not None and combinations(rows.unknown) is not None:
        each = options.log_prior.shape[1]
        batch = rows.filled({k: v.ravel() for k, v in options.values.items()}, each)
        best = log_likelihoods(model, mean[None], batch)[0].reshape(-1, each).argmax(axis=1)
        return {k: v[np.arange(len(v)), best] for k, v in options.values.items()}
    guess: dict[str, np.ndarray | None] = dict.fromkeys(rows.unknown)
    if model.simulate is None:
        return guess
    before = rows.base()
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), _SIMULATED)
    drawn = simulated(model, np.tile(mean, (_SIMULATED, 1)), before, keys)
    for name, spec in rows.unknown.items():
        expected = np.asarray(drawn[name], float).mean(axis=0)
        # A field that is never observed by the model keeps its base value: no guess.
        if not np.array_equal(expected, before[name]):
            guess[name] = np.round(expected) if spec.domain.discrete else expected
    return guess


def _coordinates(release: Release, rows: Rows, slots: Slots, values: Records) -> np.ndarray:
    """Coordinates `(N, C, p)` of values `{field: (N, C)}`; not finite where a value is illegal."""
    n, each = next(iter(values.values())).shape
    p = rows.features
    theta = np.asarray(release.theta)[np.linspace(0, release.size - 1, min(_ATOMS, release.size)).astype(int)]
    features = np.asarray(slopes(release.model, theta, rows.pairs(), slots.colours))
    features = features.reshape(-1, n, p)
    known = {k: np.repeat(v, each, axis=0) for k, v in rows.known.items()}
    base = {k: np.repeat(v[:1], n * each) for k, v in rows.anchors.items()}
    other = {k: v.ravel() for k, v in values.items()}
    step = max(1, _BLOCK // (each * slots.width))
    found = []
    for start in range(0, n, step):
        part, flat = slice(start, start + step), slice(start * each, (start + step) * each)
        known_, base_, other_ = ({k: v[flat] for k, v in part_.items()} for part_ in (known, base, other))
        moved = slopes(release.model, theta, (known_, base_, other_), slots.colours)
        moved = np.asarray(moved).reshape(features.shape[0], -1, each)
        bad = ~np.isfinite(moved).all(axis=0)
        s = coordinates_of(np.where(bad, 0.0, moved), features[:, part])
        s[bad] = np.nan
        found.append(s)
    return np.concatenate(found)


def _windows(rows: Rows, estimate: np.ndarray, se: np.ndarray) -> tuple[Records, np.ndarray] | None:
    """Whole values around the estimates, `{field: (N, C)}`, and which of them are no padding."""
    axes = []
    for j, spec in enumerate(rows.unknown.values()):
        low = np.clip(np.floor(estimate[:, j] - _WIDE * se[:, j]), spec.domain.low, spec.domain.high)
        high = np.clip(np.ceil(estimate[:, j] + _WIDE * se[:, j]), spec.domain.low, spec.domain.high)
        width = int((high - low).max()) + 1
        axes.append((low, high, width))
    if np.prod([float(w) for _, _, w in axes]) > _WINDOW:
        return None
    grids = np.meshgrid(*[np.arange(w) for _, _, w in axes], indexing="ij")
    values, valid = {}, np.ones((rows.count, grids[0].size), bool)
    for (name, spec), (low, high, _), grid in zip(rows.unknown.items(), axes, grids, strict=True):
        v = low[:, None] + grid.ravel()
        valid &= v <= high[:, None]
        values[name] = np.minimum(v, high[:, None]).astype(spec.domain.dtype)
    return values, valid


def _pieces(records: Records, atoms: int) -> list[Records]:
    size = len(next(iter(records.values())))
    step = max(1, 2**22 // atoms)
    return [{k: v[i : i + step] for k, v in records.items()} for i in range(0, size, step)]
