"""Several tables: each by itself, and what they tell together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayesrecon.auditing.table_pairs import audit_pairs
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import of_model
from bayesrecon.results.audit import Audit, Finding, NotRun


def audits_of_tables(
    sources: Sequence[Any],
    model: Any,
    which: Mapping[str, Any],
    knows: Mapping[str, Any],
    read: Callable[..., Any],
    audit: Callable[..., Audit],
    how: Mapping[str, Any],
) -> tuple[list[Audit], list[Finding], list[NotRun]]:
    """The audit of each table, findings on pairs of them, and pairs that were not looked at.

    Args:
        sources: paths or DataFrames.
        model, which: as `audit` has them; `correlations` is one for each table, None for none.
        knows: what an attacker knows.
        read: what makes a release of a table, with how it is audited.
        audit, how: how one is audited, and its options.

    Raises:
        BayesreconError: no model, or other numbers of correlations and of tables.
    """
    if model is None:
        raise BayesreconError("tables of estimates need their model=")
    related = which.get("correlations")
    related = [None] * len(sources) if related is None else list(related)
    if len(related) != len(sources):
        raise BayesreconError(
            f"{len(related)} correlations= for {len(sources)} tables; give one for each, None for none"
        )
    audits, releases = [], []
    for i, (source, one) in enumerate(zip(sources, related, strict=True), 1):
        name = None if isinstance(source, str | Path) else f"table {i}"  # which tells DataFrames apart
        own = {k: v for k, v in {**which, "correlations": one}.items() if v is not None}
        release, _ = read(source, model, **own)
        if release is not None:
            releases.append(release if name is None else replace(release, name=name))
        known = dict(knows) if release is None else of_model(knows, release.about)
        audits.append(audit(source, model, name=name, **own, **known, **how))
    findings, untried = audit_pairs(releases, how["thresholds"].small_count, knows, how["key"])
    return audits, findings, untried
