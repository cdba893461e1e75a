"""Draws of the warm-up."""

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.wording import to_drop
from bayesrecon.results.findings import Finding, NotRun


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A finding on groups whose names begin with `warmup_`."""
    where = tuple(v.where for v in look.contents.variables if v.group.startswith("warmup_"))
    summary = f"{len(where)} arrays beside the posterior draws: further values of every side channel"
    title, instead = "warm-up draws are in the file", "drop the warm-up groups"
    return [to_drop("warm-up", "low", title, where, summary, instead=instead)] if where else [], []


CHANNEL = Channel("warm-up", find, 70)
