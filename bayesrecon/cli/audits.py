"""Output of an audit on the command line: report, tables and exit code."""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from bayesrecon.cli.command import Arguments, typed

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from bayesrecon.cli.policy import Policy
    from bayesrecon.json_types import Json
    from bayesrecon.model import Progress
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Finding

_STYLE = {"high": "bold red", "medium": "yellow", "low": "cyan", "info": "dim"}
_ROWS = 8
_TRIED = ("measured", "predicted", "not tried")
_INCOMPLETE, _INTERRUPTED = 3, 130  # exit codes


@dataclass(frozen=True)
class Announced:
    """Progress that also prints each finding on stderr."""

    progress: "Progress | None"

    def __call__(self, label: str, fraction: float) -> None:
        if self.progress is not None:
            self.progress(label, fraction)

    def found(self, finding: "Finding") -> None:
        from bayesrecon.cli import console
        from bayesrecon.results.told import without_values

        console.say(f"found ({finding.severity}): {without_values(finding.title)}")


def check_writable(*paths: "Path | None") -> None:
    """Check, before the audit, that its files can be written."""
    from bayesrecon.errors import BayesreconError

    for path in paths:
        if path is None:
            continue
        if not os.access(path.parent, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
            raise BayesreconError(f"cannot write {path}: permission denied")


def ledger_apart(ledger: "Path | None", *releases: "Path | None") -> Path:
    """The path of the ledger, by default that of the user.

    Raises:
        BayesreconError: it lies in the folder of a release.
    """
    from bayesrecon.disclosure.sanitising.ledger import ledger_path
    from bayesrecon.errors import BayesreconError

    book = ledger_path() if ledger is None else ledger
    for path in releases:
        if path is not None and path.parent.resolve() == book.parent.resolve():
            raise BayesreconError(
                f"--ledger {book}: never keep the ledger beside a release, {path}; name a folder that stays private"
            )
    return book


def with_warnings(result: "Audit", lines: "Sequence[str]") -> "Audit":
    """The audit with further warnings."""
    return replace(result, warnings=(*result.warnings, *lines))


def public_names(names: "Sequence[str]") -> tuple[str, ...]:
    """Names of items that may stay. @FILE stands for the names in a file, one per line."""
    from bayesrecon.errors import BayesreconError

    result: list[str] = []
    for name in names:
        if not name.startswith("@"):
            result.append(name)
            continue
        try:
            lines = Path(name[1:]).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            problem = f"cannot be read ({type(error).__name__})"
            raise BayesreconError(f"--public {name}: {problem}; expected a text file with one name per line") from None
        result += [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return tuple(result)


def members_of(path: "Path | None") -> dict[str, list[str]]:
    """Which file or group consists of which disjoint groups, by lines WHOLE,PART."""
    import csv

    from bayesrecon.errors import BayesreconError

    found: dict[str, list[str]] = {}
    if path is None:
        return found
    try:
        lines = [[cell.strip() for cell in line] for line in csv.reader(path.read_text(encoding="utf-8").splitlines())]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BayesreconError(f"--membership {path}: cannot be read ({type(error).__name__})") from None
    for number, line in enumerate(lines, 1):
        if not any(line) or line[0].startswith("#"):
            continue
        if len(line) != 2 or not all(line):
            raise BayesreconError(f"--membership {path}, line {number}: expected WHOLE,PART")
        found.setdefault(line[0], []).append(line[1])
    if not found:
        raise BayesreconError(f"--membership {path}: expected lines WHOLE,PART, and there are none")
    return found


def so_far(done: "Audit | None", stop: KeyboardInterrupt) -> "Audit":
    """The audit to show after Ctrl-C.

    Args:
        done: the audit of the file whose cleaned copy was being audited; None at other times.
        stop: the interruption. It is raised again if there is nothing to show.
    """
    from bayesrecon.results.findings import NotRun

    partial: Audit | None = getattr(stop, "so_far", None)
    if done is None:
        if partial is None:
            raise stop
        return partial
    whole = done if partial is None else done.with_fixed(partial)
    missing = NotRun("the cleaned copy", "the audit was interrupted", "run it again and let it end")
    return replace(whole, not_run=(*whole.not_run, missing))


def finish(
    args: Arguments,
    result: "Audit",
    html: Path | None,
    fail_on: str | None,
    interrupted: bool = False,
    show_values: bool = False,
    policy: "tuple[Policy, dict[str, float]] | None" = None,
    published: "Mapping[str, Path | None] | None" = None,
) -> None:
    """Write and show an audit, and exit with its code, or that of the policy, given what is spent.

    Args:
        published: paths of what may be published of the audit: its "statement" and "sarif".
    """
    from bayesrecon.cli import console

    judged, result = result.fixed or result, _as_typed(result.told(show_values), args.options)
    decision = None if policy is None else policy[0].decided(judged, policy[1])
    if html is not None:
        console.wrote(result.save_report(html, _command_line(args)))
    args.deliver(result, "report.plot_audit", _show)
    for kind, path in (published or {}).items():
        if path is not None and not interrupted:
            console.wrote(write_published(kind, judged, path, policy and policy[0].stated(decision)))
    if interrupted:
        console.say("interrupted: these are the findings so far; nothing else is cleared")
        raise typer.Exit(_INTERRUPTED)
    if decision is not None and policy is not None:
        code, sentence = decision
        for line in (*policy[0].untried(judged), sentence):
            console.say(line)
        raise typer.Exit(code)
    if fail_on is not None and judged.fails(fail_on):
        raise typer.Exit(1)
    if judged.verdict == "incomplete":
        raise typer.Exit(_INCOMPLETE)


def write_published(kind: str, judged: "Audit", path: Path, policy: "Json | None" = None) -> Path:
    """Write the statement of an audit, or its findings in SARIF."""
    import json

    from bayesrecon.auditing.statement import sarif, statement
    from bayesrecon.files import write_whole

    text = json.dumps(statement(judged, policy) if kind == "statement" else sarif(judged), indent=1) + "\n"
    write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path


def _as_typed(result: "Audit", options: Mapping[str, str]) -> "Audit":
    """The audit with the options of the command line in the place of keywords, so that each cure can be typed."""
    fixed = None if result.fixed is None else _as_typed(result.fixed, options)
    not_run = tuple(
        replace(n, reason=typed(n.reason, options), remedy=typed(n.remedy, options)) for n in result.not_run
    )
    warnings = tuple(typed(warning, options) for warning in result.warnings)
    return replace(result, fixed=fixed, not_run=not_run, warnings=warnings)


def _command_line(args: Arguments) -> str | None:
    """The command line of `audit` without `--html` and `--out`; None for other commands."""
    if "model" not in args.values:
        return None
    words, remaining = sys.argv[1:], []
    skip = False
    for word in words:
        if skip or word.startswith(("--html=", "--out=")):
            skip = False
        elif word in ("--html", "--out", "-o"):
            skip = True
        else:
            remaining.append(word)
    return shlex.join(["bayesrecon", *remaining])


def _show(result: "Audit") -> "list[RenderableType]":
    parts: list[RenderableType] = _about(result)
    for finding in result.findings:
        if any(r.status in _TRIED for r in finding.remedies):
            parts.append(remedies_table(finding))
    if result.fixed is not None:
        parts += ["the cleaned copy:", *_about(result.fixed)]
    return parts


def _about(result: "Audit") -> "list[RenderableType]":
    parts: list[RenderableType] = [result.headline, result.advice]
    parts += [findings_table(result)] if result.findings else []
    return parts + ([not_run_table(result)] if result.not_run else [])


def findings_table(result: "Audit") -> "Table":
    """One row per finding, the most severe first."""
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=True)
    for heading in ("severity", "finding", "evidence", "what an attacker needs", "remedy"):
        table.add_column(heading, overflow="fold")
    for f in result.findings:
        scored = (
            "" if f.score is None else f"; {f.score.matched} of {f.score.total} match the private records one to one"
        )
        scored += "" if f.score is None else f" (by chance {f.score.null:.0%})"
        cells = (f.title, f.summary + scored, f.needs, result.remedy_of(f))
        table.add_row(Text(f.severity, _STYLE[f.severity]), *map(escape, cells))
    return table


def not_run_table(result: "Audit") -> "Table":
    """One row per attack that was not tried."""
    from bayesrecon.cli.rich_tables import table

    title = "not run: these attacks may reveal more than the findings"
    rows = [
        [n.attack, ", ".join(n.where[:_ROWS]) + f" and {len(n.where) - _ROWS} more" * (len(n.where) > _ROWS)]
        + [n.reason, n.remedy]
        for n in result.not_run
    ]
    shown = table(["attack", "items", "reason", "remedy"], rows, title=title, words=4, fold=True)
    shown.show_lines = True
    return shown


def remedies_table(finding: "Finding") -> "Table":
    """What thinning and rounding would leave of one finding."""
    from bayesrecon.cli.rich_tables import number, table

    rows = []
    for r in [r for r in finding.remedies if r.status in _TRIED][: 2 * _ROWS]:
        last = number(r.measured, 2) if r.status == "measured" else r.status if r.untried else "not measured"
        rows.append([r.action, r.statistic or "", number(r.before, 2), number(r.predicted, 2), last, r.left])
    heads = ["remedy", "error of", "now", "predicted", "measured", "severity then"]
    return table(heads, rows, title=finding.title, words=2, fold=True)
