"""Arrays that lie outside the groups of a fit: at the root, in nested groups, in tables, in files beside."""

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.accounts.texts import EMAIL, kind_of_labels
from bayesrecon.auditing.inventory import arrays_beside
from bayesrecon.auditing.look import Look, Plain
from bayesrecon.auditing.severity import of_constants
from bayesrecon.auditing.words import count, preview
from bayesrecon.posteriors.contents import GROUPS, Entry
from bayesrecon.posteriors.roles import ESTIMATE, STRUCTURE
from bayesrecon.results.findings import Finding, NotRun, Remedy


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Values that are no draws, by their number; what may be draws of something is not recognised."""
    draws = look.contents.draws
    total = draws.chains * draws.length if draws is not None else 0
    findings = []
    beside = [e for e in arrays_beside(look.contents) if not _counts(e)]
    beside = [(e.where, e.values) for e in beside if not _told(e) or look.named(e.values)]
    unknown = [v for v in look.contents.variables if v.group not in GROUPS and not v.group.startswith("warmup_")]
    for where, values in [*beside, *((v.where, v.values) for v in unknown if not v.per_draw)]:
        array, column = np.asarray(values), look.named(values)
        if where in look.seen or not array.size or (column is None and structure_of(array)):
            continue
        texts = array.dtype.kind not in "biuf"
        if column is None and ((total and array.size % total == 0) or (texts and not _tell(array)) or array.size < 5):
            continue
        severity = of_constants(array, private=column is not None or texts) or "medium"
        findings.append(
            Finding(
                "copy",
                severity,
                f"{where} holds values outside the groups of a fit",
                (where,),
                f"{count(array)} values, beginning {preview(array)}"
                + (f"; they are the private column {column}" if column else ""),
                remedies=(Remedy(f"drop {where}"),),
                drop=(where,),
            )
        )
    return findings, []


def _counts(entry: Entry) -> bool:
    """Labels that number what they label."""
    return entry.kind == "labels" and kind_of_labels(entry.values) == "positions"


def _told(entry: Entry) -> bool:
    """Estimates, which are attacked as such, and structure."""
    return entry.role in (ESTIMATE, STRUCTURE)


def _tell(texts: np.ndarray) -> bool:
    return any(EMAIL.search(str(t)) for t in texts.ravel()[:10_000]) or len(np.unique(texts)) >= 20


PLAIN = Plain("values elsewhere", find, 25)
