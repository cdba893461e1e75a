"""Assemble an audit: findings without a model, scores against private data, and audits of several files."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from bayesrecon.auditing.accounts.account import accounts, unrecognised
from bayesrecon.auditing.accounts.texts import are_names_of_people, kind_of_labels
from bayesrecon.auditing.effort import Open
from bayesrecon.auditing.input import unanswered
from bayesrecon.auditing.inventory import inventory
from bayesrecon.auditing.look import Look, Named, nobody
from bayesrecon.auditing.pointwise import look_at_columns
from bayesrecon.auditing.private_data import Private
from bayesrecon.auditing.sensitive_values import (
    DRAWS,
    PASS_A_MODEL,
    attack_of,
    not_run,
    sensitive_values,
    without_attack,
)
from bayesrecon.auditing.stage import Stage
from bayesrecon.auditing.wording import short
from bayesrecon.errors import BayesreconError, labelled
from bayesrecon.posteriors.contents import Contents
from bayesrecon.results.audit import Audit, ordered
from bayesrecon.results.findings import SAY_WHICH, Finding, NotRun

_HELD = ("array", "labels", "bytes", "text")
READING = "reading"
"""The name of a `NotRun` for contents that could not be read completely."""


def merge(audits: Sequence[Audit]) -> Audit:
    """Merge audits of several files into one whose findings name their files."""
    if len(audits) == 1:
        return audits[0]
    findings = [
        replace(f, title=f"{a.name}: {f.title}", where=tuple(f"{a.name}: {w}" for w in f.where)) if a.name else f
        for a in audits
        for f in a
    ]
    first = audits[0]
    return replace(
        first,
        findings=ordered(findings),
        name=", ".join(a.name for a in audits if a.name),
        format=", ".join(dict.fromkeys(a.format for a in audits if a.format)),
        model=", ".join(dict.fromkeys(a.model for a in audits if a.model)) or None,
        draws=sum(a.draws for a in audits),
        files=tuple(f for a in audits for f in a.files),
        warnings=tuple(labelled(a.name, w) for a in audits for w in a.warnings),
        not_run=tuple(replace(n, attack=f"{a.name}: {n.attack}") if a.name else n for a in audits for n in a.not_run),
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


def judged(look: Look, stage: Stage) -> Stage:
    """Add what no channel took: values that a model makes attackable, and items that nobody recognises.

    Raises:
        BayesreconError: there was nothing to look for.
    """
    contents = look.contents
    if look.opened is not None:
        missed = {n.attack for n in stage.untried}
        found = sensitive_values(contents, look.model, stage.findings)
        closed = [f for f in found if attack_of(f) in missed or not attack_of(f)]
        stage += Stage(tuple(closed), (), tuple(without_attack(closed)))
    elif not look.without_items and (
        bool(contents.undecided)
        if contents.saved is not None and contents.draws is None
        else look.fit is None or contents.variables
    ):
        closed, untried, note = unopened(contents, look.key, list(stage.findings))
        if look.fit is not None:  # the draws of such a file are those of the distribution, which was attacked
            closed, note = [f for f in closed if f.kind != DRAWS], ""
            untried = [n for n in untried if n.attack != DRAWS and (n.attack, n.where) != (READING, ("draws",))]
        held = contents.undecided or any(e.role or e.kind in _HELD for e in contents.entries)
        if contents.draws is None and not (stage.found or closed or stage.untried or held):
            raise BayesreconError(f"{contents.name}: there are no draws (no group 'posterior') and no data to look for")
        stage += Stage(tuple(closed), (note,) if note else (), tuple(untried))
    asked = unanswered(contents, look.model, stage.untried)
    stage = replace(stage, found=tuple(_once(stage.found)), untried=(*asked, *stage.untried))
    accounted = accounts(replace(look, findings=stage.findings), stage.untried, look.asked.public)
    return stage + Stage(tuple(unrecognised(accounted)))


def _once(found: "Sequence[Finding | Open]") -> "Iterator[Finding | Open]":
    """The findings, without those of whose places another finding of the same kind has the numbers."""
    closed = [f.finding if isinstance(f, Open) else f for f in found]
    told = [(f.kind, set(f.where)) for f in closed if f.evidence]
    for one, finding in zip(found, closed, strict=True):
        if finding.evidence or not any(finding.kind == kind and set(finding.where) <= where for kind, where in told):
            yield one


def in_words_of_the_file(findings: Iterable[Finding], contents: Contents) -> tuple[Finding, ...]:
    """The findings, with entries of parameters by the labels of their axis, `beta[age]` in the place of `beta[0]`."""
    names = dict[str, str]()
    for v in contents.group("posterior"):
        labels = contents.coordinates.get(f"{v.group}/{v.dimensions[0]}") if len(v.dimensions) == 1 else None
        words = [] if labels is None else [short(label, 40) for label in np.ravel(labels)]
        if labels is not None and kind_of_labels(labels) == "words" and not are_names_of_people(words):
            names |= {f"{v.name}[{k}]": f"{v.name}[{word}]" for k, word in enumerate(words)}
    features = [e.values for e in contents.entries if e.where.endswith("feature_names_in_") and e.kind == "labels"]
    if len(features) == 1:
        names |= {f"x[{k + 1}]": short(name, 40) for k, name in enumerate(np.ravel(features[0]))}
    if not names:
        return tuple(findings)
    form = re.compile(r"(?<![\w.])(" + "|".join(map(re.escape, names)) + ")")

    def said(text: str) -> str:
        return form.sub(lambda found: names[found[0]], text)

    def renamed(f: Finding) -> Finding:
        remedies = tuple(replace(r, statistic=r.statistic and said(r.statistic)) for r in f.remedies)
        records, errors = ({said(k): v for k, v in one.items()} for one in (f.records, f.errors))
        evidence, texts = tuple(replace(i, name=said(i.name)) for i in f.evidence), (said(f.title), said(f.summary))
        named = replace(f, evidence=evidence, remedies=remedies, records=records, errors=errors)
        return replace(named, title=texts[0], summary=texts[1])

    return tuple(map(renamed, findings))


def named(private: Private | None, contents: Contents) -> Named:
    """A function that names the private column that values are equal to."""
    if private is None:
        return nobody
    from bayesrecon.evaluate.column_matches import Matching

    return Matching(private.columns, len(inventory(contents)))
