"""Summaries of draws and survival curves that R saves, from which more follows than their numbers."""

import re
from collections.abc import Iterable

import numpy as np

from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_rows
from bayesrecon.auditing.short_text import preview
from bayesrecon.posteriors.contents import Entry
from bayesrecon.posteriors.roles import ESTIMATE, TIMES
from bayesrecon.results.findings import Finding, NotRun, Remedy

_MOST_TIMES = 2**20  # largest number of records that are listed one by one
_SUMMARY = {"summary", "inits", "mean_pars", "mean_lp__", "coefficients", "ses", "covmat", "stan_summary"}
_COLUMNS = 16  # largest number of summary numbers per column of the draws


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """A finding on summaries of draws, and one for each survival curve."""
    entries = [e for e in look.contents.entries if e.role and e.where not in look.reported]
    return [*_summaries(look), *_events(look, entries)], []


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


def _events(look: Look, entries: Iterable[Entry]) -> list[Finding]:
    """Findings on survival curves, whose steps and counts reveal every record's time and whether it was an event."""
    findings = []
    by_parent: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        if entry.role == TIMES and entry.kind == "array":
            by_parent.setdefault(entry.where[: -len(_last(entry))], {})[_last(entry)] = entry
    for arrays in by_parent.values():
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


CHANNEL = Channel("stored fits", find, 12)
