"""The start of a descent, and the fields of its records that move."""

import itertools

import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.attacks.pseudodata.support import Chart, Support, WeightsKind
from bayesrecon.divergence.metrics import constrained_theta
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem
from bayesrecon.model import Field, PseudoData, Records

_MOST_COMBINATIONS = 1000  # largest number of candidates per known row; each of them is a variable


def make_support(problem: Problem, n: int, start: str | PseudoData, key: Array, published: bool) -> Support:
    """The support of a reconstruction, given what the attacker knows.

    Args:
        n: number of records, if no field is known.
        start: "located", "published" or a `PseudoData`.
        key: a JAX key, for simulated responses.
        published: whether weights are free and records are in their own units.
    """
    knowledge, reference = problem.knowledge, problem.reference
    unknown = {k: f for k, f in knowledge.fields.items() if k not in knowledge.known}
    moved = tuple((k, f.domain) for k, f in unknown.items() if f.domain.kind in ("real", "interval"))
    weights: WeightsKind = "positive"
    group = 1
    if knowledge.known:
        records, group = _rows(problem, unknown)
        size = len(next(iter(records.values())))
        weights = "units" if group > 1 else "fixed"
        first = PseudoData(np.full(size, 1.0 / group), records)
        if isinstance(start, PseudoData):
            raise BayesreconError("start: with known fields the records are the table's rows; omit start")
    else:
        if isinstance(start, PseudoData):
            first = _checked(start, knowledge.fields)
        elif start == "located":
            first = PseudoData(np.full(n, _count(problem) / n), reference.draw(problem.rng, n))
        else:
            first = PseudoData(np.ones(n), _published(problem, n, key))
        weights = "free" if published else "positive"
        if knowledge.total is not None:
            weights = "total"
            first = PseudoData(np.full(len(first.weights), knowledge.total / len(first.weights)), first.records)
    if published:
        # Records are in their own units.
        centre = {k: np.zeros(knowledge.fields[k].shape) for k, _ in moved}
        scale = {k: np.ones(knowledge.fields[k].shape) for k, _ in moved}
    else:
        centre = {k: np.asarray(reference.centre.get(k, 0.0), float) for k, _ in moved}
        scale = {k: np.asarray(reference.scale.get(k, 1.0), float) for k, _ in moved}
    return Support(Chart(moved, weights, knowledge.total or 0.0, group), first, centre, scale)


def _count(problem: Problem) -> float:
    """Approximate number of records: the total weight of the solved measure, or one if that is not a valid number."""
    total = float(problem.solved.pseudo.weights.sum())
    return total if np.isfinite(total) and total >= 1 else 1.0


def _checked(start: PseudoData, fields: dict[str, Field]) -> PseudoData:
    if set(start.records) != set(fields):
        raise BayesreconError(f"start: its records have the fields {', '.join(start.records)}, not {', '.join(fields)}")
    weights = np.asarray(start.weights, float)
    records = {k: np.asarray(start.records[k]) for k in fields}
    for name, spec in fields.items():
        if records[name].shape != (len(weights), *spec.shape):
            raise BayesreconError(f"start: field {name!r} has shape {records[name].shape}, not one value per weight")
        if not spec.domain.contains(np.asarray(records[name], float)).all():
            raise BayesreconError(f"start: field {name!r} holds values outside its domain, {spec.domain.words}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise BayesreconError("start: weights must be non-negative numbers that are not all zero")
    return PseudoData(weights, records)


def _published(problem: Problem, n: int, key: Array) -> Records:
    """Standard normal covariates, with responses drawn from the model at the mean parameters."""
    release, rng = problem.release, problem.rng
    model = release.model
    records: Records = {}
    for name, spec in problem.knowledge.fields.items():
        if spec.domain.kind == "levels":
            records[name] = spec.domain.draw(rng, (n, *spec.shape), 0.0, 1.0)
        else:
            low, high = spec.domain.low, spec.domain.high
            values = np.clip(rng.standard_normal((n, *spec.shape)), low, high)
            records[name] = np.round(values).astype(np.int64) if spec.domain.kind == "integer" else values
    if model.simulate is None:
        raise BayesreconError("start='published' needs a model built from a NumPyro program; pass start='located'")
    stacked = np.asarray(release.weights) @ constrained_theta(model, np.asarray(release.theta))
    params, position = {}, 0
    for parameter in model.parameters:
        size = int(np.prod(parameter.shape)) if parameter.shape else 1
        params[parameter.name] = stacked[position : position + size].reshape(parameter.shape)
        position += size
    simulated = model.simulate(params, records, jnp.asarray(key))
    return {k: np.asarray(simulated[k], records[k].dtype) for k in records}


def _rows(problem: Problem, unknown: dict[str, Field]) -> tuple[Records, int]:
    """Known rows, each with all combinations of the unknown fields that have finitely many values."""
    knowledge, reference, rng = problem.knowledge, problem.reference, problem.rng
    rows = len(next(iter(knowledge.known.values())))
    finite = {k: f for k, f in unknown.items() if f.domain.kind in ("levels", "integer")}
    choices = []
    for name, spec in finite.items():
        values = _values(spec.domain)
        if spec.shape or values is None:
            raise BayesreconError(
                f"field {name!r} has too many values to enumerate on every row; narrow it with domain={{{name!r}: "
                "(low, high)}"
            )
        choices.append(values)
    combinations = list(itertools.product(*choices))
    group = len(combinations)
    if group > _MOST_COMBINATIONS:
        raise BayesreconError(f"{group} combinations of {', '.join(finite)} on every row are too many; narrow domain=")
    records: Records = {k: np.repeat(v, group, axis=0) for k, v in knowledge.known.items()}
    for i, (name, spec) in enumerate(finite.items()):
        column = np.array([c[i] for c in combinations], spec.domain.dtype)
        records[name] = np.tile(column, rows)
    drawn = reference.draw(rng, rows * group)
    for name in unknown:
        if name not in finite:
            records[name] = drawn[name]
    return {k: records[k] for k in knowledge.fields}, group


def _values(domain: Domain) -> np.ndarray | None:
    if domain.kind == "levels":
        return np.asarray(domain.levels)
    if np.isfinite(domain.low) and np.isfinite(domain.high) and domain.high - domain.low < _MOST_COMBINATIONS:
        return np.arange(domain.low, domain.high + 1)
    return None
