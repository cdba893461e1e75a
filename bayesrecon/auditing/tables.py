"""What a printed table of estimates gives away."""

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bayesrecon.attacks.recovery import recover
from bayesrecon.posteriors.summaries import from_table
from bayesrecon.results.audit import Audit, Finding, Item, NotRun, Remedy, Thresholds
from bayesrecon.types import Model, Progress

_ATTACK = "table"
_DROP = "publish fewer digits, and audit the table again"


def audit_table(
    path: str | Path,
    model: Model | str,
    *,
    correlations: Any = None,
    known: Mapping[str, Any] | None = None,
    remedies: bool = True,
    key: int = 0,
    progress: Progress | None = None,
    **options: Any,
) -> Audit:
    """Audit a CSV table of estimates with standard errors.

    Args:
        model, correlations, options: as in `posteriors.from_table`.
        known, key, progress: as in `recover`.

    Raises:
        BayesreconError: a table that cannot be read, or is of another model.

    >>> _ = Path("fit.csv").write_text("name,coef,se\\nconst,25.80,5.917\\nage,0.6100,0.05852\\nsigma,18.27,\\n")
    >>> found = audit_table("fit.csv", "ols")
    >>> found.findings[0].severity, found.not_run[0].reason
    ('low', 'the correlations of the estimates were not given')
    """
    began, path = time.perf_counter(), Path(path)
    limits, findings, untried, warnings = Thresholds(), (), (), ()
    if correlations is None:
        reason = "the correlations of the estimates were not given"
        untried = (NotRun(_ATTACK, reason, "pass the correlations (--correlations FILE)", (path.name,)),)
    if correlations is not None or model == "ols":  # of others a table without them is not read
        release = from_table(path, model, correlations=correlations, **options)
        fitted = recover(release, known=known or None, key=key, progress=progress)
        warnings = fitted.warnings
        mend = "mend what the check names"
        untried += tuple(NotRun(_ATTACK, failure, mend, (path.name,)) for failure in fitted.failures)
        rows = [r for r in fitted if r.estimate is not None and r.verdict != "undetermined"]
        if rows:
            count = next((r for r in rows if r.name == "n"), None)
            told = count is not None and count.estimate is not None
            exact = told and count.upper - count.lower < 2 * limits.exact_count  # type: ignore[operator,union-attr]
            between = f"n between {count.lower:.6g} and {count.upper:.6g}, " if told else ""  # type: ignore[union-attr]
            findings = (
                Finding(
                    _ATTACK,
                    "medium" if exact else "low",
                    f"the table gives statistics of the data{' exactly' if exact else ''}",
                    (path.name,),
                    f"{between}{len(rows)} statistics determined",
                    "the model and its prior",
                    tuple(Item(r.name, r.estimate, r.se) for r in rows),
                    (Remedy(_DROP),),
                ),
            )
    content = path.read_bytes()
    name = model if isinstance(model, str) else model.name
    return Audit(
        findings=findings,
        name=path.name,
        format="table of estimates",
        model=name,
        draws=0,
        files=({"path": str(path), "size": len(content), "sha256": hashlib.sha256(content).hexdigest()},),
        settings={"model": name, "known": sorted(known or ()), "key": key},
        thresholds=limits,
        warnings=warnings,
        seconds=time.perf_counter() - began,
        used=None if isinstance(model, str) else model,
        not_run=untried,
    )
