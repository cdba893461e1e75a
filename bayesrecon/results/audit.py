"""What an audit finds: findings with evidence and remedies, and the whole as one result."""

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
    """What counts as severe.

    Attributes:
        exact_count: standard error of the number of records below which statistics count as exact.
        record: standard error of a record's field, in units of the field's spread, below which the record is recovered.
        vague: the same, below which something is learnt about a single record.
        share: share of records that makes a finding about records severe.
        misfit: residuals, in units of the noise, above which values do not belong to the model and draws.
        small_count: number of records from which a level, a cell or residual degrees of freedom are not small.
    """

    exact_count: float = 0.5
    record: float = 0.1
    vague: float = 0.5
    share: float = 0.01
    misfit: float = 5.0
    small_count: int = 10


@dataclass(frozen=True)
class RecordScore:
    """How many recovered records are records of the private data.

    Attributes:
        matched, total: recovered records within the tolerance of the private record assigned to them, and all.
        lower, upper: exact 95 % interval of the share (Clopper-Pearson).
        null: the same share for records drawn from the private data's own columns, each shuffled by itself.
        tolerance: of every field, as a share of its range.
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
    """One recovered value: its standard error, the truth where private data were given, and its 95 % interval."""

    name: str
    estimate: float | None
    se: float | None = None
    truth: float | None = None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Remedy:
    """Something to do, and what it leaves.

    Attributes:
        action: what to do.
        statistic: what the errors are of.
        before: the attack's error as the file is.
        predicted: the error that should remain, from theory.
        measured: the error that remained when the remedy was applied and the attack run again, many times over: how
            far the results moved, and the error that they had before; with private data, the error itself.
        untried: whether it was left out for want of time, neither predicted nor measured.
        trials: results of the attack after the remedy, `(R,)` of a statistic, or `(R, B, size)` of a field of the
            records at positions `rows (B,)` among the recovered ones.
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
        """ "predicted" where theory alone says what it leaves, "stated" where there is no error to tell."""
        if self.untried:
            return "not tried"
        return "measured" if self.measured is not None else "predicted" if self.predicted is not None else "stated"

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, without the single trials."""
        return {k: v for k, v in vars(self).items() if k not in ("untried", "trials", "rows")} | {"status": self.status}


@dataclass(frozen=True)
class Finding:
    """One way in which the file gives something away.

    Attributes:
        kind: short name of the channel.
        where: the variables, attributes or comments.
        needs: what an attacker must know to use it.
        evidence: recovered values.
        records: some recovered records, `{field: values}`, with `errors` alike.
        score: recovered records against the private data, where they were given.
        drop: what `fix` leaves out.
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
        """Plain types only, None for numbers that do not exist; of the records, the first rows."""
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
    """An attack that could not be tried, so that what it would open is not cleared.

    Attributes:
        attack: what was not tried.
        reason: why.
        remedy: what to pass, or to drop.
        where: the variables it would open.
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
    """The findings, most severe first.

    Attributes:
        files: `{path, size, sha256}` of the inputs.
        settings: how the audit was run.
        warnings: one line each.
        not_run: attacks that could not be tried; with any of them nothing is cleared.
        fixed: the audit of the cleaned copy, where one was written.
        used: the model behind the attacks.
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
        """The worst severity of what was found; "info" where nothing was, which clears nothing that was not tried."""
        return LEVELS[max((LEVELS.index(f.severity) for f in self.findings), default=0)]

    @property
    def verdict(self) -> Verdict:
        """ "incomplete" where an attack was not run or something is not recognised, whatever was found.

        Else "findings", or "clean" without any."""
        return "incomplete" if self.not_run or self.unrecognised else "findings" if self.findings else "clean"

    @property
    def unrecognised(self) -> tuple[str, ...]:
        """What nobody can tell: places of items that are no parameter, statistic or structure, and were not opened."""
        return tuple(where for f in self.findings if f.kind == UNRECOGNISED for where in f.where)

    @property
    def advice(self) -> str:
        """Whether to publish: what was opened, what was not run, and what is not recognised."""
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
        """Whether a finding is at or above a level."""
        return bool(self.findings) and LEVELS.index(self.severity) >= LEVELS.index(level)  # type: ignore[arg-type]

    def with_fixed(self, fixed: "Audit") -> "Audit":
        """The same with the audit of its cleaned copy."""
        return replace(self, fixed=fixed)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for the record: tool version, inputs, settings, thresholds and findings."""
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
        """The report: one page with everything in it, plots included.

        Args:
            command: that made the audit, for the line that makes a cleaned copy.
        """
        return self.drawn("audit_page", command=command)

    def save_report(self, path: str | Path, command: str | None = None) -> Path:
        """Write the report, whole or not at all; `command` as for `to_html`."""
        from bayesrecon.files import write_whole

        path = Path(path)
        page = self.to_html(command)
        write_whole(path, lambda temporary: temporary.write_text(page, encoding="utf-8"))
        return path

    def plot(self, ax: Any = None) -> Any:
        """Errors left by the remedies; see `bayesrecon.plots.plot_audit`."""
        return self.drawn("plot_audit", ax=ax)

    @property
    def headline(self) -> str:
        count = {level: sum(f.severity == level for f in self.findings) for level in ("high", "medium", "low")}
        told = ", ".join(f"{n} {level}" for level, n in count.items() if n) or "nothing found"
        parts = [f"{len(self.not_run)} not run"] if self.not_run else []
        parts += [f"{len(self.unrecognised)} not recognised"] if self.unrecognised else []
        untried = f"incomplete, {', '.join(parts)}; " if parts else ""
        held = f"{self.format}, {self.draws} draws" if self.draws else self.format
        return f"{self.name} ({held}): {untried}{told}"

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
