"""How far a measure is from the best one: a lower bound of the divergence that needs no descent.

Kernel of finite rank, weights unconstrained but for their sign: the smallest value over all signed measures,
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

from bayesrecon.attacks.pseudodata.features import Features, amplitudes
from bayesrecon.attacks.pseudodata.support import Support
from bayesrecon.estimation.anchors import Reference
from bayesrecon.types import Model, PseudoData, Records

_CANDIDATES = 4096
_REFINED = 8
_PER_ROW = 64
_BROAD = 0.3
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


def residual(features: Features, pseudo: PseudoData) -> np.ndarray:
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
    box, candidates = candidates_of(support, reference, rng, _CANDIDATES)
    candidates = {k: np.concatenate([v, np.asarray(pseudo.records[k])]) for k, v in candidates.items()}
    values = np.asarray(features.at(candidates)) @ slope
    best = np.argsort(values)[:_REFINED]
    moving = {name: box[name] for name, _ in chart.moved}
    refined = [_refine(features, slope, {k: v[i] for k, v in candidates.items()}, moving) for i in best]
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
    whole = [k for k, f in reference.fields.items() if f.domain.kind == "integer" and k not in reference.known]
    box = {name: _box(reference, name) for name in (*(n for n, _ in support.chart.moved), *whole)}
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


def _refine(features: Features, slope: np.ndarray, start: Records, box: dict[str, Any]) -> tuple[Records, float]:
    """Local descent of the witness from one record, inside the box."""
    import scipy.optimize
    from jax.flatten_util import ravel_pytree

    embedding = features.embedding
    theta, inverse = features.atoms
    still = {k: v for k, v in start.items() if k not in box}
    x = {k: jnp.asarray(start[k], float) for k in box}
    fixed = (embedding.release.model, tuple(box), embedding.metric, theta, inverse, slope)
    if not box:
        return start, float(_witness(*fixed, x, still)[0])
    flat, shape = ravel_pytree(x)
    low, high = (np.asarray(ravel_pytree({k: jnp.asarray(b[i], float) for k, b in box.items()})[0]) for i in (0, 1))
    width = high - low  # on the unit box, whatever the fields' units

    def objective(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope_ = _witness(*fixed, shape(jnp.asarray(low + width * v)), still)
        return float(value), np.asarray(ravel_pytree(slope_)[0]) * width

    found = scipy.optimize.minimize(
        objective, (np.asarray(flat) - low) / width, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(low)
    )
    moved = shape(jnp.asarray(low + width * found.x))
    return {**still, **{k: np.asarray(v) for k, v in moved.items()}}, float(found.fun)
