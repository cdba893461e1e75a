"""The stages of an audit of draws with their model: the draws, every channel, and then remedies."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from bayesrecon.auditing.assembly import Stage
from bayesrecon.auditing.cell_totals import dominance_of_draws
from bayesrecon.auditing.channel import channels
from bayesrecon.auditing.density_columns import Numbers
from bayesrecon.auditing.draw_findings import draws_finding, draws_remedies, start
from bayesrecon.auditing.effort import Budget, Open, unmeasured_note
from bayesrecon.auditing.opened import Opened, open_release
from bayesrecon.auditing.plain_channels import INCALCULABLE, not_computed
from bayesrecon.auditing.pointwise import look_at_columns
from bayesrecon.auditing.sensitive_values import DRAWS
from bayesrecon.auditing.units import units_not_tried
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.anchors import Reference
from bayesrecon.estimation.problem import Problem
from bayesrecon.knowledge import Knows
from bayesrecon.model import Model, Progress
from bayesrecon.posteriors.contents import Contents
from bayesrecon.releases import PosteriorDraws
from bayesrecon.results.findings import LEVELS, Finding, NotRun, Thresholds
from bayesrecon.results.recovery import Recovery

_OTHERS = "pass the model that made these draws, including its prior, and draws with all their digits"
_MEND = "correct what the reason names, or drop these values"
_AGAIN = "run it again and let it end"
_STOPPED = "the audit was interrupted"
_SHARES = (0.5, 0.4)  # shares of the progress bar for the draws and for all channels; the rest is for remedies


def attack_stages(
    contents: Contents,
    model: Model,
    *,
    knows: Knows,
    budget: Budget | None,
    thresholds: Thresholds,
    key: int,
    progress: Progress | None,
) -> Iterator[Stage]:
    """Run every attack that the contents allow. Each stage has all results up to then, and lists what was not tried.

    Args:
        contents, model: the file and its model.
        knows: what an attacker knows.
        budget: time for remedies; None tries none.
        thresholds: what counts as severe.
        key: seed of everything random.
        progress: called with a label and the completed fraction.
    """
    available, skipped = channels()
    known, unit = knows.get("known") or {}, knows.get("unit")
    findings: list[Finding | Open] = []
    warnings: list[str] = []
    untried: list[NotRun] = [*skipped]

    def now(remaining: Iterable[str]) -> Stage:
        closed = tuple(f.finding if isinstance(f, Open) else f for f in findings)
        missing = (NotRun(name, _STOPPED, _AGAIN) for name in remaining)
        return Stage(closed, (*warnings, *map(str, untried)), (*untried, *missing))

    yield now([DRAWS, *(c.name for c in available)])
    release, positions = open_release(contents, model)
    warnings += release.notes
    reference, recovery = Reference(model.fields, {k: np.asarray(v) for k, v in known.items()}), None
    try:
        problem, recovery = start(release, knows, key, _part(progress, "the draws", 0.0, _SHARES[0]))
        reference = problem.reference
        warnings += recovery.warnings
        finding = draws_finding(recovery, unit_field(knows), thresholds) if recovery.consistent else None
        if finding is not None:
            findings.append(_open_draws(finding, release, problem, recovery, key))
        dominated, unseen = dominance_of_draws(problem, recovery, ("posterior",))
        findings += dominated
        warnings += unseen
        untried += [NotRun(DRAWS, failure, _OTHERS, ("posterior",)) for failure in recovery.failures]
    except BayesreconError as error:
        untried.append(NotRun(DRAWS, f"the draws alone were not attacked: {error}", _MEND, ("posterior",)))
    except INCALCULABLE as error:
        untried.append(not_computed(DRAWS, error))
    yield now(c.name for c in available)
    numbers = Numbers(contents, model, release, positions, reference, key)
    opened = Opened(contents, model, release, positions, reference, recovery, known, thresholds, key, numbers)
    for i, channel in enumerate(available):
        done = _part(progress, channel.name, _SHARES[0] + i / len(available) * _SHARES[1], _SHARES[1] / len(available))
        if done is not None:
            done("", 0.0)
        try:
            more, notes = channel.attack(replace(opened, progress=done))
        except BayesreconError as error:
            more, notes = [], [NotRun(channel.name, str(error), _MEND)]
        except INCALCULABLE as error:
            more, notes = [], [not_computed(channel.name, error)]
        findings += more
        warnings += [note for note in notes if isinstance(note, str)]
        untried += [note for note in notes if isinstance(note, NotRun)]
        yield now([*(c.name for c in available[i + 1 :]), "the rest of the audit"])
    if unit is None:
        untried += units_not_tried(opened)
    if not any((f.finding if isinstance(f, Open) else f).kind == "log-likelihood" for f in findings):
        findings += look_at_columns(contents, key)
    if budget is not None:
        # Remedies for the most severe findings come first, as long as there is time.
        for i in sorted(range(len(findings)), key=lambda i: -_level(findings[i])):
            yield now(["remedies"])
            finding = findings[i]
            if isinstance(finding, Open):
                if progress is not None:
                    progress("trying remedies", sum(_SHARES) + (1 - sum(_SHARES)) * i / len(findings))
                findings[i] = finding.closed(budget)
        closed = [f for f in findings if isinstance(f, Finding)]
        warnings += filter(None, [unmeasured_note(closed)])
    yield now(())


def _open_draws(finding: Finding, release: PosteriorDraws, problem: Problem, recovery: Recovery, key: int) -> Open:
    return Open(finding, lambda budget: draws_remedies(release, problem, recovery, key, budget), first=True)


def _level(finding: Finding | Open) -> int:
    return LEVELS.index((finding.finding if isinstance(finding, Open) else finding).severity)


def _part(progress: Progress | None, attack: str, begin: float, width: float) -> Progress | None:
    """A progress function for one attack that reports the progress of the whole audit."""
    if progress is None:
        return None
    return lambda label, fraction: progress(
        f"attacking {attack}{': ' if label else ''}{label}", begin + width * min(max(fraction, 0.0), 1.0)
    )


def unit_field(knows: Knows) -> str | None:
    """The field that identifies the units; None if there is none, or several do together."""
    unit = knows.get("unit")
    return unit if isinstance(unit, str) else None
