"""Certificates of optimality: lower bounds of the divergence.

For a kernel of finite rank and weights that are only constrained to be positive, the bound is the smallest value over
all signed measures, `-b' G^-1 b / 2`. Otherwise it is the conditional-gradient duality gap. The divergence is convex in
the measure, so for every feasible nu `FD(mu) - FD(nu) <= <g, mu - nu>` with the witness
`g(z) = k(z, mu) - mu_data(z)`. The minimum of g over the stated domain bounds the gap to all non-negative measures of
the given mass there.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.arrays import Array
from bayesrecon.attacks.duality import CANDIDATES, Ends, lowest
from bayesrecon.attacks.pseudodata.quadratic import Features, amplitudes
from bayesrecon.attacks.pseudodata.support import Support
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Model, PseudoData, Records

_PER_ROW = 64  # values tried per row of a table; with fewer, the smallest witness is missed and the bound is too strong
_BROAD = 0.3  # share of the candidates that are spread broadly: the witness is smallest where records are missing
_WIDE = 10.0  # half width of the search on an unbounded field, in units of the data's spread
_MASS = 2.0  # bound on the mass, as a multiple of the measure's own


Box = dict[str, Ends]
"""Ends `(low, high)` by field."""


@dataclass(frozen=True)
class Certificate:
    """A certified distance to the optimum.

    Attributes:
        kind: "signed measures" or "measures of bounded mass".
        gap: largest difference between the divergence and its optimum.
        minima: records at the smallest local minima of the witness. If it is negative there, mass is missing.
        domain: `{field: (low, high)}`, the domain that was searched.
        mass: bound on the total weight.
    """

    kind: str
    gap: float
    minima: Records | None = None
    domain: Box | None = None
    mass: float | None = None


def signed(features: Features, pseudo: PseudoData) -> Certificate:
    """The gap to the best signed measure."""
    return Certificate("signed measures", 0.5 * float(np.sum(residual(features, pseudo) ** 2)))


def residual(features: Features, pseudo: PseudoData) -> Float[np.ndarray, " r"]:
    """`u = R (s - y)`, `(r,)`."""
    return features.root @ (np.asarray(features.at(pseudo.records)).T @ pseudo.weights) - features.matched


def bounded(
    features: Features, pseudo: PseudoData, support: Support, reference: Reference, rng: np.random.Generator
) -> Certificate:
    """The gap to the best non-negative measure of bounded mass on the stated domain."""
    slope = features.root.T @ residual(features, pseudo)  # the witness is c(z)' slope
    values_here = np.asarray(features.at(pseudo.records)) @ slope
    chart = support.chart
    if reference.known:
        return _by_rows(features, pseudo, support, reference, rng, slope, values_here)
    box, candidates = candidates_of(support, reference, rng, CANDIDATES)
    candidates = {k: np.concatenate([v, np.asarray(pseudo.records[k])]) for k, v in candidates.items()}
    values = np.asarray(features.at(candidates)) @ slope
    moving = {name: box[name] for name, _ in chart.moved}
    arguments = (features.embedding.release.model, tuple(moving), features.embedding.metric, *features.atoms, slope)
    refined = lowest(values, candidates, moving, partial(_witness, *arguments))
    value = min(v for _, v in refined)
    minima = {k: np.stack([np.asarray(record[k]) for record, _ in refined]) for k in candidates}
    mass = float(pseudo.weights.sum())
    if chart.weights in ("total", "fixed", "units"):
        gap = float(pseudo.weights @ values_here) - mass * value
    else:
        mass *= _MASS
        gap = float(pseudo.weights @ values_here) - mass * min(value, 0.0)
    return Certificate("measures of bounded mass", max(gap, 0.0), minima, box, mass)


def candidates_of(support: Support, reference: Reference, rng: np.random.Generator, count: int) -> tuple[Box, Records]:
    """The domain `{field: (low, high)}` to search, and records spread over it."""
    integer_fields = [k for k, f in reference.fields.items() if f.domain.kind == "integer" and k not in reference.known]
    box = {name: _box(reference, name) for name in (*(n for n, _ in support.chart.moved), *integer_fields)}
    broad = Reference(reference.fields, reference.known, reference.centre, reference.scale, _BROAD)
    records = broad.draw(rng, count)
    for name, ends in box.items():
        records[name] = inside(records[name], ends)
    return box, records


def inside(values: np.ndarray, ends: Ends) -> np.ndarray:
    """The values clipped to an interval. Integers stay integers."""
    low, high = ends if values.dtype.kind == "f" else (np.ceil(ends[0]), np.floor(ends[1]))
    return np.clip(values, low, high).astype(values.dtype)


def _by_rows(
    features: Features,
    pseudo: PseudoData,
    support: Support,
    reference: Reference,
    rng: np.random.Generator,
    slope: np.ndarray,
    values_here: np.ndarray,
) -> Certificate:
    """The gap if fields are known: each row of the table has the weight of one record."""
    rows = len(next(iter(reference.known.values())))
    unknown = {k: f for k, f in reference.fields.items() if k not in reference.known}
    best = np.full(rows, np.inf)
    broad = Reference(unknown, {}, reference.centre, reference.scale, _BROAD)
    for _ in range(_PER_ROW):
        values = np.asarray(features.at({**reference.known, **broad.draw(rng, rows)})) @ slope
        best = np.minimum(best, values)
    group = support.chart.group
    best = np.minimum(best, values_here.reshape(rows, group).min(axis=1))
    gap = float(pseudo.weights @ values_here - best.sum())
    box = {name: _box(reference, name) for name, _ in support.chart.moved}
    return Certificate("one record a row", max(gap, 0.0), None, box, float(rows))


def _box(reference: Reference, name: str) -> Ends:
    domain = reference.fields[name].domain
    centre = np.asarray(reference.centre.get(name, 0.0), float)
    reach = _WIDE * np.maximum(np.asarray(reference.scale.get(name, 1.0), float), 1e-12)
    low = np.full_like(centre, domain.low) if np.isfinite(domain.low) else centre - reach
    high = np.full_like(centre, domain.high) if np.isfinite(domain.high) else centre + reach
    return (low, high) if centre.shape else (float(low), float(high))


@partial(jax.jit, static_argnames=("model", "moved"))
def _witness(
    model: Model,
    moved: tuple[str, ...],
    metric: Array,
    theta: Array,
    inverse: Array,
    slope: Array,
    x: Records,
    fixed: Records,
) -> tuple[jax.Array, Records]:
    def value(x: Records) -> Array:
        batch = {k: jnp.asarray(v)[None] for k, v in {**fixed, **x}.items()}
        return amplitudes(model, metric, theta, inverse, batch)[0] @ slope

    return jax.value_and_grad(value)(x)
