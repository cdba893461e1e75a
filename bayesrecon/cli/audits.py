"""How an audit ends on the command line: the report, its tables and the exit code."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bayesrecon.cli.command import Given

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bayesrecon.results.audit import Audit, Finding

_STYLE = {"high": "bold red", "medium": "yellow", "low": "cyan", "info": "dim"}
_ROWS = 8
_INCOMPLETE = 3  # exit code


def finish(given: Given, found: "Audit", html: Path | None, fail_on: str | None) -> None:
    """Write and show it, and leave with the exit code."""
    if html is not None:
        found.save_report(html)
    given.deliver(found, "plot_audit", _show)
    judged = found.fixed or found
    if fail_on is not None and judged.fails(fail_on):
        raise typer.Exit(1)
    if judged.verdict == "incomplete":
        raise typer.Exit(_INCOMPLETE)


def _show(result: "Audit") -> "list[RenderableType]":
    parts: list[Any] = _about(result)
    for finding in result.findings:
        if any(r.measured is not None for r in finding.remedies):
            parts.append(remedies_table(finding))
    if result.fixed is not None:
        parts += ["the cleaned copy:", *_about(result.fixed)]
    return parts


def _about(result: "Audit") -> list[Any]:
    parts: list[Any] = [result.headline, result.advice]
    parts += [findings_table(result)] if result.findings else []
    return parts + ([not_run_table(result)] if result.not_run else [])


def findings_table(result: "Audit") -> Any:
    """One row per finding, the most severe first."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_lines=True)
    for heading in ("severity", "finding", "evidence", "needed", "remedy"):
        table.add_column(heading, overflow="fold")
    for f in result.findings:
        remedy = next((r.action for r in f.remedies), "")
        scored = (
            "" if f.score is None else f"; {f.score.matched} of {f.score.total} match the private records one to one"
        )
        scored += "" if f.score is None else f" (null {f.score.null:.0%})"
        cells = (f.title, f.summary + scored, f.needs, remedy)
        table.add_row(f"[{_STYLE[f.severity]}]{f.severity}[/]", *map(escape, cells))
    return table


def not_run_table(result: "Audit") -> Any:
    """One row per attack that was not tried."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(show_lines=True, title="not run: what these would open is not cleared", title_justify="left")
    for heading in ("attack", "on", "why not", "to run it, or do without"):
        table.add_column(heading, overflow="fold")
    for n in result.not_run:
        where = ", ".join(n.where[:_ROWS]) + (f" and {len(n.where) - _ROWS} more" if len(n.where) > _ROWS else "")
        table.add_row(*map(escape, (n.attack, where, n.reason, n.remedy)))
    return table


def remedies_table(finding: "Finding") -> Any:
    """What thinning and rounding would leave of one finding."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.cli.tables import number

    table = Table(title=escape(finding.title), title_justify="left")
    table.add_column("remedy")
    table.add_column("error of")
    for heading in ("now", "predicted", "measured"):
        table.add_column(heading, justify="right")
    for r in [r for r in finding.remedies if r.measured is not None][: 2 * _ROWS]:
        cells = (number(r.before, 2), number(r.predicted, 2), number(r.measured, 2))
        table.add_row(escape(r.action), escape(r.statistic or ""), *cells)
    return table
