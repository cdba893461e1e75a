"""Attack on gradients: each coordinate is linear in the same totals as the log density."""

from dataclasses import replace

import numpy as np

from bayesrecon.attacks.sidechannels.features import base_functions, value_functions
from bayesrecon.attacks.sidechannels.resolution import resolution
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.auditing.sensitive_values import GRADIENTS
from bayesrecon.auditing.severity import of_totals
from bayesrecon.auditing.wording import PRIOR, items, to_drop
from bayesrecon.results.findings import Finding, NotRun

_NAME = "gradients"


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Attack arrays with one column per coordinate, whatever their name. Their totals give statistics."""
    opened: Opened = look.opened
    findings = []
    numbers, theta = opened.numbers, np.asarray(opened.release.theta)
    for series, weights in numbers.gradients:
        sign = 1.0 if weights[: len(weights) - 2].sum() > 0 else -1.0
        base = base_functions(opened.model, theta)[0].sum(axis=1)
        density = value_functions(opened.model, theta, numbers.records) @ weights[:-2] * sign + base
        release = replace(opened.release, log_density=density)
        written = replace(
            resolution(series.values[:, 0]), step=np.full(len(density), np.spacing(np.abs(density).max()))
        )
        recovered = opened.of_density(release, written, look.progress)
        count = next((r.estimate for r in recovered.rows if r.name == "n" and r.estimate is not None), None)
        summary = f"{len(series.rows)} gradients in {theta.shape[1]} coordinates are linear in the totals of the data"
        summary += "" if count is None else f": n = {count:.6g}"
        title, rows = "gradients give statistics of the data exactly", items(recovered.rows)
        severity = of_totals(exact=True)
        findings.append(to_drop("gradient", severity, title, series.where, summary, PRIOR, evidence=rows))
    reported = {where for f in findings for where in f.where}
    named = [v.where for v in opened.contents.group("sample_stats") if v.name in GRADIENTS and v.where not in reported]
    reason = f"they are not the gradients of {opened.model.name} in its own coordinates"
    return findings, [NotRun(_NAME, reason, f"drop {where}", (where,)) for where in named]


CHANNEL = Channel(_NAME, find, 125, "model")
