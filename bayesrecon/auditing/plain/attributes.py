"""Attributes and other texts in a file: addresses, paths, names of people, rows of data."""

import re

import numpy as np

from bayesrecon.auditing.accounts.texts import EMAIL, PATH, are_versions, is_known, kind_of_labels
from bayesrecon.auditing.decoded_values import layers
from bayesrecon.auditing.inventory import Entry, attributes_of, texts_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_attribute_numbers
from bayesrecon.auditing.short_text import short
from bayesrecon.auditing.vouchers import Item, voucher_of
from bayesrecon.posteriors.roles import CODE, STRUCTURE
from bayesrecon.results.findings import Finding, NotRun, Remedy, Severity

_SEED = "the random seed: whoever guesses the data can run the sampler again and compare"
_SAMPLER = {
    "seed": _SEED, "random_seed": _SEED, "stepsize": "the sampler's step size", "step size": "the sampler's step size",
}  # fmt: skip
_PEOPLE = re.compile(
    r"(author|user|patient|subject|person|owner|host|hospital|contact|clinician|investigator)", re.IGNORECASE
)
_LONG = 2000  # characters: longer texts are not labels or remarks


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each attribute, with all its places."""
    merged: dict[tuple[str, str], tuple[object, list[Entry]]] = {}
    for entry in attributes_of(look.contents):
        name = entry.where.replace("@", "/").rstrip("/").split("/")[-1]
        merged.setdefault((name, repr(entry.values)[:10_000]), (entry.values, []))[1].append(entry)
    findings = []
    for (name, _), (value, entries) in merged.items():
        severity, what = judge(name, value, look)
        if severity is None:
            continue
        places = tuple(e.where.removeprefix("@") for e in entries)
        drop = tuple(e.where for e in entries)
        findings.append(
            Finding(
                "attributes",
                severity,
                f"the attribute {short(name, 60)!r} holds {what}",
                places,
                short(value),
                remedies=(Remedy(f"remove the attribute {short(name, 60)!r}"),),
                drop=drop,
            )
        )
    for entry in texts_of(look.contents):
        severity, what = judge("", entry.values, look)
        if entry.role in (CODE, STRUCTURE) and what.startswith("a text of"):
            continue  # functions may be long
        if severity is not None:
            summary = f"{short(entry.where, 80)} holds {what}"
            drop = (entry.where,)
            findings.append(Finding("text", severity, summary, drop, short(entry.values), drop=drop))
    return findings, []


def judge(name: str, value: object, look: Look) -> tuple[Severity | None, str]:
    """The severity of an attribute or a text, and what it contains, in words."""
    column = look.named(value)
    if column:
        return "high", f"the private column {column}"
    if is_known(name, value) or (isinstance(value, str) and are_versions(value)):
        return None, ""
    for part in layers(value):
        if isinstance(part, str):
            if EMAIL.search(part):
                return "high", "an e-mail address"
            continue
        if part.dtype.kind in "biuf":
            severity = None if voucher_of(Item("", part)) else of_attribute_numbers(part)
            if severity:
                return severity, f"{part.size} numbers: rows of data?"
        elif part.size > 3:
            kind = kind_of_labels(part)
            if kind == "e-mail addresses":
                return "high", kind
            if kind == "identifiers":
                return "high", f"{part.size} identifiers"
    text = str(value) if isinstance(value, str) else ""
    if PATH.search(text[:100_000]):
        return "low", "a path on the machine that made it"
    if name.lower() in _SAMPLER:
        return "low", _SAMPLER[name.lower()]
    if len(text) > _LONG:
        return "medium", f"a text of {len(text)} characters"
    if name and _PEOPLE.search(name) and np.asarray(value).size == 1:
        return "medium", "a name"
    return None, ""


CHANNEL = Channel("attributes", find, 50)
