"""The attacks of an audit one after the other, what each finds as it is found, and then what remedies would leave."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesrecon.auditing.channel import Channel
from bayesrecon.auditing.columns import look_at_columns
from bayesrecon.auditing.draws import draws_finding, draws_remedies, start
from bayesrecon.auditing.effort import Budget, Open, told
from bayesrecon.auditing.held import DRAWS
from bayesrecon.auditing.opened import Opened, open_release
from bayesrecon.auditing.units import units_not_tried
from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.posteriors.contents import Contents
from bayesrecon.results.audit import LEVELS, Finding, NotRun, Thresholds
from bayesrecon.types import Model, Progress

_OTHERS = "pass the model that made these draws, prior included, and draws with all their digits"
_MEND = "mend what the reason names, or drop what it would open"
_AGAIN = "run it again and let it end"
_STOPPED = "the audit was interrupted"
_SHARES = (0.5, 0.4)  # of the time, for the draws and for all channels together; the rest are remedies


@dataclass(frozen=True)
class Stage:
    """What is known after some of the attacks.

    Attributes:
        findings: so far.
        warnings: so far.
        untried: attacks that could not be run, and at every stage but the last those that have not been run yet.
    """

    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    untried: tuple[NotRun, ...]


def channels() -> tuple[Channel, ...]:
    """All that is attacked in a file besides its draws, in order."""
    return tuple(sorted(discover("bayesrecon.auditing.channels", "CHANNEL"), key=lambda channel: channel.rank))


def stages(
    contents: Contents,
    model: Model,
    *,
    known: Mapping[str, Any],
    unit: str | None,
    budget: Budget | None,
    thresholds: Thresholds,
    key: int,
    progress: Progress | None,
) -> Iterator[Stage]:
    """Every attack that the contents allow; one that cannot be run is listed and no end.

    Args:
        budget: for remedies, none of which are tried without one.
    """
    every = channels()
    findings: list[Finding | Open] = []
    warnings: list[str] = []
    untried: list[NotRun] = []

    def now(left: Iterable[str]) -> Stage:
        closed = tuple(f.finding if isinstance(f, Open) else f for f in findings)
        missing = (NotRun(name, _STOPPED, _AGAIN) for name in left)
        return Stage(closed, (*warnings, *map(str, untried)), (*untried, *missing))

    yield now([DRAWS, *(c.name for c in every)])
    release, kept = open_release(contents, model)
    warnings += release.notes
    reference, recovery = Reference(model.fields, {k: np.asarray(v) for k, v in known.items()}), None
    try:
        problem, recovery = start(release, known, unit, key, _part(progress, 0.0, _SHARES[0]))
        reference = problem.reference
        warnings += recovery.warnings
        finding = draws_finding(recovery, unit, thresholds) if recovery.consistent else None
        if finding is not None:
            findings.append(_open_draws(finding, release, problem, recovery, key))
        untried += [NotRun(DRAWS, failure, _OTHERS, ("posterior",)) for failure in recovery.failures]
    except BayesreconError as error:
        untried.append(NotRun(DRAWS, f"the draws alone were not attacked: {error}", _MEND, ("posterior",)))
    yield now(c.name for c in every)
    for i, channel in enumerate(every):
        done = _part(progress, _SHARES[0] + i / len(every) * _SHARES[1], _SHARES[1] / len(every))
        opened = Opened(contents, model, release, kept, reference, recovery, known, thresholds, key, done)
        try:
            more, notes = channel.attack(opened)
        except BayesreconError as error:
            more, notes = [], [NotRun(channel.name, str(error), _MEND)]
        findings += more
        warnings += [note for note in notes if isinstance(note, str)]
        untried += [note for note in notes if isinstance(note, NotRun)]
        yield now([*(c.name for c in every[i + 1 :]), "the rest of the audit"])
    if unit is None:
        untried += units_not_tried(opened)
    if not any((f.finding if isinstance(f, Open) else f).kind == "log-likelihood" for f in findings):
        findings += look_at_columns(contents, key)
    if budget is not None:
        # What is worst is mended first, as long as there is time.
        for i in sorted(range(len(findings)), key=lambda i: -_level(findings[i])):
            yield now(["remedies"])
            finding = findings[i]
            if isinstance(finding, Open):
                if progress is not None:
                    progress("remedies", sum(_SHARES) + (1 - sum(_SHARES)) * i / len(findings))
                findings[i] = finding.closed(budget)
        closed = [f for f in findings if isinstance(f, Finding)]
        warnings += filter(None, [told(closed)])
    yield now(())


def _open_draws(finding: Finding, release: Any, problem: Any, recovery: Any, key: int) -> Open:
    return Open(finding, lambda budget: draws_remedies(release, problem, recovery, key, budget), first=True)


def _level(found: Finding | Open) -> int:
    return LEVELS.index((found.finding if isinstance(found, Open) else found).severity)


def _part(progress: Progress | None, begin: float, width: float) -> Progress | None:
    """Progress of one attack as progress of the whole audit."""
    if progress is None:
        return None
    return lambda label, fraction: progress(label, begin + width * min(max(fraction, 0.0), 1.0))
