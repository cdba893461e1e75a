"""The result of an audit: findings with evidence and remedies."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bayesrecon.errors import visible
from bayesrecon.results.base import Result, plain

if TYPE_CHECKING:
    from bayesrecon.model import Model

Severity = Literal["info", "low", "medium", "high"]
Verdict = Literal["incomplete", "findings", "clean"]
LEVELS: tuple[Severity, ...] = ("info", "low", "medium", "high")


@dataclass(frozen=True)
class Thresholds:
    """Thresholds that decide what counts as severe.

    Attributes:
        exact_count: statistics count as exact if the standard error of the number of records is below this.
        record: a record counts as recovered if the standard error of its field, in units of the field's standard
            deviation, is below this.
        vague: like `record`; below this, something is learnt about a single record.
        share: a finding about records is severe if it concerns at least this share of the records.
        misfit: values do not belong to the model and draws if their residuals, in units of the noise, exceed this.
        small_count: levels, cells or residual degrees of freedom with fewer records than this count as small.
    """

    exact_count: float = 0.5
    record: float = 0.1
    vague: float = 0.5
    share: float = 0.01
    misfit: float = 5.0
    small_count: int = 10


@dataclass(frozen=True)
class RecordScore:
    """How many of the recovered records match records of the private data.

    Attributes:
        matched, total: number of recovered records that lie within the tolerance of the private record assigned to
            them, and number of all recovered records.
        lower, upper: exact 95 % interval of the share (Clopper-Pearson).
        null: the same share for records made of the private data's columns, each column shuffled independently.
        tolerance: tolerance of each field, as a share of its range.
        median_error: `{field: median absolute error}` over the assignment.
    """

    matched: int
    total: int
    share: float
    lower: float
    upper: float
    null: float
    tolerance: float
    median_error: dict[str, float]


@dataclass(frozen=True)
class Item:
    """One recovered value: its standard error, its 95 % interval, and the true value if private data were given."""

    name: str
    estimate: float | None
    se: float | None = None
    truth: float | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Remedy:
    """A remedy, and the error that remains to the attack after it.

    Attributes:
        action: what to do.
        statistic: the statistic that the errors refer to.
        before: error of the attack on the file as it is.
        predicted: error after the remedy, predicted by theory.
        measured: error after the remedy, measured by applying it and repeating the attack many times. It combines the
            shift of the results with the error they had before. If private data were given, it is the actual error.
        untried: whether the remedy was skipped for lack of time, neither predicted nor measured.
        trials: results of the attack after the remedy: `(R,)` for a statistic. For a field of records they are
            `(R, B, size)`, at positions `rows (B,)` among the recovered records.
    """

    action: str
    statistic: str | None = None
    before: float | None = None
    predicted: float | None = None
    measured: float | None = None
    untried: bool = False
    trials: Any = field(default=None, compare=False, repr=False)
    rows: Any = field(default=None, compare=False, repr=False)

    @property
    def status(self) -> Literal["measured", "predicted", "not tried", "stated"]:
        """How the error after the remedy is known.

        It is "measured", "predicted" (by theory only), "not tried", or "stated" if there is no error to report.
        """
        if self.untried:
            return "not tried"
        return "measured" if self.measured is not None else "predicted" if self.predicted is not None else "stated"

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, without the individual trials."""
        return {k: v for k, v in vars(self).items() if k not in ("untried", "trials", "rows")} | {"status": self.status}


@dataclass(frozen=True)
class Finding:
    """One way in which the file reveals private data.

    Attributes:
        kind: short name of the channel.
        where: the variables, attributes or comments concerned.
        needs: what an attacker must know to use it.
        evidence: recovered values.
        records: some recovered records, `{field: values}`; `errors` has the same form.
        score: comparison of the recovered records with the private data, if these were given.
        drop: what `fix` removes.
    """

    kind: str
    severity: Severity
    title: str
    where: tuple[str, ...]
    summary: str
    needs: str = "nothing but the file"
    evidence: tuple[Item, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    records: Mapping[str, Any] = field(default_factory=dict)
    errors: Mapping[str, Any] = field(default_factory=dict)
    score: RecordScore | None = None
    drop: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, with None for missing numbers and only the first rows of the records."""
        document = {k: getattr(self, k) for k in ("kind", "severity", "title", "summary", "needs")}
        document |= {"where": self.where, "drop": self.drop}
        document["evidence"] = [asdict(item) for item in self.evidence]
        document["remedies"] = [remedy.to_dict() for remedy in self.remedies]
        document["records"] = {k: v[:_SHOWN] for k, v in self.records.items()}
        document["errors"] = {k: v[:_SHOWN] for k, v in self.errors.items()}
        document["score"] = None if self.score is None else asdict(self.score)
        return plain(document)


@dataclass(frozen=True)
class NotRun:
    """An attack that could not be run. What it might reveal is therefore not ruled out.

    Attributes:
        attack: name of the attack.
        reason: why it was not run.
        remedy: what to pass in, or to remove from the file.
        where: the variables that it would attack.
    """

    attack: str
    reason: str
    remedy: str
    where: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.attack}: {self.reason}"


_ADVICE = {
    "high": "Do not publish this file as it is.",
    "medium": "Publish this file only after the remedies below.",
    "low": "Little is given away; see what remains.",
    "info": "Nothing was found.",
}
UNRECOGNISED = "unrecognised"
"""The kind of the finding that names what nobody can tell."""
_SHOWN = 10  # records in the JSON document: the report must not be a second copy of the data


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
    """

    findings: tuple[Finding, ...]
    name: str
    format: str
    model: str | None
    draws: int
    files: tuple[Mapping[str, Any], ...]
    settings: Mapping[str, Any]
    thresholds: Thresholds = field(default_factory=Thresholds)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    fixed: "Audit | None" = None
    used: "Model | None" = None
    not_run: tuple[NotRun, ...] = ()

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
        worst, first = self.severity, _ADVICE[self.severity]
        if worst == "medium" and any(f.kind == "draws" for f in self.findings):
            first += " They leave what the draws themselves give."
        if worst != "high" and (self.not_run or self.unrecognised):
            first = "Not cleared."
        opened = [f.title for f in self.findings if f.kind != UNRECOGNISED and f.severity == worst]
        if worst in ("high", "medium") and opened:
            more = f" and {len(opened) - 1} more" if len(opened) > 1 else ""
            first += f" Opened: {opened[0]}{more}."
        return " ".join(filter(None, (first, self._untold(), self._unknown())))

    def _untold(self) -> str:
        if not self.not_run:
            return ""
        count = f"{len(self.not_run)} attack{'s were' if len(self.not_run) > 1 else ' was'} not run"
        remedies = dict.fromkeys(n.remedy for n in self.not_run)
        how = next(iter(remedies)) if len(remedies) == 1 else "see what each of them needs"
        return f"The audit is incomplete, {count}; {how}."

    def _unknown(self) -> str:
        if not self.unrecognised:
            return ""
        some = ", ".join(visible(where)[:60] for where in self.unrecognised[:3])
        more = f" and {len(self.unrecognised) - 3} more" if len(self.unrecognised) > 3 else ""
        return f"Not recognised: {some}{more}; say that they may stay (--public NAME), or drop them."

    def fails(self, level: str) -> bool:
        """Whether there is a finding of this severity or a higher one."""
        return bool(self.findings) and LEVELS.index(self.severity) >= LEVELS.index(level)  # type: ignore[arg-type]

    def with_fixed(self, fixed: "Audit") -> "Audit":
        """This audit together with the audit of its cleaned copy."""
        return replace(self, fixed=fixed)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only: tool version, inputs, settings, thresholds and findings."""
        names = ("name", "format", "model", "draws", "verdict", "severity", "advice", "files", "settings", "seconds")
        return self._document(
            **{name: getattr(self, name) for name in names},
            thresholds=asdict(self.thresholds),
            findings=[f.to_dict() for f in self.findings],
            not_run=[asdict(n) for n in self.not_run],
            unrecognised=list(self.unrecognised),
            fixed=None if self.fixed is None else self.fixed.to_dict(),
        )

    def to_dataframe(self) -> Any:
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
        return self.drawn("audit_page", command=command)

    def save_report(self, path: str | Path, command: str | None = None) -> Path:
        """Write the report as an HTML file (complete or not at all). `command` is that of `to_html`."""
        from bayesrecon.files import write_whole

        path = Path(path)
        page = self.to_html(command)
        write_whole(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
        return path

    def plot(self, ax: Any = None) -> Any:
        """Plot the errors that the remedies leave; see `bayesrecon.plots.plot_audit`."""
        return self.drawn("plot_audit", ax=ax)

    @property
    def headline(self) -> str:
        count = {level: sum(f.severity == level for f in self.findings) for level in ("high", "medium", "low")}
        summary = ", ".join(f"{n} {level}" for level, n in count.items() if n) or "nothing found"
        parts = [f"{len(self.not_run)} not run"] if self.not_run else []
        parts += [f"{len(self.unrecognised)} not recognised"] if self.unrecognised else []
        untried = f"incomplete, {', '.join(parts)}; " if parts else ""
        held = f"{self.format}, {self.draws} draws" if self.draws else self.format
        return f"{self.name} ({held}): {untried}{summary}"

    def _excerpt(self) -> Any:
        return self.to_dataframe()[["severity", "title"]].assign(summary=[f.summary for f in self.findings])

    def _beginning(self) -> tuple[Any, list[str]]:
        table, rest = super()._beginning()
        return table, [*rest, *(f"not run: {n}; {n.remedy}" for n in self.not_run)]


def ordered(findings: list[Finding]) -> tuple[Finding, ...]:
    """Most severe first, otherwise as found."""
    return tuple(sorted(findings, key=lambda f: -LEVELS.index(f.severity)))


def with_score(
    finding: Finding, score: RecordScore | None, truth: Mapping[str, float], remedies: tuple[Remedy, ...]
) -> Finding:
    """The finding with the truth beside its evidence, and with remedies measured against it."""
    evidence = tuple(replace(item, truth=truth.get(item.name, item.truth)) for item in finding.evidence)
    return replace(finding, evidence=evidence, score=score, remedies=remedies)
