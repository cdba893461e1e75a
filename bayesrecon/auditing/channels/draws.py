"""The draws themselves: statistics, records of units, and sums of which one record is more than half."""

from functools import partial

from bayesrecon.auditing.cell_totals import dominance_of_draws
from bayesrecon.auditing.draw_findings import draws_finding, draws_remedies, severity_left
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
    unit, thresholds = look.asked.unit, opened.thresholds
    finding = draws_finding(recovery, unit, thresholds) if recovery.consistent else None
    if problem is None:
        return ([] if finding is None else [finding]), [*notes, *recovery.warnings]
    if finding is not None:
        left = partial(severity_left, recovery, unit, thresholds)
        remedies = partial(draws_remedies, opened.release, problem, recovery, opened.key, left=left)
        findings.append(Open(finding, remedies, first=True))
    dominated, unseen = dominance_of_draws(problem, recovery, _WHERE)
    failures = [NotRun(DRAWS, failure, _OTHERS, _WHERE) for failure in recovery.failures]
    return [*findings, *dominated], [*notes, *recovery.warnings, *unseen, *failures]


CHANNEL = Channel(DRAWS, find, 100, "model")
