"""Fits: published by themselves, several tables together, tables of estimates in a file, models in saved objects."""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from bayesrecon.auditing.inventory import parts_of
from bayesrecon.auditing.look import Channel, Look
from bayesrecon.auditing.wording import places
from bayesrecon.errors import BayesreconError, labelled
from bayesrecon.posteriors.contents import Contents, SavedFit
from bayesrecon.posteriors.roles import ESTIMATE
from bayesrecon.results.findings import Finding, NotRun

if TYPE_CHECKING:
    from bayesrecon.knowledge import Knows


def _released(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
    """Attack the fit, or the differences of the tables."""
    findings: list[Finding] = []
    notes: list[NotRun | str] = []
    if look.tables:
        from bayesrecon.auditing.several_tables import compare_tables

        findings, refused = compare_tables(look.tables, look.asked)
        notes += refused
    if (fit := look.fit) is not None:
        from bayesrecon.auditing.fit_findings import attack_fit

        stage = attack_fit(
            fit.release,
            attack=fit.attack,
            alternatives=fit.alternatives,
            untried=fit.untried,
            knows=cast("Knows", look.asked.knows),
            **look.of_fits(),
        )
        findings = [replace(f, where=fit.where or f.where) for f in stage.findings]
        notes += [*stage.warnings, *(replace(n, where=fit.where or n.where) for n in stage.untried)]
    return findings, notes


def _estimates(look: Look) -> tuple[list[Finding], list[NotRun]]:
    """Attack the tables of estimates in a file, each with the model that it belongs to."""
    if not look.contents.estimates:
        return [], []
    from bayesrecon.auditing.fit_findings import look_at_estimates
    from bayesrecon.auditing.scoring import scored_table

    asked = look.asked
    found, untried = look_at_estimates(look.contents, cast("Knows", asked.knows), **look.of_fits())
    return [f if used is None else scored_table(f, used, asked.data, asked.known) for f, used in found], untried


_ATTACK = "fit"
_REMEDY = "attack it in Python (posteriors.dirac with a model of its own), or publish it without these numbers"


def _saved(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
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
        found, untried, warnings = _attacked(look, fit)
        findings += [replace(f, where=where, title=f"{f.title} ({_named(fit)})") for f in found]
        notes += [replace(n, where=where) for n in untried]
        notes += [labelled(_named(fit), warning) for warning in warnings]
    seen = {w for f in findings for w in f.where} | {w for n in notes if isinstance(n, NotRun) for w in n.where}
    return findings, [*notes, *_not_attacked(contents, seen)]


def _attacked(look: Look, fit: SavedFit) -> tuple[tuple[Finding, ...], tuple[NotRun, ...], tuple[str, ...]]:
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


def find(look: Look) -> tuple[list[Finding], list[NotRun | str]]:
    """Attack all fits."""
    found, notes = zip(_estimates(look), _released(look), _saved(look), strict=True)
    return [f for part in found for f in part], [n for part in notes for n in part]


CHANNEL = Channel("fits", find, 80)
