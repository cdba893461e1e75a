"""Assemble an audit: findings without a model, scores against private data, and audits of several files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bayesrecon.auditing.accounts.account import accounts, unrecognised
from bayesrecon.auditing.column_matches import Matching
from bayesrecon.auditing.inventory import inventory
from bayesrecon.auditing.look import Look, Named, nobody
from bayesrecon.auditing.pointwise import look_at_columns
from bayesrecon.auditing.private_data import Private, read_private
from bayesrecon.auditing.sensitive_values import PASS_A_MODEL, attack_of, not_run, sensitive_values, without_attack
from bayesrecon.errors import BayesreconError, labelled
from bayesrecon.model import Model
from bayesrecon.posteriors.contents import Contents
from bayesrecon.results.audit import Audit, ordered, with_score
from bayesrecon.results.findings import SAY_WHICH, Finding, NotRun


@dataclass(frozen=True)
class Stage:
    """The state of an audit after some of the attacks.

    Attributes:
        findings: findings so far.
        warnings: warnings so far.
        untried: attacks that could not be run, and except at the last stage also those that have not been run yet.
    """

    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]
    untried: tuple[NotRun, ...]


def merge(audits: Sequence[Audit]) -> Audit:
    """Merge audits of several files into one whose findings name their files."""
    if len(audits) == 1:
        return audits[0]
    findings = [
        replace(f, title=f"{a.name}: {f.title}", where=tuple(f"{a.name}: {w}" for w in f.where))
        for a in audits
        for f in a
    ]
    first = audits[0]
    return replace(
        first,
        findings=ordered(findings),
        name=", ".join(a.name for a in audits),
        format=", ".join(dict.fromkeys(a.format for a in audits)),
        model=", ".join(dict.fromkeys(a.model for a in audits if a.model)) or None,
        draws=sum(a.draws for a in audits),
        files=tuple(f for a in audits for f in a.files),
        warnings=tuple(labelled(a.name, w) for a in audits for w in a.warnings),
        not_run=tuple(replace(n, attack=f"{a.name}: {n.attack}") for a in audits for n in a.not_run),
        seconds=sum(a.seconds for a in audits),
    )


def unopened(contents: Contents, key: int, seen: list[Finding]) -> tuple[list[Finding], list[NotRun], str]:
    """Values that can be attacked with a model: further findings, attacks that were not tried, and a warning."""
    findings = look_at_columns(contents, key)
    closed = sensitive_values(contents, earlier=(*seen, *findings))
    if contents.undecided:
        reason, remedy, note = "it is open whether the rows are draws", SAY_WHICH, ""
    elif any(u.content for u in contents.unread):
        reason, remedy = "the file was not read", ""
        note = "; ".join(f"{u.where}: {u.reason}" for u in contents.unread)
    elif contents.draws is None:
        reason = "there are no draws in the file (no group 'posterior')"
        remedy = "audit it together with the draws, or drop it"
        note = "there are no draws (no group 'posterior'): the audit searched only for copies"
    else:
        reason, remedy = "no model was given", PASS_A_MODEL
        note = "without a model (--model) draws, log densities and predictions were not attacked"
    untried = [not_run(f, reason, remedy) for f in (*findings, *closed) if attack_of(f)]
    return findings + closed, untried + without_attack(closed), note


def with_sensitive_values(contents: Contents, model: Model, stage: Stage) -> Stage:
    """Add findings for values that the attacks that did not run would use."""
    missed = {n.attack for n in stage.untried}
    closed = [
        f for f in sensitive_values(contents, model, stage.findings) if attack_of(f) in missed or not attack_of(f)
    ]
    return replace(stage, findings=(*stage.findings, *closed), untried=(*stage.untried, *without_attack(closed)))


def with_accounts(look: Look, stage: Stage, public: tuple[str, ...]) -> Stage:
    """Add a finding for unrecognised items, once all attacks were tried."""
    accounted = accounts(replace(look, findings=stage.findings), stage.untried, public)
    return replace(stage, findings=(*stage.findings, *unrecognised(accounted)))


def named(private: Private | None, contents: Contents) -> Named:
    """A function that names the private column that values are equal to."""
    return Matching(private.columns, len(inventory(contents))) if private is not None else nobody


def scored_table(finding: Finding, model: Model, data: object, known: Sequence[str]) -> Finding:
    """The finding of a table of estimates inside a file, scored with the table's own model.

    It has no score if the private data lack a column of the design, such as a level of a factor.
    """
    try:
        private = read_private(data, model)
    except BayesreconError:
        return finding
    return finding if private is None else scored(finding, private, model, known, None)


def scored(finding: Finding, private: Private, model: Model | None, known: Sequence[str], unit: str | None) -> Finding:
    """The finding with true values. It is called only after all attacks."""
    from bayesrecon.auditing.scoring import match_records, measured_remedies
    from bayesrecon.evaluate.truth import true_statistics

    if model is None or private.records is None or not finding.evidence:
        return finding
    truth = true_statistics(model, private.records, known=tuple(known), unit=unit)
    fields = {f: v for f, v in finding.records.items() if f in private.records}
    data = {f: private.records[f] for f in fields}
    score = match_records(fields, data) if fields else None
    return with_score(finding, score, truth, measured_remedies(finding, truth, data))


def with_data(fitted: Audit, data: object, known: tuple[str, ...]) -> Audit:
    """The audit of a fit with true values, if there are private data."""
    private = read_private(data, fitted.used)
    if private is None:
        return fitted
    seen = tuple(scored(f, private, fitted.used, known, None) for f in fitted.findings)
    return replace(fitted, findings=seen, settings={**fitted.settings, "data": private.stamp})
