"""An audit for readers without statistics: what a stranger can learn about a person, what to remove, what stays."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Finding

_PEOPLE = {
    "high": "A stranger can recover values of individual people, or the data themselves.",
    "medium": "A stranger can learn something exactly: totals over all people, labels, or something about individuals.",
    "low": "The attacks that were tried give a stranger numbers about all people together, each with an error.",
    "info": "The attacks that were tried give a stranger nothing.",
}
_NOT_TRIED = "Some attacks could not be tried, so a stranger may learn more than this."
_MOST = 6  # largest number of items named in a sentence


@dataclass(frozen=True)
class PlainWords:
    """Three answers, each in a few sentences.

    Attributes:
        people: what a stranger can learn about a person.
        remove: what to remove before publishing; may be empty.
        stays: what a stranger can still learn after that, and what was not attacked.
    """

    people: tuple[str, ...]
    remove: tuple[str, ...]
    stays: tuple[str, ...]


def in_plain_words(audit: "Audit") -> PlainWords:
    """The summary at the top of the report.

    >>> import bayesrecon, numpy as np
    >>> plain = in_plain_words(bayesrecon.audit({"x": np.ones((2, 50, 1)) * np.arange(9.0) ** 2}))
    >>> plain.people[0], plain.remove[0]
    ('A stranger can recover values of individual people, or the data themselves.', 'posterior/x')
    """
    people = [_PEOPLE[audit.severity], *(_needs(f) for f in audit.findings[:3])]
    dropped = tuple(dict.fromkeys(where for f in audit for where in f.drop))
    drop = {where.lstrip("@") for where in dropped}  # attributes are marked with @
    staying = [f for f in audit if not (f.drop and set(f.where) <= drop)]
    stays = [f"{_sentence(f)}." for f in staying[:_MOST]]
    if not stays:
        stays = ["Nothing of what was found stays once this is removed." if drop else "No findings."]
    if audit.not_run:
        people.append(_NOT_TRIED)
        names = list(dict.fromkeys(n.attack for n in audit.not_run))
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        stays.append(f"Not attacked, so it is not known what they reveal: {', '.join(names[:_MOST])}{more}.")
    return PlainWords(tuple(people), dropped, tuple(stays))


def _needs(finding: "Finding") -> str:
    return f"{_sentence(finding)}. To see it takes {finding.needs}."


def _sentence(finding: "Finding") -> str:
    """The title as a sentence whose subject is not a path.

    >>> from types import SimpleNamespace
    >>> _sentence(SimpleNamespace(title="posterior/x is the same in every draw", where=("posterior/x",)))
    'An item of the file is the same in every draw (posterior/x)'
    """
    place = next((where for where in finding.where if finding.title.startswith(f"{where} ")), None)
    if place is None:
        return finding.title[:1].upper() + finding.title[1:]
    return f"An item of the file{finding.title[len(place) :]} ({place})"
