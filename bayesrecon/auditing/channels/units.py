"""Fields that identify a record's unit: each of their values has its own parameter."""

import jax.numpy as jnp
import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.score import touches
from bayesrecon.results.findings import Finding, NotRun

_NAME = "records of single units"
_LEVELS = 32  # largest number of values that are examined, evenly spaced


def unit_fields(opened: Opened) -> list[str]:
    """Fields with finitely many values, each of which affects a coordinate of theta that no other value affects."""
    model, fields = opened.model, []
    theta = jnp.asarray(np.asarray(opened.release.theta)[0])
    record = opened.reference.draw(opened.rng, 1)
    for name, field in model.fields.items():
        levels = np.asarray(field.domain.levels, field.domain.dtype)
        if field.shape or len(levels) < 2:
            continue
        levels = levels[evenly(len(levels), _LEVELS)]
        records = {k: np.repeat(np.asarray(v), len(levels), axis=0) for k, v in record.items()} | {name: levels}
        moved = np.asarray(touches(model, theta, records))
        if moved[moved.sum(axis=1) == 1].any(axis=0).all():
            fields.append(name)
    return fields


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A `NotRun` if an attacker could know the unit of each record and the audit does not."""
    fields = unit_fields(look.opened) if look.asked.knows.get("unit") is None else []
    if not fields:
        return [], []
    options = " or ".join(f"--unit {name}" for name in fields)
    reason = f"parameters belong to single values of {', '.join(fields)}, and no unit was stated"
    remedy = f"state the unit: {options}, with --known FILE if the design is public"
    return [], [NotRun(_NAME, reason, remedy, ("posterior",))]


CHANNEL = Channel(_NAME, find, 150, "model")
