"""Refits that pseudo-data support: models that give the same estimates on them as on the private data."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.near_models import conditioned
from bayesrecon.estimation.problem import Problem
from bayesrecon.estimation.statistics import Part, count_of, moments
from bayesrecon.estimation.totals import part_totals, rows_of, slopes_of
from bayesrecon.model import Model, PseudoData, Records, entry
from bayesrecon.precision import in_float64
from bayesrecon.results.row import Row

_VERDICTS = ("undetermined", "partly", "determined")
_CONVERGED = 1e-6  # Newton's step at the estimate, in its standard errors
_SINGULAR = 1e-12  # of the curvature's smallest eigenvalue over the largest one


@in_float64
def supported(problem: Problem, pseudo: PseudoData, refit: Model) -> tuple[Row, ...]:
    """The rows of `Reconstruction.supports`."""
    fields = problem.knowledge.fields
    for name, spec in refit.fields.items():
        if name not in fields or fields[name].shape != spec.shape:
            raise BayesreconError(
                f"the refit needs the field {name!r} of shape {spec.shape}, which the pseudo-data lack"
            )

    def read(records: Records) -> Records:
        return {name: jnp.asarray(records[name]) for name in refit.fields}

    theta, inverse = fitted(refit, np.asarray(pseudo.weights), read(pseudo.records))

    def constrained(theta: Array) -> Array:
        params = refit.constrain(theta)
        return jnp.concatenate([jnp.ravel(params[p.name]) for p in refit.parameters])

    influence = inverse @ np.asarray(jax.jacfwd(constrained)(theta)).T
    names = [entry(p.name, index) for p in refit.parameters for index in np.ndindex(p.shape)]
    scores = jax.jit(jax.vmap(jax.grad(refit.log_lik), (None, 0)))
    library = moments(())
    for name, column in zip(names, influence.T, strict=True):
        part = f"refit:{name}"
        library.parts[part] = Part(part, lambda z, c=column: np.asarray(scores(theta, read(z))) @ c)
        library.statistics.append(count_of(name, part))
    totals = part_totals(problem.solved, library, problem.knowledge)
    rows = rows_of(library, totals, problem.embedding)
    visible, slopes = slopes_of(library, totals)
    rows = conditioned(problem, rows, [row.name for row in visible], totals.directions @ slopes)
    failed = bool(problem.failures(totals.scores))
    changes = {row.name: Row(row.name) if failed else row for row in rows}
    # An estimate moves with those of all other parameters.
    verdict = min((_verdict(changes[name]) for name in names), key=_VERDICTS.index)
    return tuple(
        _around(value, changes[name], verdict)
        for name, value in zip(names, np.asarray(constrained(theta)).tolist(), strict=True)
    )


def _verdict(change: Row) -> str:
    """The verdict on a parameter, by its change if it were refitted to the private data: none is to be expected."""
    if change.verdict != "determined":
        return change.verdict
    assert change.lower is not None
    assert change.upper is not None
    return "partly" if change.condition or not change.lower <= 0 <= change.upper else "determined"


def _around(value: float, change: Row, verdict: str) -> Row:
    if verdict == "undetermined":
        return Row(change.name, value, visibility=change.visibility)
    assert change.lower is not None
    assert change.upper is not None
    half = max(change.upper, -change.lower)
    return replace(change, estimate=value, lower=value - half, upper=value + half, floor=None, verdict=verdict)


def fitted(refit: Model, weights: np.ndarray, records: Records) -> tuple[np.ndarray, np.ndarray]:
    """The posterior mode of the parameters `(d,)` given weighted records, and the inverse of the curvature there."""

    def objective(theta: Array) -> Array:
        return -(weights @ jax.vmap(refit.log_lik, (None, 0))(theta, records) + refit.log_prior(theta))

    curvature = jax.jit(jax.hessian(objective))
    run = jax.jit(jax.value_and_grad(objective))

    def evaluate(theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = run(theta)
        return float(value), np.asarray(slope, float)

    with np.errstate(all="ignore"):
        best = scipy.optimize.minimize(evaluate, np.zeros(refit.dimension), jac=True, method="BFGS").x
        hessian, slope = np.asarray(curvature(best)), evaluate(best)[1]
        values, vectors = np.linalg.eigh(hessian) if np.isfinite(hessian).all() else (np.zeros(1), np.eye(1))
        if not values[0] > _SINGULAR * values[-1]:
            raise BayesreconError(
                "the pseudo-data do not determine the refit's parameters; fix some, or give it a prior"
            )
        inverse = (vectors / values) @ vectors.T
        step = inverse @ slope
        best, remaining = best - step, evaluate(best - step)[1]
    if not remaining @ inverse @ remaining <= _CONVERGED**2:
        raise BayesreconError("the refit does not converge on the pseudo-data; state it in parameters near zero to one")
    return best, inverse
