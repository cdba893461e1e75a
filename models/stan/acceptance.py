"""Tests that the likelihood of a program is a product over its records.

Values and gradients of several records together and one by one are compared at random points.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records
from bayesrecon.models.stan.frame import Term
from bayesrecon.models.stan.record_term import Parts, Start
from bayesrecon.models.windows import CoupledError

POINTS = 5
RECORDS = 3
TRIES = 4  # sets of records
POOL, POOLS = 30, 10  # records that are drawn to find possible ones, and how often
_SCALES = (0.5, 0.1, 1.5)  # of free coordinates: most densities are finite near zero
_CLOSE = 1e-8  # relative to the parts that are added

ValueAndGradient = Callable[[Array], tuple[Array, Array]]
Terms = Callable[[Array, Records], tuple[Array, Array]]
"""Free coordinates and records -> terms `(n,)`, and their gradients `(n, d)`."""

Separate = Callable[[Array], tuple[Array, Array, Array, Array]]
"""Free coordinates -> prior, terms `(n,)`, gradient of the prior `(d,)`, and of the terms `(n, d)`."""


def check(parts: Parts, model: Model) -> None:
    """Refuse a program whose likelihood is not the product of its records' terms."""
    terms = jax.jit(jax.vmap(jax.value_and_grad(model.log_lik), in_axes=(None, 0)))
    for seed in range(TRIES):
        batches = _possible(parts, model, terms, seed + 1)
        if batches is None:
            continue
        joint, single = jax.jit(_joint(parts, model, batches)), _single(parts, model, parts.joined(batches), terms)
        if _compared(parts, model, batches, joint, single):
            return
    raise BayesreconError(
        f"{parts.name}: the log density is not finite at any point that was tried, so it cannot be checked; state "
        "where the fields lie with domain="
    )


def _possible(parts: Parts, model: Model, terms: Terms, seed: int) -> list[Records] | None:
    """Records that are possible under the model: drawn at random, few data of several fields belong together."""
    theta = np.random.default_rng(seed).normal(size=model.dimension) * _SCALES[seed % 3]
    chosen: list[dict[int, Records]] = [{} for _ in parts.kinds]
    wanted = [
        kind.units if kind.unit else 1 if kind.count is None or isinstance(kind, Start) else RECORDS
        for kind in parts.kinds
    ]
    for iteration in range(POOLS):
        pools = [kind.blank(POOL, np.random.default_rng(seed + 100 * iteration)) for kind in parts.kinds]
        values, slopes = (np.asarray(a) for a in terms(theta, _on_device(parts.joined(pools))))
        finite = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
        if (np.isfinite(values) & ~finite).any() and iteration == POOLS - 1:
            break
        at = 0
        for kind, pool, count, places in zip(parts.kinds, pools, wanted, chosen, strict=True):
            usable = finite[at : at + len(pool[kind.names[0]])]
            at += len(usable)
            if kind.lag and not usable[:count].all():  # windows of one series follow each other
                continue
            for i in np.flatnonzero(usable):
                place = int(pool[kind.unit][i]) - 1 if kind.unit else len(places)
                if place < count:
                    places.setdefault(place, {k: v[i] for k, v in pool.items()})
        if all(len(places) == count for places, count in zip(chosen, wanted, strict=True)):
            return [
                {k: np.stack([places[n][k] for n in range(count)]) for k in kind.names}
                for kind, places, count in zip(parts.kinds, chosen, wanted, strict=True)
            ]
    return None


def _on_device(records: Records) -> Records:
    return {k: jnp.asarray(v) for k, v in records.items()}


def _joint(parts: Parts, model: Model, batches: Sequence[Records]) -> ValueAndGradient:
    def value(theta: Array) -> jax.Array:
        params = model.constrain(theta)
        return parts.run_joint(params, batches).total() + parts.coordinates.values(params)[1]

    return jax.value_and_grad(value)


def _single(parts: Parts, model: Model, records: Records, terms: Terms) -> Separate:
    """Prior and terms one by one.

    Terms are those of `terms`, which is compiled already for more records: these are repeated.
    """
    count = len(next(iter(records.values())))
    size = sum(max(POOL, kind.units) for kind in parts.kinds)
    batch = _on_device({k: v[np.arange(max(count, size)) % count] for k, v in records.items()})
    prior_of = jax.jit(jax.value_and_grad(model.log_prior))

    def values(theta: Array) -> tuple[Array, Array, Array, Array]:
        (prior, of_prior), (per_record, of_terms) = jax.device_get((prior_of(theta), terms(theta, batch)))
        return prior, per_record[:count], of_prior, of_terms[:count]

    return values


def _compared(
    parts: Parts, model: Model, batches: Sequence[Records], joint: ValueAndGradient, single: Separate
) -> bool:
    """Whether enough points were compared."""
    rng = np.random.default_rng(0)
    done, moved, varies = 0, False, len(next(iter(parts.joined(batches).values()))) == 1
    for trial in range(4 * POINTS):
        theta = rng.normal(size=model.dimension) * _SCALES[trial % 3 if trial >= POINTS else 0]
        (joint_value, slope), (prior, terms, of_prior, of_terms) = jax.device_get(joint(theta)), single(theta)
        if not (np.isfinite(joint_value) and np.isfinite(slope).all()):
            continue
        size = 1 + abs(float(prior)) + float(np.abs(terms).sum())
        steep = 1 + np.abs(of_prior).max() + float(np.abs(of_terms).sum(axis=0).max())
        total, rate = prior + terms.sum(), of_prior + of_terms.sum(axis=0)
        if not (abs(float(total - joint_value)) <= _CLOSE * size and np.abs(rate - slope).max() <= _CLOSE * steep):
            raise CoupledError(_coupled(parts, model, batches, theta, float(joint_value), float(total)))
        moved |= bool(np.abs(of_terms).max() > 0)
        varies = varies or bool(np.ptp(np.asarray(terms)) > 1e-12 * size or np.abs(np.diff(of_terms, axis=0)).max() > 0)
        done += 1
        if done == POINTS:
            break
    if done and not moved:
        raise CoupledError(f"{parts.name}: the likelihood term of a record does not depend on any parameter")
    if done and not varies:
        raise BayesreconError(f"{parts.name}: the likelihood term of a record does not depend on the record")
    return done > 0


def _by_line(terms: list[Term]) -> dict[int, float]:
    result: dict[int, float] = {}
    for line, value, tainted in terms:
        if tainted:
            result[line] = result.get(line, 0.0) + float(value)
    return result


def _coupled(
    parts: Parts, model: Model, batches: Sequence[Records], theta: np.ndarray, joint_value: float, total: float
) -> str:
    """The line whose contribution for several records is not the sum over single records."""
    count = sum(len(next(iter(batch.values()))) for batch in batches)
    evidence = f"{count} records jointly give {joint_value:.6g}, separately {total:.6g}"
    params = model.constrain(jnp.asarray(theta))
    joint = _by_line(parts.run_joint(params, batches).terms)
    single: dict[int, float] = {}
    for at, batch in enumerate(batches):
        for n in range(len(next(iter(batch.values())))):
            _, run = parts.run_record(params, {k: v[n] for k, v in batch.items()}, at)
            for line, value in _by_line(run.terms).items():
                single[line] = single.get(line, 0.0) + value
    for line in sorted(joint.keys() | single.keys()):
        jointly, separately = joint.get(line, 0.0), single.get(line, 0.0)
        if not abs(jointly - separately) <= 1e-7 * (1 + abs(jointly) + abs(separately)):
            evidence = f"{count} records jointly give {jointly:.6g}, separately {separately:.6g}"
            return f"{parts.name}, line {line}: records are coupled here ({text_of(parts, line)}): {evidence}"
    return f"{parts.name}: the likelihood is not a product over records: {evidence}"


def text_of(parts: Parts, line: int) -> str:
    """A line of the program, in short."""
    lines = parts.machine.program.source.splitlines()
    text = " ".join(lines[line - 1].split()) if 0 < line <= len(lines) else ""
    return text if len(text) <= 60 else f"{text[:57]}..."
