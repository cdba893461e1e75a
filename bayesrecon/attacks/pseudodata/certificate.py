"""How far a measure is from the best one: a lower bound of the divergence that needs no descent.

Kernel of finite rank, weights unconstrained except for their sign: the smallest value over all signed measures,
`-b' G^-1 b / 2`. Otherwise the conditional-gradient duality gap: the divergence is convex in the measure, so for
every feasible nu, `FD(mu) - FD(nu) <= <g, mu - nu>` with the witness `g(z) = k(z, mu) - mu_data(z)`; its minimum
over the stated domain bounds the gap over all non-negative measures there of the given mass.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from bayesrecon.attacks.duality import CANDIDATES, lowest
from bayesrecon.attacks.pseudodata.quadratic import Features, amplitudes
from bayesrecon.attacks.pseudodata.support import Support
from bayesrecon.estimation.anchors import Reference
from bayesrecon.model import Model, PseudoData, Records

_PER_ROW = 64  # values tried on every row of a table: fewer miss the smallest witness, and claim more than is true
_BROAD = 0.3  # share of the candidates that looks everywhere: the witness is smallest where records are missing
_WIDE = 10.0  # half-width of the search on an unbounded field, in units of the data's spread
_MASS = 2.0  # bound on the mass, in units of the measure's own


@dataclass(frozen=True)
class Certificate:
    """A certified distance to the optimum.

    Attributes:
        kind: "signed measures" or "measures of bounded mass".
        gap: the divergence exceeds the optimum by at most this.
        minima: records at which the witness has its smallest local minima; mass is missing where it is negative.
        domain: `{field: (low, high)}` that was searched.
        mass: bound on the total weight.
    """

    kind: str
    gap: float
    minima: Records | None = None
    domain: dict[str, Any] | None = None
    mass: float | None = None


def signed(features: Features, pseudo: PseudoData) -> Certificate:
    """Against the bound over all signed measures."""
    return Certificate("signed measures", 0.5 * float(np.sum(residual(features, pseudo) ** 2)))


def residual(features: Features, pseudo: PseudoData) -> Float[np.ndarray, " r"]:
    """`u = R (s - y)`, `(r,)`."""
    return features.root @ (np.asarray(features.at(pseudo.records)).T @ pseudo.weights) - features.wanted


def bounded(
    features: Features, pseudo: PseudoData, support: Support, reference: Reference, rng: np.random.Generator
) -> Certificate:
    """Against non-negative measures of bounded mass on the stated domain."""
    slope = features.root.T @ residual(features, pseudo)  # the witness is c(z)' slope
    here = np.asarray(features.at(pseudo.records)) @ slope
    chart = support.chart
    if reference.known:
        return _by_rows(features, pseudo, support, reference, rng, slope, here)
    box, candidates = candidates_of(support, reference, rng, CANDIDATES)
    candidates = {k: np.concatenate([v, np.asarray(pseudo.records[k])]) for k, v in candidates.items()}
    values = np.asarray(features.at(candidates)) @ slope
    moving = {name: box[name] for name, _ in chart.moved}
    at = (features.embedding.release.model, tuple(moving), features.embedding.metric, *features.atoms, slope)
    refined = lowest(values, candidates, moving, partial(_witness, *at))
    value = min(v for _, v in refined)
    minima = {k: np.stack([np.asarray(record[k]) for record, _ in refined]) for k in candidates}
    mass = float(pseudo.weights.sum())
    if chart.weights in ("total", "fixed", "units"):
        gap = float(pseudo.weights @ here) - mass * value
    else:
        mass *= _MASS
        gap = float(pseudo.weights @ here) - mass * min(value, 0.0)
    return Certificate("measures of bounded mass", max(gap, 0.0), minima, box, mass)


def candidates_of(
    support: Support, reference: Reference, rng: np.random.Generator, count: int
) -> tuple[dict[str, Any], Records]:
    """The domain to search, `{field: (low, high)}`, and records spread over it."""
    integer_fields = [k for k, f in reference.fields.items() if f.domain.kind == "integer" and k not in reference.known]
    box = {name: _box(reference, name) for name in (*(n for n, _ in support.chart.moved), *integer_fields)}
    law = Reference(reference.fields, reference.known, reference.centre, reference.scale, _BROAD)
    records = law.draw(rng, count)
    for name, ends in box.items():
        records[name] = inside(records[name], ends)
    return box, records


def inside(values: np.ndarray, ends: tuple[Any, Any]) -> np.ndarray:
    """The values drawn into an interval; whole numbers stay whole."""
    low, high = ends if values.dtype.kind == "f" else (np.ceil(ends[0]), np.floor(ends[1]))
    return np.clip(values, low, high).astype(values.dtype)


def _by_rows(
    features: Features,
    pseudo: PseudoData,
    support: Support,
    reference: Reference,
    rng: np.random.Generator,
    slope: np.ndarray,
    here: np.ndarray,
) -> Certificate:
    """Known fields: every row of the table carries the weight of one record, spread over its unknown fields."""
    rows = len(next(iter(reference.known.values())))
    unknown = {k: f for k, f in reference.fields.items() if k not in reference.known}
    best = np.full(rows, np.inf)
    law = Reference(unknown, {}, reference.centre, reference.scale, _BROAD)
    for _ in range(_PER_ROW):
        values = np.asarray(features.at({**reference.known, **law.draw(rng, rows)})) @ slope
        best = np.minimum(best, values)
    group = support.chart.group
    best = np.minimum(best, here.reshape(rows, group).min(axis=1))
    gap = float(pseudo.weights @ here - best.sum())
    box = {name: _box(reference, name) for name, _ in support.chart.moved}
    return Certificate("one record a row", max(gap, 0.0), None, box, float(rows))


def _box(reference: Reference, name: str) -> tuple[Any, Any]:
    domain = reference.fields[name].domain
    centre = np.asarray(reference.centre.get(name, 0.0), float)
    reach = _WIDE * np.maximum(np.asarray(reference.scale.get(name, 1.0), float), 1e-12)
    low = np.full_like(centre, domain.low) if np.isfinite(domain.low) else centre - reach
    high = np.full_like(centre, domain.high) if np.isfinite(domain.high) else centre + reach
    return (low, high) if centre.shape else (float(low), float(high))


@partial(jax.jit, static_argnames=("model", "moved"))
def _witness(
    model: Model, moved: tuple[str, ...], metric: Any, theta: Any, inverse: Any, slope: Any, x: Any, still: Records
) -> tuple[Any, Any]:
    def value(x: Any) -> Any:
        batch = {k: jnp.asarray(v)[None] for k, v in {**still, **x}.items()}
        return amplitudes(model, metric, theta, inverse, batch)[0] @ slope

    return jax.value_and_grad(value)(x)
