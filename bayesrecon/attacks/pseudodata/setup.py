"""Preparation of a descent from a release, shared by both pseudo-data attacks."""

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from bayesrecon.arrays import Key
from bayesrecon.attacks.pseudodata.adam import Slicing, sliced_target
from bayesrecon.attacks.pseudodata.descent_run import DescentRun
from bayesrecon.attacks.pseudodata.quadratic import Features
from bayesrecon.attacks.pseudodata.start import make_support
from bayesrecon.attacks.pseudodata.trace import Checkpoint, Trace
from bayesrecon.divergence.metrics import Metric
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.recovered import solve_release
from bayesrecon.knowledge import Knows
from bayesrecon.model import Progress, PseudoData
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
