"""Findings scored against the private data."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bayesrecon.auditing.private_data import Private, read_private
from bayesrecon.errors import BayesreconError
from bayesrecon.evaluate.record_scores import match_records, measured_remedies
from bayesrecon.precision import x64
from bayesrecon.results.audit import with_score
from bayesrecon.results.findings import Finding

if TYPE_CHECKING:
    from bayesrecon.auditing.look import Asked
    from bayesrecon.model import Model


def scored(
    finding: Finding, private: "Private | None", model: "Model | None", known: Sequence[str], unit: str | None
) -> Finding:
    """The finding with true values. It is called only after all attacks."""
    from bayesrecon.evaluate.truth import true_statistics

    if model is None or private is None or private.records is None or not finding.evidence:
        return finding
    with x64():
        truth = true_statistics(model, private.records, known=tuple(known), unit=unit)
    fields = {f: v for f, v in finding.records.items() if f in private.records}
    data = {f: private.records[f] for f in fields}
    score = match_records(fields, data) if fields else None
    return with_score(finding, score, truth, measured_remedies(finding, truth, data))


def scored_fit(findings: tuple[Finding, ...], model: "Model", asked: "Asked") -> tuple[Finding, ...]:
    """Findings on a fit inside a file, scored with the fit's own model.

    They have no score if the private data lack a column of the design, such as a level of a factor.
    """
    try:
        private = read_private(asked.data, model)
        return tuple(scored(finding, private, model, asked.known, None) for finding in findings)
    except BayesreconError:
        return findings
