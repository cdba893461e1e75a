"""Preparation of a descent from a release, shared by both pseudo-data attacks."""

import hashlib
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array, Key
from bayesrecon.attacks.pseudodata.adam import Slicing, sliced_target
from bayesrecon.attacks.pseudodata.descent_run import Checkpoint, DescentRun, Trace
from bayesrecon.attacks.pseudodata.support import Chart, Features, Support, WeightsKind
from bayesrecon.divergence.metrics import Metric, constrained_theta
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.knowledge import Knows
from bayesrecon.model import Field, Progress, PseudoData, Records
from bayesrecon.regularisers import Regulariser, described
from bayesrecon.releases import Release
from bayesrecon.results.reconstruction import Reconstruction

RECORDS = 200
"""Default number of weighted records."""


@dataclass(frozen=True)
class Setup:
    """Settings of a descent.

    Attributes:
        n: number of records; None for the default.
        method: name of the method in the result.
        slicing: how the objective is sliced; None for the exact one.
        start: "located", "published" or a `PseudoData`.
        published: whether weights are free and records are in their own units.
        tolerance: relative gap at which to stop.
        checkpoint: file to resume from, and to save to.
        settings: further settings that must agree when a run resumes from a checkpoint.
        regulariser: penalty that is added to the divergence.
    """

    n: int | None
    method: str
    metric: Metric
    slicing: Slicing | None
    start: str | PseudoData
    published: bool
    tolerance: float
    checkpoint: str | Path | None
    settings: Mapping[str, object]
    regulariser: Regulariser | None = None


def reconstruct_with(
    setup: Setup,
    descend: Callable[[DescentRun, np.ndarray], None],
    release: Release,
    knows: Knows,
    key: Key,
    progress: Progress,
) -> Reconstruction:
    """The result of a descent `descend(run, key)`. If it is interrupted, this is the best iterate so far."""
    start = time.perf_counter()
    if setup.n is not None and knows.get("known"):
        raise BayesreconError("n cannot be set together with known fields: the table has one record per row")
    problem = solve_release(release, setup.metric, key=key, progress=progress, **knows)
    descent_key = np.asarray(jax.random.PRNGKey(int(problem.rng.integers(2**31))))
    target = problem.solved.target
    if setup.slicing is not None and not setup.published:
        target = sliced_target(problem.embedding, problem.solved.basis, target, setup.slicing, descent_key)
    support = make_support(problem, setup.n or RECORDS, setup.start, descent_key, setup.published)
    fields, known = problem.knowledge.fields, problem.knowledge.known
    shapes = {k: f.shape for k, f in fields.items() if k not in known} or {k: f.shape for k, f in fields.items()}
    features = Features(problem.embedding, problem.solved, target)
    run = DescentRun(
        problem, features, support, Trace(shapes), setup.tolerance, progress, regulariser=setup.regulariser
    )
    description = {
        "release": release.name,
        "draws": release.size,
        "model": release.model.name,
        "n": len(support.start.weights),
        "objective": "exact" if setup.slicing is None else "sliced",
        "method": setup.method,
        "metric": problem.metric.sigma,
        "coordinates": problem.metric.coordinates,
    }
    if setup.checkpoint is not None:
        settings = {**description, **setup.settings, "slicing": str(setup.slicing), "key": str(descent_key.tolist())}
        settings |= {name: fingerprint(value) for name, value in {"start": setup.start, **knows}.items()}
        settings |= {"regulariser": described(setup.regulariser)} if setup.regulariser else {}
        run.checkpoint = Checkpoint(Path(setup.checkpoint), settings)
    try:
        descend(run, descent_key)
    except KeyboardInterrupt:
        run.stopped = "interrupted"
    return run.result(description, time.perf_counter() - start)


def check_records(n: object, steps: int | None, start: object, tolerance: float) -> None:
    """Raise an error for invalid options."""
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise BayesreconError(f"n={n}: the number of pseudo-records must be a positive integer")
    if start not in ("located", "published") and not isinstance(start, PseudoData):
        raise BayesreconError(f"start={start!r}: expected 'located', 'published' or a PseudoData")
    if steps is not None and steps < 1:
        raise BayesreconError(f"steps={steps}: expected a positive whole number")
    if not 0 < tolerance < 1:
        raise BayesreconError(f"tolerance={tolerance}: expected a relative gap between 0 and 1, e.g. 1e-10")


def slicing_of(objective: str, slicing: Slicing) -> Slicing | None:
    """How an objective is sliced; None for the exact one. Raises an error for invalid options."""
    if objective not in ("exact", "sliced"):
        raise BayesreconError(f"objective={objective!r}: expected 'exact' or 'sliced'")
    if slicing.count < 1:
        raise BayesreconError(f"slices={slicing.count}: expected a positive whole number")
    if slicing.distribution not in ("normal", "rademacher"):
        raise BayesreconError(f"slice_law={slicing.distribution!r}; expected 'normal' or 'rademacher'")
    return slicing if objective == "sliced" else None


def refuse_slices(objective: str | None, **stated: object) -> None:
    """Raise an error for options of the sliced objective if the objective is exact."""
    for name, value in stated.items():
        if value is not None and objective == "exact":
            raise BayesreconError(f"{name}={value} belongs to the sliced objective: objective='sliced'")


def fingerprint(value: object) -> str:
    """Hash of the attacker's knowledge, so that a checkpoint is resumed with the same knowledge."""
    if isinstance(value, PseudoData):
        value = {"weights": value.weights, **value.records}
    if isinstance(value, Mapping):
        text = "".join(f"{name}:{fingerprint(item)};" for name, item in sorted(value.items()))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    if isinstance(value, str) or value is None:
        return str(value)
    array = np.asarray(value)
    return f"{array.shape}{hashlib.sha256(str(array.tolist()).encode()).hexdigest()[:16]}"


# The start of a descent, and the fields of its records that move.

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
