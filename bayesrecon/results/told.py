"""Findings as a person reads them: alike ones together, not too many, and without the values of people.

Texts of findings hold values of records between `OPEN` and `CLOSE`, so that one rule hides them everywhere.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from bayesrecon.results.findings import LEVELS, Finding

OPEN, CLOSE = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}", "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
_MOST = 20  # findings that a person reads
_DIGITS = 4  # a number with fewer digits names nobody
_HIDDEN = "(values not shown)"
_ITEM = re.compile(r"\S*[/@\[$]\S*|[\d.]+")  # what differs between places of one kind


def values_in(text: str) -> str:
    """A text that quotes values of records.

    >>> without_values(f"two ages, {values_in('41, 17')}"), with_values(f"two ages, {values_in('41, 17')}")
    ('two ages, (values not shown)', 'two ages, 41, 17')
    """
    return OPEN + text.replace(OPEN, "<").replace(CLOSE, ">") + CLOSE


def without_values(text: str) -> str:
    """The text without values of records."""
    return re.sub(f"{OPEN}.*?({CLOSE}|$)", _HIDDEN, text, flags=re.DOTALL)


def place(where: str) -> str:
    """A place without decimal numbers of four digits or more, which are values and not names.

    >>> place("posterior/age_41.73"), place("posterior/beta_2019")
    ('posterior/age_…', 'posterior/beta_2019')
    """
    return re.sub(r"\d+[.,]\d+", lambda m: "…" if sum(map(str.isdigit, m[0].strip("0."))) >= _DIGITS else m[0], where)


def with_values(text: str) -> str:
    """The text with values of records."""
    return text.replace(OPEN, "").replace(CLOSE, "")


def in_r(where: str) -> str:
    """A place in an object of R as R writes it.

    >>> in_r("fit/model/y"), in_r("fit/forest/[[3]]/left"), in_r("fit/frame@row.names")
    ('fit$model$y', 'fit$forest[[3]]$left', 'attr(fit$frame, "row.names")')
    """
    whole, _, attribute = where.partition("@")
    spoken = whole.replace("/[[", "[[").replace("/", "$")
    for name in filter(None, attribute.split("@")):
        first, _, rest = name.partition("/")
        spoken = f'attr({spoken}, "{first}")' + (f"${rest}".replace("/[[", "[[").replace("/", "$") if rest else "")
    return spoken.replace("$[[", "[[")


def from_r(spoken: str) -> str:
    """The place that `in_r` gave a name.

    >>> from_r('attr(fit$frame, "row.names")'), from_r("fit$forest[[3]]$left")
    ('fit/frame@row.names', 'fit/forest/[[3]]/left')
    """
    while match := re.fullmatch(r'attr\((.*), "([^"]*)"\)(.*)', spoken):
        spoken = f"{match[1]}@{match[2]}{match[3]}"
    return spoken.replace("[[", "/[[").replace("$", "/")


def told(findings: Sequence[Finding], form: str, values: bool) -> tuple[tuple[Finding, ...], str]:
    """At most `_MOST` findings, and a line that says how many were left out ("" if none).

    Args:
        findings: all of them, the most severe first.
        form: format of the file.
        values: whether values of records are shown.
    """
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_cause(finding), []).append(finding)
    listed = [_one(group, form, values) for group in groups.values()]
    rest = [finding for group in list(groups.values())[_MOST:] for finding in group]
    counts = Counter(finding.severity for finding in rest)
    words = ", ".join(f"{counts[level]} {level}" for level in reversed(LEVELS) if counts[level])
    return tuple(listed[:_MOST]), f"{len(rest)} more findings of other kinds are not listed: {words}" if rest else ""


def _cause(finding: Finding) -> tuple[str, ...]:
    """What alike findings share: severity, kind, and the title without places and numbers."""
    container = finding.where[0].split(": ")[0] if finding.where and ": " in finding.where[0] else ""
    return finding.severity, finding.kind, container, _ITEM.sub("", without_values(finding.title))


def _one(group: Sequence[Finding], form: str, values: bool) -> Finding:
    """One finding for a group: the first, with the places of all."""
    first, where = group[0], tuple(dict.fromkeys(w for finding in group for w in finding.where))
    drop = tuple(dict.fromkeys(w for finding in group for w in finding.drop))
    more = f", and {len(group) - 1} more of this kind" if len(group) > 1 else ""
    spoken = {w: in_r(w) if form.startswith("R") and ("/" in w or "@" in w) else w for w in (*where, *drop)}
    spoken = spoken if values else {w: place(shown) for w, shown in spoken.items()}

    def said(text: str) -> str:
        text = with_values(text) if values else without_values(text)
        for w in sorted((w for w in first.where if spoken[w] != w), key=len, reverse=True):
            text = text.replace(w, spoken[w])
        return text

    return replace(
        first,
        title=said(first.title) + more,
        summary=said(first.summary),
        where=tuple(spoken[w] for w in where),
        drop=tuple(spoken[w] for w in drop),
        evidence=tuple(item for item in first.evidence if values or not item.person),
        remedies=tuple(replace(r, action=said(r.action)) for r in first.remedies),
        records=first.records if values else {},
        errors=first.errors if values else {},
    )
