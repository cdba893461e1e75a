"""Fits: published by themselves, several tables together, tables of estimates in a file, models in saved objects."""

from dataclasses import replace

from bayesrecon.auditing.look import Channel, Fit, Look
from bayesrecon.auditing.wording import places
from bayesrecon.errors import labelled
from bayesrecon.posteriors.contents import Contents, SavedFit
from bayesrecon.posteriors.roles import ESTIMATE
from bayesrecon.results.findings import Finding, NotRun

_ATTACK = "fit"
_REMEDY = "attack it in Python (posteriors.dirac with a model of its own), or publish it without these numbers"


def find(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
    """Attack all fits: the tables of estimates in a file, a fit or several tables, and fits in saved objects."""
    findings: list[Finding] = []
    notes: list[NotRun | str] = []
    if look.contents.estimates:
        from bayesrecon.auditing.fit_findings import look_at_estimates
        from bayesrecon.auditing.scoring import scored_fit

        found, closed = look_at_estimates(look, scored_fit)
        findings, notes = found, [*closed]
    for attack in (_released, _saved):
        found, told = attack(look)
        findings, notes = [*findings, *found], [*notes, *told]
    return findings, notes


def _released(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
    """Attack the fit, or the differences of the tables."""
    findings: list[Finding] = []
    notes: list[NotRun | str] = []
    if look.together:
        from bayesrecon.auditing import cumulative
        from bayesrecon.auditing.together import compare, with_names

        released = [cumulative.examined(one, look.asked) for one in with_names(look.together)]
        found, refused = compare(released, look.asked)
        findings, notes = [*found, *cumulative.find(released, look.asked)], [*refused]
    if look.fit is not None:
        from bayesrecon.auditing.fit_findings import attack_fit

        stage = attack_fit(look.fit, look.asked, look.progress, look.determined)
        findings, notes = [*findings, *stage.findings], [*notes, *stage.warnings, *stage.untried]
    return findings, notes


def _saved(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
    """Attack every fit whose numbers can be read, as an audit of the same fit in Python would."""
    contents = look.contents
    estimates = [e.where for e in contents.entries if e.of is not None and e.role == ESTIMATE]
    findings: list[Finding] = []
    notes: list[NotRun | str] = []
    for fit in contents.saved.fits if contents.saved is not None else ():
        where = tuple(e for e in estimates if e.startswith(f"{fit.where}." if fit.where else ""))
        where = where or (fit.where or contents.name,)
        if fit.release is None:
            notes.append(NotRun(_ATTACK, f"{_named(fit)}: {fit.reason}", _REMEDY, where))
            continue
        from bayesrecon.auditing.fit_findings import attack_fit
        from bayesrecon.auditing.scoring import scored_fit
        from bayesrecon.knowledge import of_model

        about = fit.release.about
        known = replace(look.asked, knows=of_model(look.asked.knows, about))
        stage = attack_fit(Fit(fit.release, where=where, place=fit.where), known, look.progress, look.determined)
        found = scored_fit(stage.findings, about, look.asked)
        findings += [replace(f, title=f"{f.title} ({_named(fit)})") for f in found]
        notes += [*stage.untried, *(labelled(_named(fit), warning) for warning in stage.warnings)]
    seen = {w for f in findings for w in f.where} | {w for n in notes if isinstance(n, NotRun) for w in n.where}
    return findings, [*notes, *_not_attacked(contents, seen)]


def _named(fit: SavedFit) -> str:
    name = fit.of.rpartition(".")[2]
    return f"{name} at {fit.where}" if fit.where else name


def _not_attacked(contents: Contents, seen: set[str]) -> list[NotRun]:
    """A `NotRun` for estimates of objects that no attack can read."""
    by_class: dict[str, list[str]] = {}
    for entry in contents.entries:
        known = entry.of is None or entry.role != ESTIMATE or entry.where in seen
        if not known and entry.kind in ("array", "attribute"):
            by_class.setdefault(str(entry.of).rpartition(".")[2] or "saved numbers", []).append(entry.where)
    where = tuple(place for group in by_class.values() for place in group)
    reason = f"there is no attack on the numbers of {places(by_class, 4)} ({places(where, 3)}); they were only searched"
    return [NotRun(_ATTACK, f"{reason} for copies", _REMEDY, where)] if where else []


CHANNEL = Channel("fits", find, 80)
