"""The log likelihood of each record that a program computes itself: `log_lik` of its generated quantities.

It says which count its author takes for that of records, and what the term of a record is; both are compared.
"""

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.frame import Run
from bayesrecon.models.stan.layout import counts, sizes_of
from bayesrecon.models.stan.needs import computing, pruned
from bayesrecon.models.stan.posterior import declarations, machine_of
from bayesrecon.models.stan.record_term import Parts
from bayesrecon.models.stan.values import consolidated

NAME = "log_lik"
"""The name that loo and ArviZ expect."""

RECORDS, POINTS = 3, 3  # at which it is compared
_CLOSE = 1e-8  # relative to the terms


def possible_counts(program: tree.Program) -> list[str]:
    """The counts of a program, that of `log_lik` first, those with the most data before others."""
    stated = _count(program)
    return sorted(counts(pruned(program)), key=lambda count: count != stated)


def _count(program: tree.Program) -> str | None:
    """The variable that is the size of `log_lik`, None if there is none."""
    declared = [d for d in declarations(program.generated) if d.name == NAME]
    sizes = sizes_of(declared[0]) if declared else ()
    return sizes[0].name if len(sizes) == 1 and isinstance(sizes[0], tree.VariableName) else None


def pointwise_notes(program: tree.Program, parts: Parts, model: Model) -> tuple[str, ...]:
    """Notes on whether `log_lik`, if present, agrees with the choice of a record."""
    stated = _count(program)
    if stated is None or parts.count is None:
        return ()
    if stated != parts.count:
        return (f"{NAME} has an entry for each of {stated}, but the records are {parts.count}",)
    count = parts.units if parts.unit else RECORDS
    records = {k: jnp.asarray(v) for k, v in parts.blank(count, 1).items()}
    statements, machine = computing(program, NAME), machine_of(program)

    def both(theta: Array) -> tuple[jax.Array, jax.Array]:
        params = model.constrain(theta)
        frame = parts.frame_of(records, count, jnp)
        values, _ = parts.coordinates.values(params)
        frame.update({p.name: values[p.name] for p in parts.coordinates.places})
        machine.block(statements, frame, Run())
        return consolidated(frame[NAME]).a, jax.vmap(model.log_lik_at, (None, 0))(params, records)

    points = np.random.default_rng(2).normal(size=(POINTS, model.dimension)) * 0.5
    try:
        stated_terms, terms = (np.asarray(a) for a in jax.jit(jax.vmap(both))(points))
    except (BayesreconError, TypeError, ValueError, IndexError):
        return (f"{NAME} could not be compared with the log likelihood terms of the records",)
    changes, size = np.abs(np.diff(stated_terms - terms, axis=0)), 1 + np.abs(terms).max()
    if not np.isfinite(changes).any() or np.nanmax(changes) <= _CLOSE * size:
        return ()
    return (f"{NAME} differs from a record's term in the target by more than a constant",)
