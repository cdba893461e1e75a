"""Code that would run when a file of saved objects is loaded."""

from bayesrecon.auditing.accounts.imports import kind_of_import
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.short_text import places
from bayesrecon.results.findings import Finding, NotRun, Remedy

_LOADS = "nothing but the file, and somebody who loads it"


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """One finding on code that would run, and one on unknown imports."""
    saved = look.contents.saved
    if saved is None:
        return [], []
    kinds = {f"{module}.{name}": kind_of_import(module, name, called) for module, name, called in saved.names}
    runs = [*(imported for imported, kind in kinds.items() if kind == "code"), *saved.code]
    unknown = [imported for imported, kind in kinds.items() if kind == "unknown"]
    findings = []
    if runs:
        findings.append(
            Finding(
                "code",
                "high",
                f"this file would run code: it names {places(runs, 3)}",
                tuple(runs),
                f"whoever loads it calls {places(runs)}; nothing of it was called here",
                _LOADS,
                remedies=(Remedy("do not load it; save numbers alone (.npz, .safetensors), or what skops writes"),),
                drop=tuple(runs),
            )
        )
    if unknown:
        findings.append(
            Finding(
                "code",
                "low",
                f"loading this file imports what is not known here: {places(unknown, 3)}",
                tuple(unknown),
                f"{places(unknown)}: classes and functions of one's own, or code that runs",
                _LOADS,
                remedies=(Remedy("load it only where these modules are one's own"),),
                drop=tuple(unknown),
            )
        )
    return findings, []


CHANNEL = Channel("code in saved objects", find, 10)
