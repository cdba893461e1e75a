"""What an audit is put together from besides its attacks: what was not opened, scores, and several files as one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bayesrecon.auditing.columns import look_at_columns
from bayesrecon.auditing.held import PASS_A_MODEL, attack_of, held, not_run, without_attack
from bayesrecon.auditing.private import Private
from bayesrecon.posteriors.contents import Contents
from bayesrecon.results.audit import Audit, Finding, NotRun, ordered, with_score
from bayesrecon.types import Model


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


def merge(audits: Sequence[Audit]) -> Audit:
    """Audits of several files as one; findings say which file they are of."""
    if len(audits) == 1:
        return audits[0]
    findings = [replace(f, where=tuple(f"{a.name}: {w}" for w in f.where)) for a in audits for f in a]
    first = audits[0]
    return replace(
        first,
        findings=ordered(findings),
        name=", ".join(a.name for a in audits),
        format=", ".join(dict.fromkeys(a.format for a in audits)),
        model=", ".join(dict.fromkeys(a.model for a in audits if a.model)) or None,
        draws=sum(a.draws for a in audits),
        files=tuple(f for a in audits for f in a.files),
        warnings=tuple(f"{a.name}: {w}" for a in audits for w in a.warnings),
        not_run=tuple(replace(n, attack=f"{a.name}: {n.attack}") for a in audits for n in a.not_run),
        seconds=sum(a.seconds for a in audits),
    )


def unopened(contents: Contents, key: int) -> tuple[list[Finding], list[NotRun], str]:
    """What is there to be opened where nothing can be: findings, what was not tried, and a warning."""
    findings = look_at_columns(contents, key)
    closed = held(contents, found=findings)
    if contents.draws is None:
        reason = "there are no draws in the file (no group 'posterior')"
        remedy = "audit it together with the draws, or drop it"
        note = "there are no draws (no group 'posterior'): only copies were looked for"
    else:
        reason, remedy = "no model was given", PASS_A_MODEL
        note = "without a model (--model) draws, log densities and predictions were not attacked"
    untried = [not_run(f, reason, remedy) for f in (*findings, *closed) if attack_of(f)]
    return findings + closed, untried + without_attack(closed), note


def with_held(contents: Contents, model: Model, stage: Stage) -> Stage:
    """And what is in the file for attacks that were not run."""
    missed = {n.attack for n in stage.untried}
    closed = [f for f in held(contents, model, stage.findings) if attack_of(f) in missed or not attack_of(f)]
    return replace(stage, findings=(*stage.findings, *closed), untried=(*stage.untried, *without_attack(closed)))


def stored_model_of(contents: Contents) -> Model | None:
    from bayesrecon.posteriors.sources import stored_model

    if contents.draws is None or "bayesrecon_model" not in contents.draws.attributes:
        return None
    return stored_model(contents.draws)


def named(private: Private) -> Callable[[Any], str | None]:
    """Which private column an array is."""
    from bayesrecon.auditing.scoring import column_of

    return lambda values: column_of(values, private.columns)


def scored(finding: Finding, private: Private, model: Model | None, known: Sequence[str], unit: str | None) -> Finding:
    """The finding with the truth beside it. Attacks are over when this is called."""
    from bayesrecon.auditing.scoring import match_records, measured_remedies
    from bayesrecon.evaluate.truth import true_statistics

    if model is None or private.records is None or not finding.evidence:
        return finding
    truth = true_statistics(model, private.records, known=tuple(known), unit=unit)
    fields = {f: v for f, v in finding.records.items() if f in private.records}
    data = {f: private.records[f] for f in fields}
    score = match_records(fields, data) if fields else None
    return with_score(finding, score, truth, measured_remedies(finding, truth, data))
