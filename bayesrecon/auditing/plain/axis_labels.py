"""Labels of axes that may be personal."""

import numpy as np

from bayesrecon.auditing.accounts.texts import kind_of_labels
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_labels
from bayesrecon.auditing.short_text import preview
from bayesrecon.results.findings import Finding, NotRun, Remedy

_WHAT = {
    "e-mail addresses": "e-mail addresses",
    "identifiers": "identifiers of entries",
    "numbers": "values, one per entry",
    "levels": "numbers that identify entries",
    "words": "labels of entries",
}


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on coordinates, including those of chains and draws."""
    merged: dict[str, tuple[np.ndarray, list[str]]] = {}
    for where, values in look.contents.coordinates.items():
        key = where.split("/", 1)[1]
        if key in merged and np.array_equal(merged[key][0], values):
            merged[key][1].append(where)
        elif values.size and values.ndim:
            merged[where if key in merged else key] = (values, [where])
    findings = []
    for values, places in merged.values():
        axis, column = places[0].split("/", 1)[1], look.named(values)
        severity = of_labels(values, axis in look.parameter_axes, axis in look.record_axes)
        what = _WHAT.get(kind_of_labels(values), "")
        if what == "labels of entries" and severity == "high":
            what = "a different label per entry: names or identifiers"
        if column:
            severity, what = "high", f"the private column {column}"
        if severity is None:
            continue
        findings.append(
            Finding(
                "labels",
                severity,
                f"the coordinate {axis!r} holds {what}",
                tuple(places),
                f"{values.size} labels, beginning {preview(values)}",
                remedies=(Remedy("number the entries instead"),),
                drop=tuple(places),
            )
        )
    return findings, []


CHANNEL = Channel("labels", find, 40)
