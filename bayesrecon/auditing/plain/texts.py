"""Labels of axes, attributes, comments and other texts: addresses, paths, names of people, rows of data."""

import re
from collections.abc import Iterator, Sequence

import numpy as np

from bayesrecon.auditing.accounts.comments import odd_lines
from bayesrecon.auditing.accounts.texts import EMAIL, PATH, are_versions, is_known, kind_of_labels
from bayesrecon.auditing.inventory import Entry, attributes_of, texts_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_attribute_numbers, of_labels
from bayesrecon.auditing.vouchers import Item, voucher_of
from bayesrecon.auditing.wording import NOTHING, SHOW, preview, short, to_drop
from bayesrecon.posteriors.roles import CODE, STRUCTURE
from bayesrecon.results.findings import Finding, NotRun, Remedy, Severity
from bayesrecon.results.told import values_in
from bayesrecon.untrusted.decoded_values import layers

_WHAT = {
    "e-mail addresses": "e-mail addresses",
    "identifiers": "identifiers of entries",
    "numbers": "values, one per entry",
    "levels": "numbers that identify entries",
    "words": "labels of entries",
}

_SEED = "the random seed: whoever guesses the data can run the sampler again and compare"
_SAMPLER = {
    "seed": _SEED, "random_seed": _SEED, "stepsize": "the sampler's step size", "step size": "the sampler's step size",
}  # fmt: skip
_PEOPLE = re.compile(
    r"(author|user|patient|subject|person|owner|host|hospital|contact|clinician|investigator)", re.IGNORECASE
)
_LONG = 2000  # characters: longer texts are not labels or remarks
_NUMBER = re.compile(r"-?[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?")


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on labels, including those of chains and draws, on attributes, on other texts, and on comments."""
    return [*_labels(look), *_attributes(look), *_comments(look)], []


def _labels(look: Look) -> Iterator[Finding]:
    merged: dict[str, tuple[np.ndarray, list[str]]] = {}
    for where, values in look.contents.coordinates.items():
        key = where.split("/", 1)[1]
        if key in merged and np.array_equal(merged[key][0], values):
            merged[key][1].append(where)
        elif values.size and values.ndim:
            merged[where if key in merged else key] = (values, [where])
    for values, places in merged.values():
        axis, column = places[0].split("/", 1)[1], look.named(values)
        severity = of_labels(values, axis in look.parameter_axes, axis in look.record_axes)
        what = _WHAT.get(kind_of_labels(values), "")
        if what == "labels of entries" and severity == "high":
            what = "a different label per entry: names or identifiers"
        if column:
            severity, what = "high", f"the private column {column}"
        if severity is not None:
            title, instead = f"the coordinate {axis!r} holds {what}", "number the entries instead"
            summary = f"{values.size} labels, beginning {preview(values)}"
            yield to_drop("labels", severity, title, tuple(places), summary, instead=instead)


def _attributes(look: Look) -> Iterator[Finding]:
    """One finding for each attribute, with all its places, and one for each text."""
    merged: dict[tuple[str, str], tuple[object, list[Entry]]] = {}
    for entry in attributes_of(look.contents):
        name = entry.where.replace("@", "/").rstrip("/").split("/")[-1]
        merged.setdefault((name, repr(entry.values)[:10_000]), (entry.values, []))[1].append(entry)
    for (name, _), (value, entries) in merged.items():
        severity, what = _judged(name, value, look)
        if severity is not None:
            named, drop = f"the attribute {short(name, 60)!r}", tuple(e.where for e in entries)
            places, remedies = tuple(w.removeprefix("@") for w in drop), (Remedy(f"remove {named}", leaves="info"),)
            title, summary = f"{named} holds {what}", _quoted(value, severity)
            yield Finding("attributes", severity, title, places, summary, remedies=remedies, drop=drop)
    for entry in texts_of(look.contents):
        severity, what = _judged("", entry.values, look)
        if entry.role in (CODE, STRUCTURE) and what.startswith("a text of"):
            continue  # functions may be long
        if severity is not None:
            title = f"{short(entry.where, 80)} holds {what}"
            yield to_drop("text", severity, title, (entry.where,), _quoted(entry.values, severity))


def _quoted(value: object, severity: Severity) -> str:
    """The beginning of a text, as values of records unless it is only of how the file was made."""
    return short(value) if severity == "low" else values_in(short(value))


def _judged(name: str, value: object, look: Look) -> tuple[Severity | None, str]:
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


def _comments(look: Look) -> Iterator[Finding]:
    """Findings on comments. Other lines that CmdStan does not write are unrecognised."""
    lines, where = look.contents.comments, ("comments",)
    for title, summary, needs in _revealed_by(lines):
        yield to_drop("comments", "low", title, where, summary, needs)
    odd = odd_lines(lines)
    for text in (*odd[:1000], "\n".join(odd)) if odd else ():
        severity, what = _judged("", text, look)
        if severity == "high":
            yield to_drop("comments", "high", f"the comments hold {what}", where, _quoted(text, severity))
            break


def _revealed_by(lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Title, evidence and what an attacker needs, for everything that CmdStan's own lines reveal."""
    settings = dict(_setting(line) for line in lines if "=" in line)
    data = [v for k, v in settings.items() if k in ("file", "data file", "data_file") and v]
    paths = sorted({m.group(0) for line in lines for m in PATH.finditer(line)} | set(data))
    if paths:
        summary = f"{', '.join(short(p) for p in paths[:SHOW])}: a user's name, a project, the data file"
        yield "the comment header holds file names of the machine it was made on", summary, NOTHING
    if "seed" in settings:
        yield (
            "the comment header holds the random seed",
            f"seed = {short(settings['seed'])}: with it, a guess of the whole data set can be confirmed to the last "
            "digit by running the sampler again",
            "the program, the sampler's version and a guess of the data",
        )
    start = next((i for i, line in enumerate(lines) if "inverse mass matrix" in line.lower()), None)
    if start is not None:
        numbers = _NUMBER.findall(" ".join(lines[start + 1 : start + 2]))
        summary = (
            f"{len(numbers)} or more entries, beginning {', '.join(numbers[:SHOW])}: the posterior's variances from "
            "draws that were not published; they stay when draws are thinned or rounded"
        )
        yield "the comments hold step size and mass matrix of the warm-up", summary, "the model"


def _setting(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key.strip().lower(), value.strip().removesuffix("(Default)").strip()


CHANNEL = Channel("texts", find, 40)
