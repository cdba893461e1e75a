"""The unknown fields of each known row, represented by a few features per row.

With the design x_n known and u_n not, the log likelihood moves with u only through a few functions of theta,

    l(theta, x_n, u) = l(theta, x_n, u_0) + sum_j s_j(u) f_nj(theta) + const(u),
    f_nj = l(., x_n, u_j) - l(., x_n, u_0),

with anchors u_0 .. u_p: p = 1 for a binary answer or a binomial count, more for categories. The release determines
the amplitudes s of every row, and those name the value.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float

from bayesrecon.diagnostics import evenly
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.score import Pairs, log_liks, scores
from bayesrecon.model import Field, Model, Records
from bayesrecon.releases import Release

_POOL = 24  # generic values tried in the search for anchors
_ROWS, _ATOMS = 12, 24  # rows and atoms they are tried on
_RANK = 1e-7  # of a row's anchors: one that adds less is the sum of others except for rounding of their scores
_COMBINED = 1e-11  # squared share of a feature that those before it leave: less is rounding
_VALUES = 2**22  # log likelihoods evaluated at once
_MOST_CANDIDATES = 256  # values of a row that are listed rather than sampled: every row holds them all


@dataclass(frozen=True)
class Rows:
    """The known rows, the fields that are sought on each, and the anchors.

    Attributes:
        known: `{field: (N, *shape)}`.
        unknown: the sought fields, all scalar.
        anchors: `{field: (p + 1,)}`; the first is the base u_0.
        distinct: `(N, p)` the features that are no combination of those before them on the same row at any draw, M in
            all: on an item with two categories the feature of a third says nothing of its own.
    """

    known: Records
    unknown: Mapping[str, Field]
    anchors: Records
    distinct: Bool[np.ndarray, "N p"]

    @property
    def count(self) -> int:
        """N, the number of rows."""
        return len(next(iter(self.known.values())))

    @property
    def features(self) -> int:
        """p, the most features of a row."""
        return len(next(iter(self.anchors.values()))) - 1

    def base(self) -> Records:
        """Every row with the base value, `(N, ...)`."""
        return self.filled({k: np.repeat(v[:1], self.count) for k, v in self.anchors.items()}, 1)

    def pairs(self) -> Pairs:
        """Known fields, base values and anchors of the distinct features, `(M, ...)` each, row by row."""
        row, feature = np.nonzero(self.distinct)
        base = {k: np.repeat(v[:1], len(row)) for k, v in self.anchors.items()}
        return {k: v[row] for k, v in self.known.items()}, base, {k: v[feature + 1] for k, v in self.anchors.items()}

    def padded(self, values: np.ndarray) -> np.ndarray:
        """`(..., M)` as `(..., N, p)`, zeros for features that are not distinct."""
        result = np.zeros((*values.shape[:-1], *self.distinct.shape))
        result[..., self.distinct] = values
        return result

    def padded_square(self, values: np.ndarray) -> np.ndarray:
        """`(M, M)` as `(N * p, N * p)`."""
        if self.distinct.all():
            return values
        place = np.flatnonzero(self.distinct)
        result = np.zeros((self.distinct.size, self.distinct.size))
        result[np.ix_(place, place)] = values
        return result

    def filled(self, values: Records, repeats: int) -> Records:
        """Records from `repeats` values a row, `(N * each,)` per field."""
        known = {k: np.repeat(v, repeats, axis=0) for k, v in self.known.items()}
        return {**known, **values}


def make_rows(release: Release, known: Records, unknown: Mapping[str, Field], rng: np.random.Generator) -> Rows:
    """Find anchors: values whose scores span what any value does to any row.

    Raises `BayesreconError` where a field is no scalar, or no value of it moves the posterior.
    """
    for name, spec in unknown.items():
        if spec.shape:
            raise BayesreconError(f"records need scalar unknown fields, but {name!r} has shape {spec.shape}")
    model = release.model
    count = len(next(iter(known.values())))
    sample = np.sort(rng.choice(count, min(_ROWS, count), replace=False))
    theta = np.asarray(release.theta)[evenly(release.size, _ATOMS)]
    few = {k: v[sample] for k, v in known.items()}
    pool = _pool(model, theta, few, unknown, rng)
    size = len(next(iter(pool.values())))
    batch = {k: np.repeat(v, size, axis=0) for k, v in few.items()} | {
        k: np.tile(v, len(sample)) for k, v in pool.items()
    }
    phi = np.asarray(scores(model, np.diag(theta.std(axis=0) + 1e-12), theta, batch)).reshape(-1, len(sample), size)
    legal = np.asarray(np.isfinite(phi).all(axis=(0, 1)))
    if not legal[0]:
        raise BayesreconError(f"the likelihood of {', '.join(unknown)} is not finite on the known rows; narrow domain=")
    phi, pool = phi[:, :, legal], {k: v[legal] for k, v in pool.items()}
    chosen: list[int] = []
    for row in range(len(sample)):
        moved = phi[:, row, 1:] - phi[:, row, :1]
        size_of = np.linalg.norm(moved, axis=0)
        if not size_of.max() > 1e-12 * max(np.linalg.norm(phi[:, row, 0]), 1e-300):
            continue
        factored: Any = scipy.linalg.qr(moved / np.maximum(size_of, 1e-300), mode="economic", pivoting=True)
        _, r, order = factored
        rank = int((np.abs(np.diag(r)) > _RANK * abs(r[0, 0])).sum())
        if rank > len(chosen):
            chosen = sorted(int(i) + 1 for i in order[:rank])
    if not chosen:
        raise BayesreconError(f"no value of {', '.join(unknown)} affects the posterior: it cannot be recovered")
    rows = Rows(known, unknown, {k: v[[0, *chosen]] for k, v in pool.items()}, np.ones((count, len(chosen)), bool))
    return replace(rows, distinct=_distinct(release, rows))


def _distinct(release: Release, rows: Rows) -> np.ndarray:
    """Dependence among the values of a row's features at all draws, up to constants."""
    n, p = rows.distinct.shape
    theta = np.asarray(release.theta)
    if p == 1:  # a few draws tell whether a feature moves at all
        theta = theta[evenly(len(theta), _ATOMS)]
    batch = rows.filled({k: np.tile(v, n) for k, v in rows.anchors.items()}, p + 1)
    total, gram, shift = np.zeros((n, p)), np.zeros((n, p, p)), 0.0
    step = min(max(1, _VALUES // (n * (p + 1))), len(theta))
    starts = [*range(0, len(theta) - step, step), len(theta) - step]  # one shape to compile; the last two may overlap
    for start in starts:
        value = np.asarray(log_liks(release.model, theta[start : start + step], batch)).reshape(-1, n, p + 1)
        value = value[:, :, 1:] - value[:, :, :1]
        shift = value[0] if not start else shift
        value = value - shift
        total += value.sum(axis=0)
        gram += np.einsum("tnp,tnq->npq", value, value)
    gram -= total[:, :, None] * total[:, None, :] / (step * len(starts))
    size = np.einsum("npp->np", gram).copy()
    result = np.ones((n, p), bool)
    if len(theta) <= p + 1:
        return result
    for j in range(p):
        # What is not a number stays in, so that the pass over the draws says so.
        result[:, j] = ~(np.isfinite(size[:, j]) & (gram[:, j, j] <= _COMBINED * size[:, j]))
        pivot = np.where(result[:, j], gram[:, j, j], np.inf)
        gram -= (gram[:, :, j] / pivot[:, None])[:, :, None] * gram[:, None, j]
    return result


def _pool(
    model: Model, theta: np.ndarray, few: Records, unknown: Mapping[str, Field], rng: np.random.Generator
) -> Records:
    """Generic values of the unknown fields: all of them where they are finitely many, else plausible ones."""
    finite = combinations(unknown)
    if finite is not None and len(next(iter(finite.values()))) <= _MOST_CANDIDATES:
        return finite
    count = len(next(iter(few.values())))
    drawn: Records = {}
    for name, spec in unknown.items():
        domain = spec.domain
        values = domain.draw(rng, (_POOL * count,), 1.0, 1.0)
        if domain.kind == "integer":
            # Small values, which are legal whatever bounds one field sets another.
            values = np.clip(rng.integers(0, 4, _POOL * count) + max(domain.low, 0), domain.low, domain.high)
        drawn[name] = values.astype(domain.dtype)
    if model.simulate is not None:
        # Where responses lie is what the model itself says.
        batch = {k: np.tile(v, (_POOL, *([1] * (v.ndim - 1)))) for k, v in few.items()} | drawn
        params = model.constrain(theta[0])
        simulated = model.simulate(params, batch, jax.random.key(int(rng.integers(2**31))))
        for name, spec in unknown.items():
            values = np.asarray(simulated[name], float)
            if spec.domain.kind == "real" or spec.domain.kind == "interval":
                inside = spec.domain.contains(values)
                drawn[name] = np.where(inside, values, drawn[name])
    picked = evenly(_POOL * count, _POOL)
    return {k: v[picked] for k, v in drawn.items()}


def combinations(unknown: Mapping[str, Field]) -> Records | None:
    """Every combination of the unknown fields' values, where they are few; None otherwise."""
    choices = []
    for spec in unknown.values():
        domain = spec.domain
        if domain.kind == "levels":
            choices.append(list(domain.levels))
        elif domain.kind == "integer" and domain.high - domain.low < _MOST_CANDIDATES:
            choices.append(list(range(int(domain.low), int(domain.high) + 1)))
        else:
            return None
    table = list(itertools.product(*choices))
    if len(table) > _MOST_CANDIDATES:
        return None
    return {k: np.array([c[i] for c in table], unknown[k].domain.dtype) for i, k in enumerate(unknown)}


def amplitudes_of(
    values: Float[np.ndarray, "E N C"], features: Float[np.ndarray, "E N p"]
) -> Float[np.ndarray, "N C p"]:
    """Coordinates s `(N, C, p)` of candidates from score differences to the base.

    Args:
        values: `(E, N, C)` scores of the candidates less the base's, in E equations.
        features: `(E, N, p)` scores of the features.
    """
    f, g = np.moveaxis(features, 0, 1), np.moveaxis(values, 0, 1)  # (N, E, p), (N, E, C)
    return np.moveaxis(np.linalg.pinv(f, rcond=1e-10) @ g, 1, 2)
