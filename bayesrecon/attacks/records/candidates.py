"""Possible values of every row, their amplitudes, and their probabilities under the model."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Shaped

from bayesrecon.attacks.records.rows import Rows, amplitudes_of, combinations
from bayesrecon.attacks.records.slots import Slots
from bayesrecon.diagnostics import evenly
from bayesrecon.kernels.score import log_liks, slopes
from bayesrecon.model import Records, simulated
from bayesrecon.releases import Release

_ATOMS = 12  # draws on which amplitudes are computed
_PRIOR, _LEAST = 1024, 64  # draws over which the model's own opinion is averaged, and the fewest of long lists
_AVERAGED = 2**27  # log likelihoods that this may take
_WIDE, _WINDOW = 6.0, 400  # standard errors around an estimate that are searched, and the most values a row may have
_SIMULATED = 16384  # responses drawn for a guess: its own error is below one per cent of the model's spread
_DRAWN = 2**22  # responses drawn at once
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
        values, amplitudes: the values it was read from, `{field: (N, C)}`, and their amplitudes `(N, C, p)`, not
            finite where a value is illegal.
        averages: those of `_averages` at these values, where they are all that there are; else None.
    """

    columns: Any
    offset: Float[np.ndarray, "N k"]
    readable: Bool[np.ndarray, "N k"]
    values: Records
    amplitudes: np.ndarray
    averages: tuple[np.ndarray, np.ndarray] | None


@dataclass(frozen=True)
class PriorPrediction:
    """Prediction of a row from the model and its posterior, without an attack.

    Attributes:
        value: `(N,)` the most probable value, or the expectation, over the draws; None if the model says nothing.
        sd: `(N,)` standard deviation of the field around it, infinite where the model tells none.
    """

    value: Shaped[np.ndarray, " N"] | None
    sd: Float[np.ndarray, " N"]


@dataclass(frozen=True)
class Candidates:
    """Legal values of the rows.

    Attributes:
        values: `{field: (N, C)}`.
        amplitudes: `(N, C, p)`.
        log_prior: `(N, C)` the model's mean log likelihood over the draws; minus infinity where illegal or padding.
        prior: `(N, C)` their probabilities by the model, averaged over the draws.
    """

    values: Records
    amplitudes: Float[np.ndarray, "N C p"]
    log_prior: Float[np.ndarray, "N C"]
    prior: Float[np.ndarray, "N C"]

    def most_probable(self, name: str, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The most probable value of a field, its probability, and the prior probability of the same value."""
        values = self.values[name]
        same = values[:, :, None] == values[:, None, :]
        marginal = np.einsum("ncd,nd->nc", same, probability)
        best = marginal.argmax(axis=1)
        rows = np.arange(len(values))
        return values[rows, best], marginal[rows, best], np.einsum("nd,nd->n", same[rows, best], self.prior)


def readout(release: Release, rows: Rows, slots: Slots, rng: np.random.Generator) -> Readout:
    """How the unknown fields are read from the amplitudes."""
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
    complete = combinations(rows.unknown) is not None
    if complete:
        log_lik, _ = _averages(release, rows, values, _ATOMS)
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
    return Readout(
        columns, offset, readable, values, amplitudes, _averages(release, rows, values) if complete else None
    )


def candidates_of(
    release: Release, rows: Rows, slots: Slots, read: Readout, around: Around, expected: Around
) -> Candidates | None:
    """Every combination of values where they are few, else those around where they should be; None if those are too
    many. `expected` is the prediction of the model alone, NaN if it has none."""
    if read.averages is not None:
        values, s = read.values, read.amplitudes
        valid = np.ones_like(s[:, :, 0], bool)
    else:
        grid = _windows(rows, *around)
        if grid is None:
            return None
        values, valid = grid
        s = _amplitudes(release, rows, slots, values)
    log_prior, log_mean = read.averages or _averages(release, rows, values)
    legal = valid & np.isfinite(log_prior) & np.isfinite(s).all(axis=2)
    if not legal.any(axis=1).all():
        return None
    log_prior, log_mean = (np.where(legal, x, -np.inf) for x in (log_prior, log_mean))
    # Of all values that the model expects, in the list or not.
    total = np.logaddexp.reduce(log_mean, axis=1)
    expected_grid = _windows(rows, *expected) if read.averages is None else None
    if expected_grid is not None:
        every, valid = expected_grid
        total = np.logaddexp.reduce(np.where(valid, _averages(release, rows, every)[1], -np.inf), axis=1)
    return Candidates(values, np.where(legal[:, :, None], s, 0.0), log_prior, np.exp(log_mean - total[:, None]))


def _averages(release: Release, rows: Rows, values: Records, draws: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Over the draws: mean log likelihoods of values `{field: (N, C)}`, and logarithms of mean likelihoods, `(N, C)`
    each; minus infinity where it is not a number.

    They are those of the records' own distribution, whatever the power of the posterior.
    """
    model, shape = release.model.untempered, next(iter(values.values())).shape
    count = draws or int(np.clip(_AVERAGED // max(1, shape[0] * shape[1]), _LEAST, _PRIOR))
    theta = np.asarray(release.theta)[evenly(release.size, count)]
    batch = rows.filled({k: v.ravel() for k, v in values.items()}, shape[1])
    parts = []
    for part in _pieces(batch, len(theta)):
        log_lik = np.asarray(log_liks(model, theta, part))
        parts.append((log_lik.mean(axis=0), np.logaddexp.reduce(log_lik, axis=0) - np.log(len(theta))))
    mean, log_mean = (np.concatenate(x).reshape(shape) for x in zip(*parts, strict=True))
    return tuple(np.where(np.isnan(x), -np.inf, x) for x in (mean, log_mean))  # type: ignore[return-value]


def prior_predictions(
    release: Release, rows: Rows, read: Readout, rng: np.random.Generator
) -> dict[str, PriorPrediction]:
    """Predictions by field. There are none if the model does not simulate all fields."""
    model, n = release.model, rows.count
    unknown = np.full(n, np.inf)
    if read.averages is not None:
        best = read.averages[1].argmax(axis=1)
        return {k: PriorPrediction(v[np.arange(n), best], unknown) for k, v in read.values.items()}
    nothing = {k: PriorPrediction(None, unknown) for k in rows.unknown}
    if model.simulate is None:
        return nothing
    moments = _simulated_moments(release, rows, rng)
    if moments is None:
        return nothing
    mean, sd = moments
    if all(spec.domain.discrete for spec in rows.unknown.values()):
        windows = _windows(rows, mean, np.maximum(sd, 1.0))
        if windows is not None:
            values, valid = windows
            likely = np.where(valid, _averages(release, rows, values)[1], -np.inf)
            best = likely.argmax(axis=1)
            mean = np.stack([v[np.arange(n), best] for v in values.values()], axis=1)
    result = {}
    for j, (name, spec) in enumerate(rows.unknown.items()):
        result[name] = PriorPrediction(np.round(mean[:, j]) if spec.domain.discrete else mean[:, j], sd[:, j])
    return result


def _simulated_moments(release: Release, rows: Rows, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray] | None:
    """Means and standard deviations `(N, k)` of the unknown fields over the draws, the second infinite where the first
    is not a number; None if the model does not draw one of them."""
    before, weights = rows.base(), np.asarray(release.weights)
    block = int(np.clip(_DRAWN // rows.count, 1, _SIMULATED))
    atoms = rng.choice(release.size, (_SIMULATED // block, block), p=weights / weights.sum())
    total = square = shift = np.zeros(())
    for theta_block in atoms:
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), block)
        drawn = simulated(release.model, np.asarray(release.theta)[theta_block], before, keys)
        values = np.stack([np.asarray(drawn[name], float) for name in rows.unknown], axis=2)
        if not shift.ndim:
            if any((values[:, :, j] == before[name]).all() for j, name in enumerate(rows.unknown)):
                return None
            shift = values.mean(axis=0)
        total = total + (values - shift).sum(axis=0)
        square = square + ((values - shift) ** 2).sum(axis=0)
    mean = total / atoms.size
    return shift + mean, np.nan_to_num(np.sqrt(square / atoms.size - mean**2), nan=np.inf)


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
    result = []
    for start in range(0, n, step):
        part, flat = slice(start, start + step), slice(start * each, (start + step) * each)
        known_, base_, other_ = ({k: v[flat] for k, v in part_.items()} for part_ in (known, base, other))
        moved = slopes(release.model, theta, (known_, base_, other_), slots.colours)
        moved = np.asarray(moved).reshape(features.shape[0], -1, each)
        bad = ~np.isfinite(moved).all(axis=0)
        s = amplitudes_of(np.where(bad, 0.0, moved), features[:, part])
        s[bad] = np.nan
        result.append(s)
    return np.concatenate(result)


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
