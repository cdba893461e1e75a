"""A fit or a table of estimates that is published by itself, and several releases together."""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.results.findings import Finding, NotRun

if TYPE_CHECKING:
    from bayesrecon.knowledge import Knows


def find(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
    """Attack the fit, or the differences of releases."""
    findings: list[Finding] = []
    notes: list[NotRun | str] = []
    if look.together:
        from bayesrecon.auditing.together import compare

        findings, refused = compare(look.together, look.asked)
        notes += refused
    if (fit := look.fit) is not None:
        from bayesrecon.auditing.fit_findings import attack_fit

        stage = attack_fit(
            fit.release,
            attack=fit.attack,
            alternatives=fit.alternatives,
            untried=fit.untried,
            knows=cast("Knows", look.asked.knows),
            **look.of_fits(),
        )
        findings = [replace(f, where=fit.where or f.where) for f in stage.findings]
        notes += [*stage.warnings, *(replace(n, where=fit.where or n.where) for n in stage.untried)]
    return findings, notes


CHANNEL = Channel("fits", find, 85)
