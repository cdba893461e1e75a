"""Arrays outside the groups of a fit: at the root, in nested groups, in tables, in other files of an archive."""

import numpy as np

from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.accounts.texts import EMAIL, kind_of_labels
from bayesrecon.auditing.inventory import arrays_beside
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_constants
from bayesrecon.auditing.short_text import count, preview
from bayesrecon.posteriors.contents import GROUPS, Entry
from bayesrecon.posteriors.roles import ESTIMATE, STRUCTURE
from bayesrecon.results.findings import Finding, NotRun, Remedy


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on arrays that are not draws. Arrays that may be draws of something are unrecognised."""
    draws = look.contents.draws
    total = draws.chains * draws.length if draws is not None else 0
    findings = []
    beside = [e for e in arrays_beside(look.contents) if not _counts(e)]
    beside = [(e.where, e.values) for e in beside if not _attacked_or_structure(e) or look.named(e.values)]
    unknown = [v for v in look.contents.variables if v.group not in GROUPS and not v.group.startswith("warmup_")]
    for where, values in [*beside, *((v.where, v.values) for v in unknown if not v.per_draw)]:
        array, column = np.asarray(values), look.named(values)
        if where in look.reported or not array.size or (column is None and structure_of(array)):
            continue
        texts = array.dtype.kind not in "biuf"
        if column is None and (
            (total and array.size % total == 0) or (texts and not _are_personal(array)) or array.size < 5
        ):
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
    """Whether labels only number the entries."""
    return entry.kind == "labels" and kind_of_labels(entry.values) == "positions"


def _attacked_or_structure(entry: Entry) -> bool:
    """Whether an entry is an estimate, which is attacked elsewhere, or structure."""
    return entry.role in (ESTIMATE, STRUCTURE)


def _are_personal(texts: np.ndarray) -> bool:
    """Whether texts contain an e-mail address, or are too many to be levels."""
    return any(EMAIL.search(str(t)) for t in texts.ravel()[:10_000]) or len(np.unique(texts)) >= 20


CHANNEL = Channel("values elsewhere", find, 25)
