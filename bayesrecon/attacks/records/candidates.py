"""Possible values of every row, their amplitudes, and their probabilities under the model."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float, Shaped

from bayesrecon.attacks.records.rows import KnownRows, RowParameters, amplitudes_of, combinations
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.score import log_liks, slopes
from bayesrecon.model import Records, simulated
from bayesrecon.releases import Release

if TYPE_CHECKING:
    from scipy.sparse import csc_array

_ATOMS = 12  # number of draws from which amplitudes are computed
_PRIOR, _LEAST = 1024, 64  # largest and smallest number of draws over which the model's probabilities are averaged
_AVERAGED = 2**27  # largest number of log likelihoods for these averages
_WIDE, _WINDOW = 6.0, 400  # half width of a window in standard errors, and its largest number of values
_SIMULATED = 16384  # responses drawn for a prediction: its error is below one per cent of the model's spread
_DRAWN = 2**22  # responses drawn at once
_PROBES = 8  # number of values other than the anchors at which a field is tested to be affine
_AFFINE = 1e-6  # largest deviation from an affine function, relative to the range: more than the rounding of amplitudes
_IMPOSSIBLE = 100.0  # values with a log likelihood this far below the best one of the row are excluded
_BLOCK = 2**18  # records evaluated at once

Around = tuple[np.ndarray, np.ndarray]
"""Centres and standard deviations of the unknown fields, `(N, k)` each."""


@dataclass(frozen=True)
class Readout:
    """Unknown fields as affine functions of s: `u = offset + columns' s`.

    Attributes:
        columns: `(M, N * k)`, sparse.
        offset: `(N, k)`.
        readable: `(N, k)` whether the field is an affine function of s.
        values: `{field: (N, C)}` the values to which the function was fitted.
        amplitudes: `(N, C, p)` amplitudes of these values, not finite if a value is illegal.
        averages: result of `_averages` for these values if they are all possible ones, or else None.
    """

    columns: "csc_array"
    offset: Float[np.ndarray, "N k"]
    readable: Bool[np.ndarray, "N k"]
    values: Records
    amplitudes: np.ndarray
    averages: tuple[np.ndarray, np.ndarray] | None


@dataclass(frozen=True)
class PriorPrediction:
    """Prediction of a field from the model and its posterior, without an attack.

    Attributes:
        value: `(N,)` most probable value, or expectation, averaged over the draws; None if there is no prediction.
        sd: `(N,)` standard deviation of the field around it; infinite if unknown.
    """

    value: Shaped[np.ndarray, " N"] | None
    sd: Float[np.ndarray, " N"]


@dataclass(frozen=True)
class CandidateValues:
    """Candidate values of the rows.

    Attributes:
        values: `{field: (N, C)}`.
        amplitudes: `(N, C, p)`.
        log_prior: `(N, C)` mean log likelihood over the draws; minus infinity for illegal values and padding.
        prior: `(N, C)` posterior predictive probabilities.
    """

    values: Records
    amplitudes: Float[np.ndarray, "N C p"]
    log_prior: Float[np.ndarray, "N C"]
    prior: Float[np.ndarray, "N C"]

    def most_probable(self, name: str, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The most probable value of a field, its probability, and the prior probability of the same value."""
        values = self.values[name]
        equal = values[:, :, None] == values[:, None, :]
        marginal = np.einsum("ncd,nd->nc", equal, probability)
        best = marginal.argmax(axis=1)
        rows = np.arange(len(values))
        return values[rows, best], marginal[rows, best], np.einsum("nd,nd->n", equal[rows, best], self.prior)


def readout(release: Release, rows: KnownRows, slots: RowParameters, rng: np.random.Generator) -> Readout:
    """Fit the unknown fields as affine functions of the amplitudes."""
    probes = combinations(rows.unknown)
    if probes is None:
        probes = {}
        for name, anchors in rows.anchors.items():
            others = rng.choice(anchors, _PROBES)
            if rows.unknown[name].domain.kind != "levels":
                centre, spread = anchors.astype(float).mean(), np.ptp(anchors) + 1e-9
                others = rows.unknown[name].domain.draw(rng, (_PROBES,), centre, spread)
            probes[name] = np.concatenate([anchors, others])
    choices, n, p = len(next(iter(probes.values()))), rows.count, rows.features
    values = {unknowns: np.tile(field_values, (n, 1)) for unknowns, field_values in probes.items()}
    amplitudes = _amplitudes(release, rows, slots, values)
    legal = np.asarray(np.isfinite(amplitudes).all(axis=2))
    complete = combinations(rows.unknown) is not None
    if complete:
        log_lik, _ = _averages(release, rows, values, _ATOMS)
        legal &= log_lik > log_lik.max(axis=1, keepdims=True) - _IMPOSSIBLE
    s = np.where(legal[:, :, None], amplitudes, 0.0)
    design = np.concatenate([np.ones((n, choices, 1)), s], axis=2) * legal[:, :, None]
    inverse = np.linalg.pinv(design, rcond=1e-10)
    unknowns = len(rows.unknown)
    slope, offset = np.zeros((n, p, unknowns)), np.zeros((n, unknowns))
    readable = np.zeros((n, unknowns), bool)
    for column, field_values in enumerate(values.values()):
        targets = np.where(legal, field_values.astype(float), 0.0)
        beta = np.einsum("nbc,nc->nb", inverse, targets)
        residual = targets - np.einsum("ncb,nb->nc", design, beta)
        legal_values = np.where(legal, targets, np.nan)
        readable[:, column] = np.abs(residual).max(axis=1) <= _AFFINE * (
            np.nanmax(legal_values, axis=1) - np.nanmin(legal_values, axis=1)
        )
        offset[:, column], slope[:, :, column] = beta[:, 0], beta[:, 1:]
    columns = scipy.sparse.bsr_array((slope, np.arange(n), np.arange(n + 1)), shape=(n * p, n * unknowns))
    columns = columns.tocsr()[np.flatnonzero(rows.distinct)].tocsc()
    return Readout(
        columns, offset, readable, values, amplitudes, _averages(release, rows, values) if complete else None
    )


def candidates_of(
    release: Release, rows: KnownRows, slots: RowParameters, read: Readout, around: Around, expected: Around
) -> CandidateValues | None:
    """All combinations of values if there are few, or else those in windows; None if there are too many.

    Args:
        read: result of `readout`.
        around: centres and half widths of the windows.
        expected: the model's predictions; NaN if there is none.
    """
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
    # The model may expect values that are not candidates.
    total = np.logaddexp.reduce(log_mean, axis=1)
    expected_grid = _windows(rows, *expected) if read.averages is None else None
    if expected_grid is not None:
        all_values, valid = expected_grid
        total = np.logaddexp.reduce(np.where(valid, _averages(release, rows, all_values)[1], -np.inf), axis=1)
    return CandidateValues(values, np.where(legal[:, :, None], s, 0.0), log_prior, np.exp(log_mean - total[:, None]))


def _averages(release: Release, rows: KnownRows, values: Records, draws: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Mean log likelihoods of values `{field: (N, C)}`, and logarithms of their mean likelihoods, `(N, C)` each.

    The means are over the draws. NaN becomes minus infinity. A power of the likelihood is not applied.
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
    return np.where(np.isnan(mean), -np.inf, mean), np.where(np.isnan(log_mean), -np.inf, log_mean)


def prior_predictions(
    release: Release, rows: KnownRows, read: Readout, rng: np.random.Generator
) -> dict[str, PriorPrediction]:
    """Predictions by field. They have no value if the model does not simulate all fields."""
    model, n = release.model, rows.count
    unknown = np.full(n, np.inf)
    if read.averages is not None:
        best = read.averages[1].argmax(axis=1)
        return {
            name: PriorPrediction(field_values[np.arange(n), best], unknown)
            for name, field_values in read.values.items()
        }
    no_predictions = {name: PriorPrediction(None, unknown) for name in rows.unknown}
    if model.simulate is None:
        return no_predictions
    moments = _simulated_moments(release, rows, rng)
    if moments is None:
        return no_predictions
    mean, sd = moments
    if all(spec.domain.discrete for spec in rows.unknown.values()):
        windows = _windows(rows, mean, np.maximum(sd, 1.0))
        if windows is not None:
            values, valid = windows
            log_mean = np.where(valid, _averages(release, rows, values)[1], -np.inf)
            best = log_mean.argmax(axis=1)
            mean = np.stack([field_values[np.arange(n), best] for field_values in values.values()], axis=1)
    result = {}
    for j, (name, spec) in enumerate(rows.unknown.items()):
        result[name] = PriorPrediction(np.round(mean[:, j]) if spec.domain.discrete else mean[:, j], sd[:, j])
    return result


def _simulated_moments(
    release: Release, rows: KnownRows, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray] | None:
    """Posterior predictive means and standard deviations of the unknown fields, `(N, k)` each.

    A standard deviation is infinite if it is not a number. The result is None if the model does not simulate one of
    the fields.
    """
    base, weights = rows.base(), np.asarray(release.weights)
    per_block = int(np.clip(_DRAWN // rows.count, 1, _SIMULATED))
    atoms = rng.choice(release.size, (_SIMULATED // per_block, per_block), p=weights / weights.sum())
    total = square = shift = np.zeros(())
    for theta_block in atoms:
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), per_block)
        drawn = simulated(release.model, np.asarray(release.theta)[theta_block], base, keys)
        values = np.stack([np.asarray(drawn[name], float) for name in rows.unknown], axis=2)
        if not shift.ndim:
            if any((values[:, :, j] == base[name]).all() for j, name in enumerate(rows.unknown)):
                return None
            shift = values.mean(axis=0)
        total = total + (values - shift).sum(axis=0)
        square = square + ((values - shift) ** 2).sum(axis=0)
    mean = total / atoms.size
    return shift + mean, np.nan_to_num(np.sqrt(square / atoms.size - mean**2), nan=np.inf)


def _amplitudes(release: Release, rows: KnownRows, slots: RowParameters, values: Records) -> np.ndarray:
    """Amplitudes `(N, C, p)` of values `{field: (N, C)}`; not finite for illegal values."""
    n, choices = next(iter(values.values())).shape
    theta = np.asarray(release.theta)[evenly(release.size, _ATOMS)]
    features = np.asarray(slopes(release.model, theta, rows.pairs(), slots.colours))
    features = rows.padded(features.reshape(-1, features.shape[-1]))
    known = {k: np.repeat(v, choices, axis=0) for k, v in rows.known.items()}
    base = {k: np.repeat(v[:1], n * choices) for k, v in rows.anchors.items()}
    other = {k: v.ravel() for k, v in values.items()}
    step = max(1, _BLOCK // (choices * slots.width))
    result = []
    for start in range(0, n, step):
        part, flat = slice(start, start + step), slice(start * choices, (start + step) * choices)
        known_, base_, other_ = ({k: v[flat] for k, v in part_.items()} for part_ in (known, base, other))
        differences = slopes(release.model, theta, (known_, base_, other_), slots.colours)
        differences = np.asarray(differences).reshape(features.shape[0], -1, choices)
        illegal = ~np.isfinite(differences).all(axis=0)
        s = amplitudes_of(np.where(illegal, 0.0, differences), features[:, part])
        s[illegal] = np.nan
        result.append(s)
    return np.concatenate(result)


def _windows(rows: KnownRows, centre: np.ndarray, sd: np.ndarray) -> tuple[Records, np.ndarray] | None:
    """Whole numbers around `centre`, `{field: (N, C)}`, and a mask `(N, C)` that is False for padding."""
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
    """Blocks of records whose log likelihoods at the atoms fit into memory."""
    size = len(next(iter(records.values())))
    step = max(1, 2**22 // atoms)
    return [{k: v[i : i + step] for k, v in records.items()} for i in range(0, size, step)]
