"""Audits of the outputs of an ACRO session, one by output."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from bayesrecon.auditing.small_counts import Count, small_counts
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.contents import stamp
from bayesrecon.posteriors.printed.acro import AcroOutput, file_of, read_acro
from bayesrecon.results.audit import Audit
from bayesrecon.results.findings import NotRun, Thresholds

_FORM = "output of ACRO"
_PRINTED = "directly, printed in the table"
_READ = "audit its table by itself, with its model"


def audits_of_acro(
    source: str | Path, audit: Callable[..., Audit], limits: Thresholds, **options: object
) -> list[Audit]:
    """Audit every output as a table, and report ACRO's own verdict beside it.

    Args:
        source: `results.json`, or its folder.
        audit: function that audits a table.
        limits: thresholds of the audit.
        options: options of `audit`.

    Raises:
        BayesreconError: ACRO did not write this file.
    """
    audits = [_audited(output, audit, limits, options) for output in read_acro(source)]
    if not audits:
        raise BayesreconError(f"{source}: this ACRO session has no outputs")
    return [replace(audits[0], files=(asdict(stamp(file_of(source))),)), *audits[1:]]


def _audited(
    output: AcroOutput, audit: Callable[..., Audit], limits: Thresholds, options: Mapping[str, object]
) -> Audit:
    status = f"ACRO: {output.status}" + (f" ({output.checks})" if output.checks else "")
    empty = Audit((), output.name, _FORM, None, 0, (), {}, limits, (status,))
    if isinstance(output.table, list):
        counts = _counts(output.table)
        return replace(
            empty, findings=tuple(small_counts(counts, limits.small_count, (output.name,), "nothing but the file"))
        )
    if not output.kind:
        reason = f"it is a {output.description}, and outputs of this kind are not read"
        return replace(empty, not_run=(NotRun("table", reason, _READ, (output.name,)),))
    try:
        audited = audit(
            output.table, output.kind, name=output.name, response=output.response, thresholds=limits, **options
        )
    except BayesreconError as error:
        return replace(empty, not_run=(NotRun("table", str(error), _READ, (output.name,)),))
    findings = tuple(replace(f, where=(output.name,)) for f in audited)
    not_run = tuple(replace(n, where=(output.name,)) for n in audited.not_run)
    return replace(audited, findings=findings, not_run=not_run, format=_FORM, warnings=(status, *audited.warnings))


def _counts(grids: list[list[list[str]]]) -> list[Count]:
    """The counts in a table, named by row and column."""
    counts = []
    for grid in grids:
        header, *rows = grid
        for row in rows:
            for name, text in zip(header[1:], row[1:], strict=False):
                if text.removesuffix(".0").isdigit():
                    value = float(text)
                    counts.append(Count(f"{header[0] or 'line'}={row[0]},column={name}", value, value, value, _PRINTED))
    return counts
