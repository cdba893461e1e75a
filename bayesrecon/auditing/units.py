"""Fields of a record that say whose it is: each of their values has a parameter of its own."""

import jax.numpy as jnp
import numpy as np

from bayesrecon.auditing.opened import Opened
from bayesrecon.diagnostics import evenly
from bayesrecon.kernels.score import touches
from bayesrecon.results.findings import NotRun

_LEVELS = 32  # values that are looked at, evenly spread


def unit_fields(opened: Opened) -> list[str]:
    """Fields with finitely many values of which each moves a coordinate of theta that no other value moves."""
    model, found = opened.model, []
    theta = jnp.asarray(np.asarray(opened.release.theta)[0])
    one = opened.reference.draw(opened.rng, 1)
    for name, field in model.fields.items():
        levels = np.asarray(field.domain.levels, field.domain.dtype)
        if field.shape or len(levels) < 2:
            continue
        levels = levels[evenly(len(levels), _LEVELS)]
        records = {k: np.repeat(np.asarray(v), len(levels), axis=0) for k, v in one.items()} | {name: levels}
        moved = np.asarray(touches(model, theta, records))
        if moved[moved.sum(axis=1) == 1].any(axis=0).all():
            found.append(name)
    return found


def units_not_tried(opened: Opened) -> list[NotRun]:
    """Where an attacker could know which unit a record is of, and the audit was not told."""
    fields = unit_fields(opened)
    if not fields:
        return []
    options = " or ".join(f"--unit {name}" for name in fields)
    reason = f"parameters belong to single values of {', '.join(fields)}, and no unit was stated"
    remedy = f"say what a unit is: {options}, with --known FILE where the rows' design is public"
    return [NotRun("records of single units", reason, remedy, ("posterior",))]
