"""Energies of a file, attacked: log densities under the kinetic noise of Hamiltonian draws."""

import numpy as np

from bayesrecon.attacks.sidechannels.densities import recover_from_log_density
from bayesrecon.auditing.channel import Channel
from bayesrecon.auditing.evidence import items
from bayesrecon.auditing.opened import Opened
from bayesrecon.results.audit import Finding, Remedy


def attack_energies(opened: Opened) -> tuple[list[Finding], list[str]]:
    """`energy`: minus the log density plus kinetic noise, a regression with errors."""
    if opened.release.log_density is not None:
        return [], []  # it says the same, less well
    for variable in opened.contents.group("sample_stats"):
        if variable.name not in ("energy", "energy__") or variable.shape:
            continue
        energy = variable.values[opened.kept]
        if not np.isfinite(energy).all() or len(energy) < 200:
            return [], []
        found = recover_from_log_density(
            opened.release, log_density=-energy, kinetic=True, known=opened.known, key=opened.key
        )
        useful = [r for r in found.rows if r.se and r.estimate is not None and r.se < 0.5 * abs(r.estimate)]
        if not useful:
            return [], []
        finding = Finding(
            "energy",
            "low",
            "energies carry the log density under kinetic noise",
            (variable.where,),
            f"{len(energy)} energies determine statistics of the data as a regression with errors",
            "the model and its prior",
            items(found.rows),
            (Remedy(f"drop {variable.where}"),),
            drop=(variable.where,),
        )
        return [finding], []
    return [], []


CHANNEL = Channel(name="energies", attack=attack_energies, rank=20)
