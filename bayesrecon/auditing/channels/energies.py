"""Attack on energies: log densities plus the kinetic noise of Hamiltonian Monte Carlo."""

import numpy as np

from bayesrecon.attacks.sidechannels.released_log_densities import recover_from_log_density
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.opened import Opened
from bayesrecon.auditing.sensitive_values import ENERGIES, sensitive_values
from bayesrecon.auditing.wording import PRIOR, items, to_drop
from bayesrecon.results.findings import Finding, NotRun

_NAME = "energies"
_FEWEST = 200  # smallest number of draws; with fewer, the noise cannot be separated from the totals


def find(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Attack `energy`, which is minus the log density plus kinetic noise: a regression with errors."""
    opened: Opened = look.opened
    if opened.release.log_density is not None:  # the log density reveals the same more precisely
        return [f for f in sensitive_values(opened.contents, opened.model) if f.kind == "energy"], []
    for variable in opened.contents.group("sample_stats"):
        if variable.name not in ENERGIES:
            continue
        one_each = variable.per_draw and not variable.shape
        energy = variable.values[opened.positions] if one_each else np.zeros(0)
        reason = "" if one_each else "there is not exactly one per draw of the file"
        if one_each and not np.isfinite(energy).all():
            reason = "they hold missing or infinite values"
        elif one_each and len(energy) < _FEWEST:
            reason = f"{len(energy)} draws are too few for a regression on them ({_FEWEST} are needed)"
        if reason:
            return [], [NotRun(_NAME, reason, f"drop {variable.where}", (variable.where,))]
        recovered = recover_from_log_density(
            opened.release, log_density=-energy, kinetic=True, known=opened.known, key=opened.key
        )
        useful = [r for r in recovered.rows if r.se and r.estimate is not None and r.se < 0.5 * abs(r.estimate)]
        if not useful:
            return [], []
        title = "energies are minus log densities plus kinetic noise"
        summary = f"{len(energy)} energies determine statistics of the data by a regression, with errors"
        where, evidence = (variable.where,), items(recovered.rows)
        return [to_drop("energy", "low", title, where, summary, PRIOR, evidence=evidence)], []
    return [], []


CHANNEL = Channel(_NAME, find, 120, "model")
