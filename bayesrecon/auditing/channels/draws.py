"""The draws themselves: statistics, records of units, and sums of which one record is more than half."""

from bayesrecon.auditing.cell_totals import dominance_of_draws
from bayesrecon.auditing.draw_findings import draws_finding, draws_remedies
from bayesrecon.auditing.effort import Open
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.auditing.sensitive_values import DRAWS
from bayesrecon.auditing.stage import INCALCULABLE, not_computed
from bayesrecon.results.findings import Finding, NotRun

_OTHERS = "pass the model that made these draws, including its prior, and draws with all their digits"
_MEND = "correct what the reason names, or drop these values"
_WHERE = ("posterior",)


def find(look: Look) -> tuple[list[Finding | Open], list[str | NotRun]]:
    """Attack the draws alone."""
    opened: Opened = look.opened
    outcome = opened.attacked.outcome
    notes: list[str | NotRun] = [*opened.release.notes]
    if isinstance(outcome, INCALCULABLE):
        return [], [*notes, not_computed(DRAWS, outcome)]
    if isinstance(outcome, Exception):
        return [], [*notes, NotRun(DRAWS, f"the draws alone were not attacked: {outcome}", _MEND, _WHERE)]
    problem, recovery = outcome
    findings: list[Finding | Open] = []
    finding = draws_finding(recovery, look.asked.unit, opened.thresholds) if recovery.consistent else None
    if finding is not None:
        release, key = opened.release, opened.key
        findings.append(
            Open(finding, lambda budget: draws_remedies(release, problem, recovery, key, budget), first=True)
        )
    dominated, unseen = dominance_of_draws(problem, recovery, _WHERE)
    failures = [NotRun(DRAWS, failure, _OTHERS, _WHERE) for failure in recovery.failures]
    return [*findings, *dominated], [*notes, *recovery.warnings, *unseen, *failures]


CHANNEL = Channel(DRAWS, find, 100, "model")
