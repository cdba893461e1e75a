"""Legal values of every row, their amplitudes, and what the model itself says of them."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import scipy.sparse

from bayesrecon.attacks.records.rows import Rows, amplitudes_of, combinations
from bayesrecon.attacks.records.slots import Slots
from bayesrecon.diagnostics import evenly
from bayesrecon.kernels.score import log_liks, slopes
from bayesrecon.types import Model, Records, Release, simulated

_ATOMS = 12  # draws on which amplitudes are computed
_PRIOR = 64  # draws over which the model's own opinion is averaged
_WIDE, _WINDOW = 6.0, 400  # standard errors around an estimate that are searched, and the most values a row may have
_SIMULATED = 256  # responses drawn for a guess: its own error is a sixteenth of the model's spread
_PROBES = 8  # values beside the anchors on which reading off is tested: a curve through the anchors shows on them
# Deviation from a line, in units of the range: above the rounding of the amplitudes, below what bends on any probe.
_AFFINE = 1e-6
_IMPOSSIBLE = 100.0  # log likelihood below a row's best from which a value of a complete list is none of the row's
_BLOCK = 2**18  # records evaluated at once

Around = tuple[np.ndarray, np.ndarray]
"""Centres and standard deviations of the unknown fields, `(N, k)` each."""


@dataclass(frozen=True)
class Readout:
    """Unknown fields as affine functions of s: `u = offset + columns' s`.

    Attributes:
        columns: `(M, N * k)`, a sparse array by columns.
        offset: `(N, k)`.
        readable: `(N, k)` whether the field is such a function at all.
        values, amplitudes: the values it was read off, `{field: (N, C)}`, and their amplitudes `(N, C, p)`, not
            finite where a value is illegal.
    """

    columns: Any
    offset: np.ndarray
    readable: np.ndarray
    values: Records
    amplitudes: np.ndarray


@dataclass(frozen=True)
class Guess:
    """What anyone would guess of a row from the posterior mean.

    Attributes:
        value: `(N,)` the most probable value, or the expectation; None where the model says nothing.
        sd: `(N,)` standard deviation of the field around it, infinite where the model tells none.
    """

    value: np.ndarray | None
    sd: np.ndarray


@dataclass(frozen=True)
class Candidates:
    """Legal values of the rows.

    Attributes:
        values: `{field: (N, C)}`.
        amplitudes: `(N, C, p)`.
        log_prior: `(N, C)` the model's mean log likelihood over the draws; minus infinity where illegal or padding.
        log_total: `(N,)` the same summed over all values that the model expects, in the list or not.
    """

    values: Records
    amplitudes: np.ndarray
    log_prior: np.ndarray
    log_total: np.ndarray

    def most_probable(self, name: str, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The most probable value of a field, its probability, and the prior probability of the same value."""
        prior = np.exp(self.log_prior - self.log_total[:, None])
        values = self.values[name]
        same = values[:, :, None] == values[:, None, :]
        marginal = np.einsum("ncd,nd->nc", same, probability)
        best = marginal.argmax(axis=1)
        rows = np.arange(len(values))
        return values[rows, best], marginal[rows, best], np.einsum("nd,nd->n", same[rows, best], prior)


def readout(release: Release, rows: Rows, slots: Slots, rng: np.random.Generator) -> Readout:
    """How the unknown fields are read off the amplitudes."""
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
    amplitudes = _amplitudes(release, rows, slots, values)
    legal = np.asarray(np.isfinite(amplitudes).all(axis=2))
    if combinations(rows.unknown) is not None:
        theta = np.asarray(release.theta)[evenly(release.size, _ATOMS)]
        log_lik = _mean_log_likelihood(release.model, theta, rows, values)
        legal &= log_lik > log_lik.max(axis=1, keepdims=True) - _IMPOSSIBLE
    s = np.where(legal[:, :, None], amplitudes, 0.0)
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
    columns = scipy.sparse.bsr_array((slope, np.arange(n), np.arange(n + 1)), shape=(n * p, n * k))
    columns = columns.tocsr()[np.flatnonzero(rows.distinct)].tocsc()
    return Readout(columns, offset, readable, values, amplitudes)


def candidates_of(
    release: Release, rows: Rows, slots: Slots, read: Readout, around: Around, expected: Around
) -> Candidates | None:
    """Every combination of values where they are few, else those around where they should be; None if those are too
    many. `expected` is where the model by itself would have them, not a number where it says nothing."""
    complete = combinations(rows.unknown) is not None
    if complete:
        values, s = read.values, read.amplitudes
        valid = np.ones_like(s[:, :, 0], bool)
    else:
        found = _windows(rows, *around)
        if found is None:
            return None
        values, valid = found
        s = _amplitudes(release, rows, slots, values)
    theta = np.asarray(release.theta)[evenly(release.size, _PRIOR)]
    log_prior = _mean_log_likelihood(release.model, theta, rows, values)
    legal = valid & np.isfinite(log_prior) & np.isfinite(s).all(axis=2)
    if not legal.any(axis=1).all():
        return None
    log_prior = np.where(legal, log_prior, -np.inf)
    log_total = np.logaddexp.reduce(log_prior, axis=1)
    whole = None if complete else _windows(rows, *expected)
    if whole is not None:
        every, valid = whole
        every_log = np.where(valid, _mean_log_likelihood(release.model, theta, rows, every), -np.inf)
        log_total = np.logaddexp.reduce(every_log, axis=1)
    return Candidates(values, np.where(legal[:, :, None], s, 0.0), log_prior, log_total)


def _mean_log_likelihood(model: Model, theta: np.ndarray, rows: Rows, values: Records) -> np.ndarray:
    """Mean log likelihood over draws of values `{field: (N, C)}`, `(N, C)`; minus infinity where it is no number.

    It is that of the records' own law, whatever the power of the posterior.
    """
    model = model.untempered
    shape = next(iter(values.values())).shape
    batch = rows.filled({k: v.ravel() for k, v in values.items()}, shape[1])
    parts = [np.asarray(log_liks(model, theta, part)).mean(axis=0) for part in _pieces(batch, len(theta))]
    found = np.concatenate(parts).reshape(shape)
    return np.where(np.isnan(found), -np.inf, found)


def naive_guesses(release: Release, rows: Rows, read: Readout, rng: np.random.Generator) -> dict[str, Guess]:
    """By field. Fields that the model does not draw itself leave those it draws without a guess too."""
    model, n = release.model, rows.count
    mean = np.asarray(release.weights) @ np.asarray(release.theta)
    unknown = np.full(n, np.inf)
    if combinations(rows.unknown) is not None:
        best = _mean_log_likelihood(model, mean[None], rows, read.values).argmax(axis=1)
        return {k: Guess(v[np.arange(n), best], unknown) for k, v in read.values.items()}
    nothing = {k: Guess(None, unknown) for k in rows.unknown}
    if model.simulate is None:
        return nothing
    before = rows.base()
    keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), _SIMULATED)
    drawn = simulated(model, np.tile(mean, (_SIMULATED, 1)), before, keys)
    found = {}
    for name, spec in rows.unknown.items():
        values = np.asarray(drawn[name], float)
        if np.array_equal(values, np.broadcast_to(before[name], values.shape)):
            return nothing
        expected = values.mean(axis=0)
        sd = np.nan_to_num(values.std(axis=0), nan=np.inf)
        found[name] = Guess(np.round(expected) if spec.domain.discrete else expected, sd)
    return found


def _amplitudes(release: Release, rows: Rows, slots: Slots, values: Records) -> np.ndarray:
    """Coordinates `(N, C, p)` of values `{field: (N, C)}`; not finite where a value is illegal."""
    n, each = next(iter(values.values())).shape
    theta = np.asarray(release.theta)[evenly(release.size, _ATOMS)]
    features = np.asarray(slopes(release.model, theta, rows.pairs(), slots.colours))
    features = rows.padded(features.reshape(-1, features.shape[-1]))
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
        s = amplitudes_of(np.where(bad, 0.0, moved), features[:, part])
        s[bad] = np.nan
        found.append(s)
    return np.concatenate(found)


def _windows(rows: Rows, centre: np.ndarray, sd: np.ndarray) -> tuple[Records, np.ndarray] | None:
    """Whole values around `centre`, `{field: (N, C)}`, and which of them are no padding."""
    if not np.isfinite(centre).all():
        return None
    axes = []
    for j, spec in enumerate(rows.unknown.values()):
        low = np.clip(np.floor(centre[:, j] - _WIDE * sd[:, j]), spec.domain.low, spec.domain.high)
        high = np.clip(np.ceil(centre[:, j] + _WIDE * sd[:, j]), spec.domain.low, spec.domain.high)
        axes.append((low, high, float((high - low).max()) + 1))
    if np.prod([w for _, _, w in axes]) > _WINDOW:
        return None
    grids = np.meshgrid(*[np.arange(int(w)) for _, _, w in axes], indexing="ij")
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
