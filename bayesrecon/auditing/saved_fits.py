"""Models in a file of saved objects. Those whose numbers can be read are attacked, and the others are listed."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from bayesrecon.auditing.inventory import parts_of
from bayesrecon.auditing.short_text import places
from bayesrecon.errors import labelled
from bayesrecon.posteriors.contents import Contents, SavedFit
from bayesrecon.posteriors.roles import ESTIMATE
from bayesrecon.releases import Release
from bayesrecon.results.audit import Audit
from bayesrecon.results.findings import Finding, NotRun

_ATTACK = "fit"
_REMEDY = "attack it in Python (posteriors.dirac with a model of its own), or publish it without these numbers"


@dataclass(frozen=True)
class Attacked:
    """The result of attacking the fits in a file."""

    findings: tuple[Finding, ...]
    untried: tuple[NotRun, ...]
    warnings: tuple[str, ...]


def attack_fits(contents: Contents, attack: Callable[[Release], Audit]) -> Attacked:
    """Attack every fit whose numbers can be read, as an audit of the same fit in Python would.

    Args:
        contents: the file.
        attack: function that audits a fit.
    """
    fits = contents.saved.fits if contents.saved is not None else ()
    estimates = [part.where for part in parts_of(contents) if part.role == ESTIMATE]
    findings: list[Finding] = []
    untried: list[NotRun] = []
    warnings: list[str] = []
    for fit in fits:
        where = tuple(e for e in estimates if e.startswith(f"{fit.where}." if fit.where else ""))
        where = where or (fit.where or contents.name,)
        if fit.release is None:
            untried.append(NotRun(_ATTACK, f"{_named(fit)}: {fit.reason}", _REMEDY, where))
            continue
        audited = attack(fit.release)
        findings += [replace(f, where=where, title=f"{f.title} ({_named(fit)})") for f in audited]
        untried += [replace(n, where=where) for n in audited.not_run]
        warnings += [labelled(_named(fit), warning) for warning in audited.warnings]
    not_attacked = _not_attacked(contents, {where for f in (*findings, *untried) for where in f.where})
    return Attacked(tuple(findings), (*untried, *not_attacked), tuple(warnings))


def _named(fit: SavedFit) -> str:
    name = fit.of.rpartition(".")[2]
    return f"{name} at {fit.where}" if fit.where else name


def _not_attacked(contents: Contents, seen: set[str]) -> list[NotRun]:
    """A `NotRun` for estimates of objects that no attack can read."""
    places_by_class: dict[str, list[str]] = {}
    for part in parts_of(contents):
        if part.role == ESTIMATE and part.where not in seen and part.kind in ("array", "attribute"):
            places_by_class.setdefault(part.of.rpartition(".")[2] or "saved numbers", []).append(part.where)
    kinds = ", ".join(list(places_by_class)[:4]) + (
        f" and {len(places_by_class) - 4} more" if len(places_by_class) > 4 else ""
    )
    where = tuple(place for group in places_by_class.values() for place in group)
    reason = f"there is no attack on the numbers of {kinds} ({places(where, 3)}); they were only searched for copies"
    return [NotRun(_ATTACK, reason, _REMEDY, where)] if where else []
