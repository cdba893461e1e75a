"""An audit for whoever is no statistician: what a stranger can learn about a person, what to remove, and what stays."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Finding

_PEOPLE = {
    "high": "A stranger can get back values of single people, or the data themselves.",
    "medium": "A stranger can learn something exactly: totals over all people, labels, or something about single ones.",
    "low": "What was tried gives a stranger numbers about all people together, each with an error.",
    "info": "What was tried gives a stranger nothing.",
}
_NOT_TRIED = "Not everything could be tried, so more may be possible than stands here."
_MOST = 6  # things named in a sentence


@dataclass(frozen=True)
class Plain:
    """Three answers, each in a few sentences.

    Attributes:
        people: what a stranger can learn about a person.
        remove: what to remove before publishing; empty where nothing is to be removed.
        stays: what a stranger can still learn then, or what nobody looked at.
    """

    people: tuple[str, ...]
    remove: tuple[str, ...]
    stays: tuple[str, ...]


def in_plain_words(audit: "Audit") -> Plain:
    """The summary at the top of the report.

    >>> import bayesrecon, numpy as np
    >>> plain = in_plain_words(bayesrecon.audit({"x": np.ones((2, 50, 1)) * np.arange(9.0) ** 2}))
    >>> plain.people[0], plain.remove[0]
    ('A stranger can get back values of single people, or the data themselves.', 'posterior/x')
    """
    people = [_PEOPLE[audit.severity], *(_needs(f) for f in audit.findings[:3])]
    dropped = tuple(dict.fromkeys(where for f in audit for where in f.drop))
    drop = {where.lstrip("@") for where in dropped}  # an attribute is marked so
    staying = [f for f in audit if not (f.drop and set(f.where) <= drop)]
    stays = [f"{_sentence(f)}." for f in staying[:_MOST]]
    if not stays:
        stays = ["Of what was found, nothing stays once this is removed." if drop else "Nothing was found to stay."]
    if audit.not_run:
        people.append(_NOT_TRIED)
        names = list(dict.fromkeys(n.attack for n in audit.not_run))
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        stays.append(f"Not attacked, so that nobody knows what they give: {', '.join(names[:_MOST])}{more}.")
    return Plain(tuple(people), dropped, tuple(stays))


def _needs(finding: "Finding") -> str:
    return f"{_sentence(finding)}. To see it takes {finding.needs}."


def _sentence(finding: "Finding") -> str:
    """The title as a sentence; its subject is no path.

    >>> from types import SimpleNamespace
    >>> _sentence(SimpleNamespace(title="posterior/x is the same in every draw", where=("posterior/x",)))
    'An item of the file is the same in every draw (posterior/x)'
    """
    place = next((where for where in finding.where if finding.title.startswith(f"{where} ")), None)
    if place is None:
        return finding.title[:1].upper() + finding.title[1:]
    return f"An item of the file{finding.title[len(place) :]} ({place})"
