"""The verb `reconstruct`: weighted records whose posterior has the released draws' score."""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.attacks.matching.stationary import match_gradient
from bayesrecon.attacks.pseudodata.adam import Slicing, sliced_target
from bayesrecon.attacks.pseudodata.features import Features
from bayesrecon.attacks.pseudodata.run import Run
from bayesrecon.attacks.pseudodata.start import make_support
from bayesrecon.attacks.pseudodata.trace import Checkpoint, Trace
from bayesrecon.attacks.records.attack import recover_records
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.problem import Problem, generator, solve_release
from bayesrecon.knowledge import check_knowledge
from bayesrecon.precision import in_float64
from bayesrecon.results.matched import Matched
from bayesrecon.results.reconstruction import Reconstruction
from bayesrecon.results.records import RecordTable
from bayesrecon.types import Deletion, Progress, PseudoData, Records, Release

_RECORDS = 200
_STEPS_OF_ADAM = 20_000
_WIDE = 100  # parameters from which a trained model is matched by its gradient alone


@in_float64
def reconstruct(
    release: Release | Deletion,
    *,
    n: int | None = None,
    objective: str | None = None,
    method: str | None = None,
    start: str | PseudoData | None = None,
    slicing: Slicing | None = None,
    regulariser: Callable[[Any, Records], Any] | None = None,
    known: Mapping[str, Any] | None = None,
    unit: str | Sequence[str] | None = None,
    total: float | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    domain: Mapping[str, Any] | None = None,
    metric: str | None = None,
    coordinates: str | None = None,
    tolerance: float = 1e-10,
    steps: int | None = None,
    rate: float = 1e-3,
    checkpoint: str | Path | None = None,
    public: Mapping[str, Any] | None = None,
    multipliers: str = "free",
    strength_known: bool = True,
    key: Any = 0,
    progress: Progress | None = None,
) -> Reconstruction | RecordTable | Matched:
    """Find weights and records whose Fisher divergence from the release is smallest.

    The divergence is `1/2 w'Kw - w'b + const` with `K = k(Z, Z)`, `b = mu(Z)` (`bayesrecon.kernels`); the result
    says how far it can still be from its minimum. Many measures have the smallest divergence: what they share is what
    `recover` reports, and the records themselves are one choice among them.

    Args:
        release: draws, or a trained parameter (the objective is then half the squared gradient norm). A `Deletion`
            gives the deleted record (`reconstruct_deleted`) from `public`, `total`, `bounds`, `domain` and `key`.
        n: M, the number of records (default 200; the number of rows where fields are known).
        objective: "exact" or "sliced" (default: exact; sliced for "adam").
        method: "newton", Gauss-Newton on whitened coordinates with positive weights; or "adam", the published
            recipe: identity metric, the parameters' own coordinates, free weights, fresh slices; or "matching", for a
            trained parameter (`match_gradient`), which is the default for networks: 100 parameters or more.
        start: "located" (around the recovered data), "published" (covariates standard normal, observed fields drawn
            from the model at the mean parameters, weights one) or a `PseudoData`.
        slicing: how the sliced objective is sliced; the gap is then that of the sliced objective.
        regulariser: `(weights, records) -> scalar`, added to the divergence; written with `jax.numpy`.
        known, total, bounds, domain: what the attacker knows, as in `recover`. With known fields every row
            carries the weight of one record; fields with finitely many values become candidates of each row.
        unit: the known field, or fields together, that name a record (`unit=("person", "item")`). The result is then a
            `RecordTable`: every record with its error and, where its values can be counted, their probabilities.
        metric, coordinates: as in `recover`.
        tolerance: relative gap at which to stop.
        steps, rate: of "adam".
        checkpoint: file to write progress to, and to resume from when it exists.
        public: records that stand in for the private Hessian, for a deletion between two trained parameters.
        multipliers, strength_known: of "matching"; "one" counts every record once, False leaves the strength of the
            regulariser open, for which `total` must be known.
        key: an integer or a JAX key.
        progress: called with a label and the fraction done.

    Returns:
        A `Reconstruction`: `pseudo`, `trace`, `gap`, `relative_gap`, `certificate`; with `unit` a `RecordTable`; by
        "matching" a `Matched`.

    Raises:
        BayesreconError: for input that cannot be used, saying what to change.

    >>> import bayesrecon
    >>> release = bayesrecon.posteriors.from_posteriordb("kidiq-kidscore_momiq")  # doctest: +SKIP
    >>> bayesrecon.reconstruct(release, n=100).relative_gap < 1e-6  # doctest: +SKIP
    True
    """
    if isinstance(release, Deletion):
        from bayesrecon.attacks.deletion.deleted import reconstruct_deleted

        given = (n, objective, start, slicing, regulariser, known, unit, metric, coordinates, steps, checkpoint)
        if any(value is not None for value in given) or method not in (None, "newton"):
            raise BayesreconError("a deletion takes public, total, bounds, domain and key only")
        return reconstruct_deleted(  # type: ignore[return-value]
            release, public=public, total=total, bounds=bounds, domain=domain, key=key
        )
    if public is not None:
        raise BayesreconError("public data belong to a deletion: pass deletion(before, after) with them")
    if method == "matching" or multipliers != "free" or not strength_known or _wide(release, method, known, objective):
        given = (objective, start, slicing, regulariser, known, unit, metric, coordinates, checkpoint)
        if any(value is not None for value in given) or method not in (None, "matching"):
            raise BayesreconError(
                "matching takes n, total, bounds, domain, multipliers, strength_known, steps and key only; "
                "method='newton' takes the rest"
            )
        taken = {"bounds": bounds, "domain": domain, "multipliers": multipliers, "strength_known": strength_known}
        taken |= {} if steps is None else {"steps": steps}
        return match_gradient(release, n=_RECORDS if n is None else n, total=total, key=key, **taken)
    began = time.perf_counter()
    method = method or "newton"
    published = method == "adam"
    objective = objective or ("sliced" if published else "exact")
    _check(release, n, objective, method, start, regulariser, steps, rate, tolerance)
    if known and n is not None:
        raise BayesreconError("n and known fields exclude each other: the table has one record a row")
    if unit is not None:
        choices = {"start": start, "slicing": slicing, "regulariser": regulariser, "checkpoint": checkpoint}
        choices |= {"steps": steps, "method": None if method == "newton" else method}
        for name, choice in choices.items():
            if choice is not None:
                raise BayesreconError(f"{name}= has no part in recovering one record a unit; leave it or unit= out")
        knowledge = check_knowledge(release.model, known=known, unit=unit, total=total, bounds=bounds, domain=domain)
        return recover_records(
            release,
            knowledge,
            metric=metric,
            coordinates=coordinates or "unconstrained",
            rng=generator(key),
            progress=progress,
        )
    slicing = slicing or Slicing(fresh=published)
    if objective == "sliced" and slicing.count < 1:
        raise BayesreconError(f"slicing: {slicing.count} slices; expected a positive whole number")
    if slicing.law not in ("normal", "rademacher"):
        raise BayesreconError(f"slicing: law {slicing.law!r}; expected 'normal' or 'rademacher'")
    if objective == "sliced" and not published and slicing.fresh:
        raise BayesreconError("method='newton' needs fixed slices: pass slicing=Slicing(fresh=False), or method='adam'")
    if objective == "sliced" and not published and not slicing.reduced:
        raise BayesreconError("method='newton' slices the Laplacian only: leave reduced=True, or take method='adam'")
    name = coordinates or ("constrained" if published and release.temperature else "unconstrained")
    problem = solve_release(
        release,
        known=known,
        total=total,
        bounds=bounds,
        domain=domain,
        metric=metric or ("identity" if published else None),
        coordinates=name,
        key=key,
        progress=progress,
    )
    random = _jax_key(problem.rng)
    target = problem.solved.target
    if objective == "sliced" and not published:
        target = sliced_target(problem.embedding, problem.solved.basis, target, slicing, random)
    features = Features(problem.embedding, problem.solved, target)
    support = make_support(
        problem, n or _RECORDS, start or ("published" if published else "located"), random, published
    )
    about = {
        "release": release.name,
        "draws": release.size,
        "model": release.model.name,
        "n": len(support.start.weights),
        "objective": objective,
        "method": method,
        "metric": problem.metric,
        "coordinates": name,
    }
    shapes = {
        f: problem.knowledge.fields[f].shape for f in problem.knowledge.fields if f not in problem.knowledge.known
    }
    run = Run(problem, features, support, Trace(shapes or _shapes(problem)), tolerance, progress)
    if checkpoint is not None:
        given = {"start": start, "known": known, "total": total, "bounds": bounds, "domain": domain}
        settings = {**about, "rate": rate, "slicing": str(slicing), "key": str(random.tolist())}
        settings |= {name: _fingerprint(value) for name, value in given.items()}
        run.checkpoint = Checkpoint(Path(checkpoint), settings)
    try:
        if published:
            run.adam(objective, slicing, steps or _STEPS_OF_ADAM, rate, random)
        else:
            run.newton(regulariser, steps)
    except KeyboardInterrupt:
        run.stopped = "interrupted"
    return run.result(about, time.perf_counter() - began)


def _wide(release: Release, method: str | None, *given: Any) -> bool:
    """A network, and nothing that only descent in the kernel's features can use."""
    wide = not release.temperature and release.model.linear is None and release.model.dimension >= _WIDE
    return wide and method is None and all(g is None for g in given)


def _check(
    release: Release,
    n: int | None,
    objective: str,
    method: str,
    start: Any,
    regulariser: Any,
    steps: int | None,
    rate: float,
    tolerance: float,
) -> None:
    if n is not None and (not isinstance(n, (int, np.integer)) or n < 1):
        raise BayesreconError(f"n={n}: the number of pseudo-records is a positive whole number")
    if objective not in ("exact", "sliced"):
        raise BayesreconError(f"objective={objective!r}: expected 'exact' or 'sliced'")
    if method not in ("newton", "adam"):
        raise BayesreconError(f"method={method!r}: expected 'newton' or 'adam'")
    if start not in (None, "located", "published") and not isinstance(start, PseudoData):
        raise BayesreconError(f"start={start!r}: expected 'located', 'published' or a PseudoData")
    if regulariser is not None and method == "adam":
        raise BayesreconError("a regulariser needs method='newton'")
    if objective == "sliced" and not release.temperature:
        raise BayesreconError("a trained parameter has no Laplacian to slice; use objective='exact'")
    if steps is not None and steps < 1:
        raise BayesreconError(f"steps={steps}: expected a positive whole number")
    if not (rate > 0 and np.isfinite(rate)):
        raise BayesreconError(f"rate={rate}: the learning rate is a positive number")
    if not 0 < tolerance < 1:
        raise BayesreconError(f"tolerance={tolerance}: expected a relative gap between 0 and 1, e.g. 1e-10")


def _fingerprint(value: Any) -> str:
    """Of what an attacker stated, so that a checkpoint is resumed with the same."""
    if isinstance(value, PseudoData):
        value = {"weights": value.weights, **value.records}
    if isinstance(value, Mapping):
        return hashlib.sha256("".join(f"{k}:{_fingerprint(value[k])};" for k in sorted(value)).encode()).hexdigest()[
            :16
        ]
    if isinstance(value, str) or value is None:
        return str(value)
    return f"{np.shape(value)}{hashlib.sha256(str(np.asarray(value).tolist()).encode()).hexdigest()[:16]}"


def _jax_key(rng: np.random.Generator) -> Any:
    import jax

    return np.asarray(jax.random.PRNGKey(int(rng.integers(2**31))))


def _shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    return {name: spec.shape for name, spec in problem.knowledge.fields.items()}
