"""The unknown fields of each known row, represented by a few features per row.

The design x_n is known and u_n is not. The log likelihood depends on u only through a few functions of theta,

    l(theta, x_n, u) = l(theta, x_n, u_0) + sum_j s_j(u) f_nj(theta) + const(u),
    f_nj = l(., x_n, u_j) - l(., x_n, u_0),

with anchors u_0 .. u_p. For a binary answer or a binomial count p is 1, and for categories it is larger. The release
determines the amplitudes s of each row, and these determine the value.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import scipy.linalg
import scipy.sparse
from jaxtyping import Bool, Float, Int

from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.score import Pairs, feature_gradients, log_liks, scores
from bayesrecon.divergence.touched import NONE, coloured
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Records
from bayesrecon.releases import Release

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_POOL = 24  # generic values among which anchors are searched
_ROWS, _ATOMS = 12, 24  # rows and atoms used in this search
_RANK = 1e-7  # pivots below this share of the largest are rounding of the scores
_COMBINED = 1e-11  # features with a smaller squared residual share are combinations of the previous ones
_VALUES = 2**22  # log likelihoods evaluated at once
_MOST_CANDIDATES = 256  # with more values of a row, they are sampled instead of listed


@dataclass(frozen=True)
class KnownRows:
    """The known rows, their unknown fields, and the anchors.

    Attributes:
        known: `{field: (N, *shape)}`.
        unknown: the unknown fields, all scalar.
        anchors: `{field: (p + 1,)}`, of which the first is the base u_0.
        distinct: `(N, p)` whether a feature is linearly independent of the previous ones of its row over the draws. M
            of them are. For example, the feature of a third category is not, on an item with two categories.
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
        """p, the largest number of features per row."""
        return len(next(iter(self.anchors.values()))) - 1

    def base(self) -> Records:
        """All rows with the base value, `(N, ...)`."""
        return self.filled({k: np.repeat(v[:1], self.count) for k, v in self.anchors.items()}, 1)

    def pairs(self) -> Pairs:
        """Known fields, base values and anchors of the distinct features, `(M, ...)` each."""
        row, feature = np.nonzero(self.distinct)
        base = {k: np.repeat(v[:1], len(row)) for k, v in self.anchors.items()}
        return {k: v[row] for k, v in self.known.items()}, base, {k: v[feature + 1] for k, v in self.anchors.items()}

    def padded(self, values: np.ndarray) -> np.ndarray:
        """Reshape `(..., M)` to `(..., N, p)`, with zeros for features that are not distinct."""
        result = np.zeros((*values.shape[:-1], *self.distinct.shape))
        result[..., self.distinct] = values
        return result

    def padded_square(self, values: np.ndarray) -> np.ndarray:
        """Reshape `(M, M)` to `(N * p, N * p)`, with zeros for features that are not distinct."""
        if self.distinct.all():
            return values
        place = np.flatnonzero(self.distinct)
        result = np.zeros((self.distinct.size, self.distinct.size))
        result[np.ix_(place, place)] = values
        return result

    def filled(self, values: Records, repeats: int) -> Records:
        """Records from `repeats` values per row, `(N * repeats,)` for each field."""
        known = {k: np.repeat(v, repeats, axis=0) for k, v in self.known.items()}
        return {**known, **values}


def make_rows(release: Release, known: Records, unknown: Mapping[str, Field], rng: np.random.Generator) -> KnownRows:
    """Find anchors: values whose scores span the scores of all values on all rows.

    Raises `BayesreconError` if an unknown field is not scalar, or none of its values affects the posterior.
    """
    for name, spec in unknown.items():
        if spec.shape:
            raise BayesreconError(f"records need scalar unknown fields, but {name!r} has shape {spec.shape}")
    model = release.model
    count = len(next(iter(known.values())))
    sample = np.sort(rng.choice(count, min(_ROWS, count), replace=False))
    theta = np.asarray(release.theta)[evenly(release.size, _ATOMS)]
    sampled = {k: v[sample] for k, v in known.items()}
    pool = _pool(model, theta, sampled, unknown, rng)
    size = len(next(iter(pool.values())))
    batch = {k: np.repeat(v, size, axis=0) for k, v in sampled.items()} | {
        k: np.tile(v, len(sample)) for k, v in pool.items()
    }
    phi = np.asarray(scores(model, np.diag(theta.std(axis=0) + 1e-12), theta, batch)).reshape(-1, len(sample), size)
    legal = np.asarray(np.isfinite(phi).all(axis=(0, 1)))
    if not legal[0]:
        raise BayesreconError(f"the likelihood of {', '.join(unknown)} is not finite on the known rows; narrow domain=")
    phi, pool = phi[:, :, legal], {k: v[legal] for k, v in pool.items()}
    chosen: list[int] = []
    for row in range(len(sample)):
        differences = phi[:, row, 1:] - phi[:, row, :1]
        norms = np.linalg.norm(differences, axis=0)
        if not norms.max() > 1e-12 * max(np.linalg.norm(phi[:, row, 0]), 1e-300):
            continue
        factored: Any = scipy.linalg.qr(differences / np.maximum(norms, 1e-300), mode="economic", pivoting=True)
        _, r, order = factored
        rank = int((np.abs(np.diag(r)) > _RANK * abs(r[0, 0])).sum())
        if rank > len(chosen):
            chosen = sorted(int(i) + 1 for i in order[:rank])
    if not chosen:
        raise BayesreconError(f"no value of {', '.join(unknown)} affects the posterior: it cannot be recovered")
    rows = KnownRows(known, unknown, {k: v[[0, *chosen]] for k, v in pool.items()}, np.ones((count, len(chosen)), bool))
    return replace(rows, distinct=_distinct(release, rows))


def _distinct(release: Release, rows: KnownRows) -> np.ndarray:
    """Which features are linearly independent of the previous ones of their row over the draws, up to constants."""
    n, p = rows.distinct.shape
    theta = np.asarray(release.theta)
    if p == 1:  # a few draws show whether a feature is constant
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
        # NaN stays in: the pass over the draws raises the error.
        result[:, j] = ~(np.isfinite(size[:, j]) & (gram[:, j, j] <= _COMBINED * size[:, j]))
        pivot = np.where(result[:, j], gram[:, j, j], np.inf)
        gram -= (gram[:, :, j] / pivot[:, None])[:, :, None] * gram[:, None, j]
    return result


def _pool(
    model: Model, theta: np.ndarray, sampled: Records, unknown: Mapping[str, Field], rng: np.random.Generator
) -> Records:
    """Generic values of the unknown fields: all of them if there are few, or else plausible ones."""
    finite = combinations(unknown)
    if finite is not None and len(next(iter(finite.values()))) <= _MOST_CANDIDATES:
        return finite
    count = len(next(iter(sampled.values())))
    pool: Records = {}
    for name, spec in unknown.items():
        domain = spec.domain
        drawn = domain.draw(rng, (_POOL * count,), 1.0, 1.0)
        if domain.kind == "integer":
            # Small values, which are legal even if one field bounds another.
            drawn = np.clip(rng.integers(0, 4, _POOL * count) + max(domain.low, 0), domain.low, domain.high)
        pool[name] = drawn.astype(domain.dtype)
    if model.simulate is not None:
        # Plausible responses are drawn from the model.
        batch = {k: np.tile(v, (_POOL, *([1] * (v.ndim - 1)))) for k, v in sampled.items()} | pool
        params = model.constrain(theta[0])
        simulated = model.simulate(params, batch, jax.random.key(int(rng.integers(2**31))))
        for name, spec in unknown.items():
            drawn = np.asarray(simulated[name], float)
            if spec.domain.kind == "real" or spec.domain.kind == "interval":
                inside = spec.domain.contains(drawn)
                pool[name] = np.where(inside, drawn, pool[name])
    positions = evenly(_POOL * count, _POOL)
    return {k: v[positions] for k, v in pool.items()}


def combinations(unknown: Mapping[str, Field]) -> Records | None:
    """All combinations of the unknown fields' values; None if there are too many."""
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
    """Amplitudes s of candidates, from differences of their scores to those of the base.

    Args:
        values: `(E, N, C)` scores of the candidates minus those of the base, in E equations.
        features: `(E, N, p)` scores of the features.
    """
    f, g = np.moveaxis(features, 0, 1), np.moveaxis(values, 0, 1)  # (N, E, p), (N, E, C)
    return np.moveaxis(np.linalg.pinv(f, rcond=1e-10) @ g, 1, 2)


# The parameters that each row depends on. Their sparsity makes thousands of unknown records affordable.
#
# An answer depends on the parameters of its person and its item only. Given all other coordinates, the coordinates that
# the same rows depend on have a conditional distribution, whose score satisfies the same identity. So the metric is the
# identity in coordinates that are white within each such group. Coordinates that no row shares get the same colour. A
# row then has at most one coordinate of each colour, its "slots", and
#
#     k(n, m) = sum_A  1[i_A(n) = i_A(m)]  E_t[ D_A(t, n) D_A(t, m) ],    D_A(t, n) = d f_n / d theta_{i_A(n)}.
#
# One sweep along the sum of a colour's coordinates gives D_A of all rows (Curtis, Powell and Reid 1974). Coordinates
# that nearly all rows depend on may be left out.

_SHARED = 0.5  # a coordinate is shared if more than this share of the rows depends on it


@dataclass(frozen=True)
class RowParameters:
    """The coordinates that each row depends on.

    Attributes:
        basis: `(k, d)` directions of theta that are used as coordinates. The metric is the identity in them.
        index: `(M, q)` coordinate of each slot; -1 if a row has none of this colour.
        colours: `(q, d)` sum of the coordinates of each colour.
        shared: positions in theta of the coordinates that are left out, because nearly all rows depend on them.
        untouched: positions in theta of the coordinates that no row depends on.
    """

    basis: Float[np.ndarray, "k d"]
    index: Int[np.ndarray, "M q"]
    colours: Float[np.ndarray, "q d"]
    shared: np.ndarray
    untouched: np.ndarray

    @property
    def width(self) -> int:
        """q, the number of slots of a row."""
        return self.index.shape[1]

    @property
    def left_out(self) -> int:
        """Number of shared coordinates that are left out."""
        return len(self.shared)

    @property
    def directions(self) -> np.ndarray:
        """The basis and the untouched coordinates, `(k + u, d)`.

        The score of the reconstructed posterior is known along these directions.
        """
        return np.concatenate([self.basis, np.eye(self.basis.shape[1])[self.untouched]])

    def sharing(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Coordinates and rows of each set of rows that share coordinates."""
        sets: dict[bytes, tuple[list[int], np.ndarray]] = {}
        for a, column in enumerate(self.index.T):
            order = np.argsort(column, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(column[order])) + 1)
            for rows in map(np.sort, parts):
                if column[rows[0]] != NONE:
                    sets.setdefault(rows.tobytes(), ([], rows))[0].append(a)
        return [(np.array(slots), rows) for slots, rows in sets.values()]

    def common(self, values: Float[np.ndarray, "q M"]) -> "csr_array":
        """Sparse vectors `(M, c)`: the values of a slot on the rows that share its coordinate."""
        rows = [np.flatnonzero(column != NONE) for column in self.index.T]
        column = np.concatenate([self.index[present, a] for a, present in enumerate(rows)])
        entries = np.concatenate([values[a, present] for a, present in enumerate(rows)])
        shape = (len(self.index), len(self.basis))
        return scipy.sparse.csr_array((entries, (np.concatenate(rows), column)), shape)


def make_slots(
    model: Model, theta: Float[np.ndarray, "T d"], metric: Float[np.ndarray, "d d"], pairs: Pairs
) -> RowParameters:
    """The coordinates that the features of `pairs` depend on.

    Args:
        theta: `(T, d)` atoms.
        metric: `(d, d)` factor of Sigma.
    """
    count = len(next(iter(pairs[0].values())))
    touched = np.zeros((count, theta.shape[1]), bool)
    for atom in theta[evenly(len(theta), 3)]:
        touched |= np.asarray(feature_gradients(model, atom, pairs)) != 0
    shared, untouched = touched.mean(axis=0) > _SHARED, np.flatnonzero(~touched.any(axis=0))
    # With more rows than coordinates, rows are told apart by how their gradients change over the draws. Shared
    # coordinates then add more noise than information.
    if count > theta.shape[1] and touched[:, ~shared].any(axis=1).all():
        touched[:, shared] = False
    else:
        shared[:] = False
    dependent = np.flatnonzero(touched.any(axis=0))
    touched = touched[:, dependent]
    scale = np.sqrt((metric**2).sum(axis=1))
    precision = np.linalg.inv((metric @ metric.T) / np.outer(scale, scale))[np.ix_(dependent, dependent)]
    basis = np.zeros((len(dependent), theta.shape[1]))
    _, group = np.unique(touched, axis=1, return_inverse=True)
    for number in range(group.max() + 1):
        members = np.flatnonzero(group.ravel() == number)
        values, vectors = np.linalg.eigh(precision[np.ix_(members, members)])
        basis[np.ix_(members, dependent[members])] = (vectors / np.sqrt(values)).T * scale[dependent[members]]
    colour, index = coloured(touched)
    colours = np.stack([basis[colour == c].sum(axis=0) for c in range(len(index))])
    return RowParameters(basis, np.ascontiguousarray(index.T), colours, np.flatnonzero(shared), untouched)
