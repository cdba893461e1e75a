"""The data that a saved fit keeps, by role: tables, residuals, factors, times, splits."""

import re
from collections.abc import Iterable

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_labels, of_rows
from bayesrecon.auditing.short_text import places, preview, short
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.roles import CUT, ESTIMATE, LEAF, RECORD, SEED, TIMES, TOTAL
from bayesrecon.results.findings import Finding, NotRun, Remedy, Severity

_SHOWN = 3  # largest number of columns quoted in a finding
_WORKSPACE = (".Environment", "<environment>", "<enclosure>")
_MOST_TIMES = 2**20  # largest number of records that are listed one by one
_SUMMARY = {"summary", "inits", "mean_pars", "mean_lp__", "coefficients", "ses", "covmat", "stan_summary"}
_COLUMNS = 16  # largest number of summary numbers per column of the draws
_RECORDS = "publish a table of its estimates, or a fit without it"
_KEPT = "R keeps them for every record"
_AROUND = "a formula or a function keeps all objects of the environment in which it was created"


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding for each object that keeps values of records, and one for each other role."""
    if look.contents.saved is not None:  # `objects` handles saved objects of Python
        return [], []
    entries = [e for e in look.contents.entries if e.role and e.where not in look.reported]
    findings = [f for where, group in _groups(entries) if (f := _records(look, where, group)) is not None]
    named = [e for e in entries if e.kind == "labels" and e.role in (RECORD, ESTIMATE)]
    findings += [f for e in named if (f := _labels(look, e)) is not None]
    findings += [*_summaries(look), *_events(look, entries)]
    for role, severity, title, gives in _OTHERS:
        role_entries = [e for e in entries if e.role == role and e.kind in ("array", "labels") and np.size(e.values)]
        if role_entries:
            findings.append(_other(look, role_entries, severity, title, gives))
    return findings, []


def _groups(entries: Iterable[Entry]) -> list[tuple[str, list[Entry]]]:
    """Arrays of records, grouped by the object that contains them."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        if entry.role == RECORD and entry.kind in ("array", "text"):
            cut = max(entry.where.rfind("/"), entry.where.rfind("@"))
            groups.setdefault(entry.where[: max(cut, 0)], []).append(entry)
    return list(groups.items())


def _records(look: Look, where: str, group: list[Entry]) -> Finding | None:
    values = [e for e in group if look.named(e.values) or not structure_of(e.values)]
    if not any(np.size(e.values) > 1 or look.named(e.values) for e in values):
        return None
    count = max((len(np.atleast_1d(e.values)) for e in values), default=0)
    severity = of_rows(count)
    if severity is None:
        return None
    private = [f"{_last(e)}: the private column {name}" for e in values if (name := look.named(e.values))]
    in_workspace = any(mark in where for mark in _WORKSPACE)
    examples = "; ".join(f"{_last(e)}: {preview(e.values)}" for e in values[:_SHOWN])
    names = places([_last(e) for e in values], 8)
    return Finding(
        "copy",
        "high" if private else severity,
        f"{short(where, 80) or 'the file'} holds values of {count} records: {names}",
        tuple(e.where for e in group),
        f"{examples}. {_AROUND[0].upper() + _AROUND[1:] if in_workspace else _KEPT[0].upper() + _KEPT[1:]}"
        + (f"; {'; '.join(private)}" if private else ""),
        remedies=(Remedy(f"drop {places([e.where for e in values], 3)}; {_RECORDS}"),),
        drop=tuple(e.where for e in group),
    )


def _labels(look: Look, entry: Entry) -> Finding | None:
    column = look.named(entry.values)
    of_records = entry.role == RECORD
    severity = "high" if column else of_labels(entry.values, not of_records, of_records)
    if severity is None or np.size(entry.values) < 2:
        return None
    return Finding(
        "labels",
        severity,
        f"{short(entry.where, 80)} names {'the records' if of_records else 'estimates by what looks like identifiers'}",
        (entry.where,),
        f"{np.size(entry.values)} labels, beginning {preview(entry.values)}"
        + (f"; they are the private column {column}" if column else ""),
        remedies=(Remedy("number the rows before fitting: row.names(data) <- NULL"),),
        drop=(entry.where,),
    )


def _other(look: Look, entries: list[Entry], severity: Severity | None, title: str, gives: str) -> Finding:
    count = sum(int(np.size(e.values)) for e in entries)
    private = [f"{_last(e)}: the private column {name}" for e in entries if (name := look.named(e.values))]
    worst = "high" if private else severity or of_rows(max(int(np.size(e.values)) for e in entries)) or "medium"
    examples = "; ".join(f"{short(e.where, 60)}: {preview(e.values)}" for e in entries[:_SHOWN])
    return Finding(
        "copy",
        worst,
        f"{title}: {places([_last(e) for e in entries], 6)}",
        tuple(e.where for e in entries),
        f"{count} values, {examples}. {gives}" + (f"; {'; '.join(private)}" if private else ""),
        remedies=(Remedy(f"drop {places([e.where for e in entries], 3)}"),),
        drop=tuple(e.where for e in entries),
    )


def _summaries(look: Look) -> list[Finding]:
    """A finding on summaries of draws that are also in the file."""
    if look.contents.draws is None:
        return []
    of_draws = tuple(f"{e.where}{sign}" for e in look.contents.estimates if e.of_draws for sign in "/@")
    most = _COLUMNS * (sum(int(np.prod(v.shape, dtype=int)) for v in look.contents.variables) + 1)
    summaries = [e for e in look.contents.entries if e.role == ESTIMATE and _SUMMARY & set(re.split("[/@]", e.where))]
    summaries = [e for e in summaries if e.where.startswith(of_draws) and np.size(e.values) <= most] if of_draws else []
    if not summaries:
        return []
    where = tuple(e.where for e in summaries)
    gives = "means, deviations and quantiles of the draws reveal the same statistics as the draws, less precisely"
    return [Finding("draws summary", "low", "summaries of the draws are in the file", where, gives, drop=where)]


def _siblings(entries: Iterable[Entry], role: str) -> list[dict[str, Entry]]:
    """Arrays of a role by name, for each object."""
    by_parent: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.role == role and entry.kind == "array":
            by_parent.setdefault(entry.where[: -len(_last(entry))], {})[_last(entry)] = entry
    return list(by_parent.values())


def _events(look: Look, entries: Iterable[Entry]) -> list[Finding]:
    """Findings on survival curves, whose steps and counts reveal every record's time and whether it was an event."""
    findings = []
    for arrays in _siblings(entries, TIMES):
        if not {"time", "n.event", "n.censor"} <= set(arrays):
            continue
        time, event, censored = (np.ravel(np.asarray(arrays[k].values, float)) for k in ("time", "n.event", "n.censor"))
        counts = np.concatenate([event, censored])
        if not len(time) == len(event) == len(censored) or not _are_counts(counts):
            continue
        times = np.repeat(np.concatenate([time, time]), counts.astype(int))
        died = np.repeat(np.repeat([1.0, 0.0], len(time)), counts.astype(int))
        severity = of_rows(len(times))
        if severity is None:
            continue
        column = look.named(times)
        where = tuple(arrays[name].where for name in ("time", "n.event", "n.censor"))
        findings.append(
            Finding(
                "copy",
                severity,
                f"the survival curve gives the time of each of {len(times)} records, and whether it was an event",
                where,
                f"times, beginning {preview(np.sort(times))}; {int(died.sum())} of them events"
                + (f"; they are the private column {column}" if column else ""),
                remedies=(Remedy("publish the curve at a few round times: summary(fit, times = ...)"),),
                records={"time": times, "event": died},
                errors={"time": np.zeros(len(times)), "event": np.zeros(len(times))},
                drop=where,
            )
        )
    return findings


def _are_counts(values: np.ndarray) -> bool:
    return bool(np.all((values >= 0) & (values == np.round(values))) and 0 < values.sum() <= _MOST_TIMES)


def _last(entry: Entry) -> str:
    return entry.where[max(entry.where.rfind("/"), entry.where.rfind("@")) + 1 :]


_OTHERS: tuple[tuple[str, Severity | None, str, str], ...] = (
    (
        TIMES,
        None,
        "times of events are in the file",
        "each step of a survival curve is the time of a record, with the number at risk",
    ),
    (
        LEAF,
        "medium",
        "leaves of trees are in the file",
        "a leaf of one record holds its response, and the splits above it bound covariates of that record",
    ),
    (
        CUT,
        "medium",
        "splits of trees are in the file",
        "each lies midway between the values of two records",
    ),
    (
        TOTAL,
        "medium",
        "exact totals are in the file",
        "means, counts, medians and products of all records, with all digits",
    ),
    (
        SEED,
        "low",
        "the state of a generator of random numbers is in the file",
        "whoever guesses the data can draw again and compare",
    ),
)
"""Role, severity (None: by the number of rows), title, and what an attacker learns."""

CHANNEL = Channel("stored fits", find, 12)
