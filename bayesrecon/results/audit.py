"""The result of an audit: findings with evidence and remedies."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bayesrecon.errors import visible
from bayesrecon.json_types import Json
from bayesrecon.results.base import Result
from bayesrecon.results.findings import (
    DRAWS_OR_RECORDS,
    LEVELS,
    SAY_WHICH,
    UNRECOGNISED,
    Finding,
    NotRun,
    RecordScore,
    Remedy,
    Severity,
    Thresholds,
)
from bayesrecon.results.told import told, with_values, without_values

if TYPE_CHECKING:
    from pandas import DataFrame

    from bayesrecon.model import Model

CONFIDENTIAL = "This report is confidential: it says what of the private data can be found in the file, and where."

Verdict = Literal["incomplete", "findings", "clean"]


_ADVICE = {
    "high": "Do not publish this file as it is.",
    "medium": "Publish this file only after the remedies below.",
    "low": "Little is disclosed; see what remains.",
    "info": "Nothing was found.",
}


@dataclass(frozen=True, repr=False)
class Audit(Result):
    """The findings of an audit, most severe first.

    Attributes:
        files: `{path, size, sha256}` of each input.
        settings: settings of the audit.
        warnings: one line each.
        not_run: attacks that could not be run. If there are any, the verdict is "incomplete".
        fixed: the audit of the cleaned copy, if one was written.
        used: the model that the attacks used.
        show_values: whether reports show values of records.
    """

    plotted_by = "report.plot_audit"

    findings: tuple[Finding, ...]
    name: str
    format: str
    model: str | None
    draws: int
    files: tuple[Json, ...]
    settings: Json
    thresholds: Thresholds = field(default_factory=Thresholds)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    fixed: "Audit | None" = None
    used: "Model | None" = None
    not_run: tuple[NotRun, ...] = ()
    show_values: bool = False

    def told(self, show_values: bool = False) -> "Audit":
        """The audit as reports have it: alike findings together, at most some 20, and values of people only on request.

        Programs that go through all findings use the audit itself.
        """
        findings, cut = told(self.findings, self.format, show_values)
        fixed = None if self.fixed is None else self.fixed.told(show_values)
        warnings = (*self.warnings, cut) if cut else self.warnings
        return replace(self, findings=findings, warnings=warnings, fixed=fixed, show_values=show_values)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    @property
    def severity(self) -> Severity:
        """The highest severity among the findings; "info" if there are none. It says nothing of what was not tried."""
        return LEVELS[max((LEVELS.index(f.severity) for f in self.findings), default=0)]

    @property
    def verdict(self) -> Verdict:
        """The verdict: "incomplete", "findings" or "clean".

        It is "incomplete" if an attack was not run or an item is not recognised, whatever was found.
        """
        return "incomplete" if self.not_run or self.unrecognised else "findings" if self.findings else "clean"

    @property
    def unrecognised(self) -> tuple[str, ...]:
        """Places of unrecognised items: no parameter, statistic or structure, and not opened by the audit."""
        return tuple(where for f in self.findings if f.kind == UNRECOGNISED for where in f.where)

    @property
    def advice(self) -> str:
        """Whether to publish, given what was found, what was not run, and what is not recognised."""
        if any(n.attack == DRAWS_OR_RECORDS for n in self.not_run):
            return f"Draws or records? Nothing says which; {SAY_WHICH}. Nothing is cleared before."
        worst, first = self.severity, _ADVICE[self.severity]
        if worst == "medium" and any(f.kind == "draws" for f in self.findings):
            first += " They do not change what the draws themselves disclose."
        if worst != "high" and (self.not_run or self.unrecognised):
            first = "Not cleared."
        titles = [f.title for f in self.findings if f.kind != UNRECOGNISED and f.severity == worst]
        if worst in ("high", "medium") and titles:
            more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
            first += f" Most severe: {(with_values if self.show_values else without_values)(titles[0])}{more}."
        return " ".join(filter(None, (first, self._missing_attacks(), self._unrecognised_items())))

    def _missing_attacks(self) -> str:
        if not self.not_run:
            return ""
        count = f"{len(self.not_run)} attack{'s were' if len(self.not_run) > 1 else ' was'} not run"
        remedies = dict.fromkeys(n.remedy for n in self.not_run)
        how = next(iter(remedies)) if len(remedies) == 1 else "see what each of them needs"
        return f"The audit is incomplete: {count}; {how}."

    def _unrecognised_items(self) -> str:
        if not self.unrecognised:
            return ""
        listed = ", ".join(visible(where)[:60] for where in self.unrecognised[:3])
        more = f" and {len(self.unrecognised) - 3} more" if len(self.unrecognised) > 3 else ""
        return f"Not recognised: {listed}{more}; say that they may stay (--public NAME), or drop them."

    def remedy_of(self, finding: Finding) -> str:
        """The first remedy that may lower the severity, with the severity that it leaves; empty if there is none."""
        remedy = next(iter(finding.offered), None)
        if remedy is None:
            return ""
        if remedy.leaves is None:
            return f"{remedy.action} (severity then: {remedy.left})"
        gone = [f for f in self.findings if f is finding or (finding.drop and set(f.where) <= set(finding.drop))]
        file = LEVELS[max((LEVELS.index(f.severity) for f in self.findings if f not in gone), default=0)]
        of_file = f", of the file: {max(file, remedy.leaves, key=LEVELS.index)}" if len(self.findings) > 1 else ""
        return f"{remedy.action} (severity then: {remedy.left}{of_file})"

    def fails(self, level: str) -> bool:
        """Whether there is a finding of this severity or a higher one."""
        return bool(self.findings) and LEVELS.index(self.severity) >= LEVELS.index(level)  # type: ignore[arg-type]

    def with_fixed(self, fixed: "Audit") -> "Audit":
        """This audit together with the audit of its cleaned copy."""
        return replace(self, fixed=fixed)

    def to_dict(self) -> Json:
        """Plain types only: tool version, inputs, settings, thresholds and findings."""
        names = ("name", "format", "model", "draws", "verdict", "severity", "advice", "files", "settings", "seconds")
        return self._document(
            confidential=CONFIDENTIAL,
            **{name: getattr(self, name) for name in names},
            thresholds=asdict(self.thresholds),
            findings=[f.to_dict() for f in self.findings],
            not_run=[asdict(n) for n in self.not_run],
            unrecognised=list(self.unrecognised),
            fixed=None if self.fixed is None else self.fixed.to_dict(),
        )

    def to_dataframe(self) -> "DataFrame":
        """One row per finding."""
        import pandas as pd

        rows = [
            {"severity": f.severity, "kind": f.kind, "title": f.title, "where": ", ".join(f.where)}
            for f in self.findings
        ]
        return pd.DataFrame(rows, columns=["severity", "kind", "title", "where"])

    def to_html(self, command: str | None = None) -> str:
        """The report: one HTML page with everything in it, plots included.

        Args:
            command: command line of the audit, which the report quotes to explain how to write a cleaned copy.
        """
        return self.told(self.show_values).plotted("report.audit_page", command=command)

    def save_report(self, path: str | Path, command: str | None = None) -> Path:
        """Write the report as an HTML file (complete or not at all). `command` is that of `to_html`."""
        from bayesrecon.files import write_whole

        path = Path(path)
        page = self.to_html(command)
        _for_its_owner(path)
        write_whole(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
        return path

    def save(self, path: str | Path) -> Path:
        """Write the result as `Result.save` does; only its owner can read the file."""
        _for_its_owner(Path(path))
        return super().save(path)

    @property
    def headline(self) -> str:
        count = {level: sum(f.severity == level for f in self.findings) for level in ("high", "medium", "low")}
        summary = ", ".join(f"{n} {level}" for level, n in count.items() if n) or "nothing found"
        parts = [f"{len(self.not_run)} not run"] if self.not_run else []
        parts += [f"{len(self.unrecognised)} not recognised"] if self.unrecognised else []
        incomplete = f"incomplete, {', '.join(parts)}; " if parts else ""
        contents = f"{self.format}, {self.draws} draws" if self.draws else self.format
        return f"{self.name} ({contents}): {incomplete}{summary}"

    def _excerpt(self) -> "DataFrame":
        listed = self.told(self.show_values)
        return listed.to_dataframe()[["severity", "title"]].assign(summary=[f.summary for f in listed])

    def _first_rows(self) -> "tuple[DataFrame, list[str]]":
        table, remarks = super()._first_rows()
        return table, [*remarks, *(f"not run: {n}; {n.remedy}" for n in self.not_run)]


def _for_its_owner(path: Path) -> None:
    """Let only its owner read a file that a report replaces. Others are made so."""
    if path.is_file():
        path.chmod(0o600)


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings, most severe first; the order is otherwise unchanged."""
    return tuple(sorted(findings, key=lambda f: -LEVELS.index(f.severity)))


def with_score(
    finding: Finding, score: RecordScore | None, truth: Mapping[str, float], remedies: tuple[Remedy, ...]
) -> Finding:
    """The finding with true values in its evidence, with a score, and with other remedies."""
    evidence = tuple(replace(item, truth=truth.get(item.name, item.truth)) for item in finding.evidence)
    return replace(finding, evidence=evidence, score=score, remedies=remedies)
