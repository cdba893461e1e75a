"""Groups that contain data unchanged."""

from bayesrecon.auditing.accounts.plain_numbers import structure_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.severity import of_constants
from bayesrecon.auditing.short_text import count, preview
from bayesrecon.posteriors.contents import DATA
from bayesrecon.results.findings import Finding, NotRun, Remedy


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Findings on all observed data, and on constant data unless they are grids or plain numbers."""
    findings = []
    for variable in look.contents.group(*DATA):
        values, column = variable.values, look.named(variable.values)
        constant = variable.group != "observed_data"
        if constant and column is None and structure_of(values):
            continue
        severity = of_constants(values, private=column is not None or not constant) or "medium"
        if constant and severity == "medium" and values.size < 5 and values.dtype.kind in "biuf":
            continue  # a few numbers are left to the accounts, as unrecognised
        kind = "covariates or constants" if constant else "the response"
        findings.append(
            Finding(
                "copy",
                severity,
                f"{variable.where} holds data as they are",
                (variable.where,),
                f"{count(values)} values of {kind}, beginning {preview(values)}"
                + (f"; they are the private column {column}" if column else ""),
                remedies=(Remedy(f"drop {variable.where}"),),
                drop=(variable.where,),
            )
        )
    return findings, []


CHANNEL = Channel("data groups", find, 10)
