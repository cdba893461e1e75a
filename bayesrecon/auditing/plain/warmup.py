"""Draws of the warm-up."""

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.results.findings import Finding, NotRun, Remedy


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A finding on groups whose names begin with `warmup_`."""
    where = tuple(v.where for v in look.contents.variables if v.group.startswith("warmup_"))
    if not where:
        return [], []
    finding = Finding(
        "warm-up",
        "low",
        "warm-up draws are in the file",
        where,
        f"{len(where)} arrays beside the posterior draws: further values of every side channel",
        remedies=(Remedy("drop the warm-up groups"),),
        drop=where,
    )
    return [finding], []


CHANNEL = Channel("warm-up", find, 70)
