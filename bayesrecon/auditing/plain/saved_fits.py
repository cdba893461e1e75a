"""Models in a file of saved objects. Those whose numbers can be read are attacked, and the others are listed."""

from contextlib import suppress
from dataclasses import replace

from bayesrecon.auditing.inventory import parts_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.short_text import places
from bayesrecon.errors import BayesreconError, labelled
from bayesrecon.posteriors.contents import Contents, SavedFit
from bayesrecon.posteriors.roles import ESTIMATE
from bayesrecon.results.findings import Finding, NotRun

_ATTACK = "fit"
_REMEDY = "attack it in Python (posteriors.dirac with a model of its own), or publish it without these numbers"


def find(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
    """Attack every fit whose numbers can be read, as an audit of the same fit in Python would."""
    contents = look.contents
    estimates = [part.where for part in parts_of(contents) if part.role == ESTIMATE]
    findings: list[Finding] = []
    notes: list[NotRun | str] = []
    for fit in contents.saved.fits if contents.saved is not None else ():
        where = tuple(e for e in estimates if e.startswith(f"{fit.where}." if fit.where else ""))
        where = where or (fit.where or contents.name,)
        if fit.release is None:
            notes.append(NotRun(_ATTACK, f"{_named(fit)}: {fit.reason}", _REMEDY, where))
            continue
        found, untried, warnings = _attack(look, fit)
        findings += [replace(f, where=where, title=f"{f.title} ({_named(fit)})") for f in found]
        notes += [replace(n, where=where) for n in untried]
        notes += [labelled(_named(fit), warning) for warning in warnings]
    seen = {w for f in findings for w in f.where} | {w for n in notes if isinstance(n, NotRun) for w in n.where}
    return findings, [*notes, *_not_attacked(contents, seen)]


def _attack(look: Look, fit: SavedFit) -> tuple[tuple[Finding, ...], tuple[NotRun, ...], tuple[str, ...]]:
    from bayesrecon.auditing.fit_findings import attack_fit
    from bayesrecon.auditing.private_data import read_private
    from bayesrecon.auditing.scoring import scored
    from bayesrecon.knowledge import of_model

    about = fit.release.about
    stage = attack_fit(fit.release, knows=of_model(look.asked.knows, about), **look.of_fits())
    findings = stage.findings
    with suppress(BayesreconError):  # the data lack a column of this fit, and were compared unchanged
        private = read_private(look.asked.data, about)
        findings = tuple(scored(f, private, about, (), None) for f in findings)
    return findings, stage.untried, stage.warnings


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


CHANNEL = Channel("saved fits", find, 90)
