"""What pointwise log likelihoods reveal without a model."""

import numpy as np

from bayesrecon.attacks.sidechannels.likelihood_columns import summarise_columns
from bayesrecon.auditing.wording import to_drop
from bayesrecon.posteriors.contents import Contents
from bayesrecon.results.findings import Finding, Item


def look_at_columns(contents: Contents, key: int) -> list[Finding]:
    """Findings on pointwise log likelihoods: number of records, equal records and outliers."""
    findings = []
    for variable in contents.group("log_likelihood"):
        if not variable.per_draw:
            continue
        columns = variable.values.reshape(len(variable.values), -1)
        if columns.shape[1] < 2 or not np.isfinite(columns).all():
            continue
        summary = summarise_columns(columns, key)
        parts = [f"there are {summary.count} records", f"their columns show {summary.rank} features of each"]
        if summary.groups:
            parts.append(f"{summary.identical} are equal to another one")
        if summary.outliers:
            parts.append(f"{len(summary.outliers)} stand out (first: number {summary.outliers[0] + 1})")
        if summary.clusters > 1:
            parts.append(f"they fall into {summary.clusters} clusters")
        title = "pointwise log likelihoods show the number of records and which are alike"
        told = "; ".join(parts) + ". With the model, every record can be solved for: audit with --model"
        instead, evidence = (
            f"drop {variable.where}: publish its sums (elpd, p_loo) instead",
            (
                Item("n", float(summary.count), 0.0),
                Item("records equal to another", float(summary.identical), 0.0),
                Item("outlying records", float(len(summary.outliers))),
                Item("clusters", float(summary.clusters)),
            ),
        )
        where = (variable.where,)
        findings.append(to_drop("log-likelihood", "high", title, where, told, instead=instead, evidence=evidence))
    return findings
