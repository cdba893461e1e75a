"""Findings in words: values, places and recovered numbers as short texts, and findings on items to drop."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.results.findings import Finding, Item, Remedy, Severity
from bayesrecon.results.told import values_in

if TYPE_CHECKING:
    from bayesrecon.posteriors.printed.estimates_in_files import Statistic
    from bayesrecon.results.row import Row

NOTHING, PRIOR = "nothing but the file", "the model and its prior"
"""What an attacker needs."""


SHOW = 5  # largest number of values quoted in a finding


def count_of(values: np.ndarray) -> str:
    """The number of values, as a shape in words."""
    return " by ".join(str(n) for n in np.shape(values)) or "1"


def preview(values: object) -> str:
    """The first values, which reports show on request only.

    >>> preview([1.0, 2.5]), preview(["a", "b"])
    ('‹1, 2.5›', '‹a, b›')
    """
    flat = np.ravel(np.asarray(values))[:SHOW]
    return values_in(", ".join(f"{v:.6g}" if flat.dtype.kind in "fiub" else short(v, 40) for v in flat))


def short(value: object, most: int = 120) -> str:
    """A text on one line with at most `most` characters."""
    text = " ".join(str(value)[: 20 * most].split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def places(where: Iterable[object], most: int = 6) -> str:
    """The first places, and the number of further ones."""
    listed = list(where)
    return ", ".join(short(w, 60) for w in listed[:most]) + (
        f" and {len(listed) - most} more" if len(listed) > most else ""
    )


_ROUNDING = 1e-9
"""Largest relative error of a count that is computed from numbers in double precision."""


def items(rows: "Iterable[Row | Statistic]") -> tuple[Item, ...]:
    """An item for each statistic that was recovered. Those of cells of one person, and extremes, are of persons. A
    count between whole numbers by rounding alone is whole.
    """
    rows = list(rows)
    alone = {f"[{match[1]}]" for r in rows if r.estimate == 1 and (match := re.fullmatch(r"n\[(.+)\]", r.name))}

    def is_of_a_person(name: str) -> bool:
        return name.startswith(("min(", "max(")) or (name[name.find("[") :] in alone and not name.startswith("n["))

    return tuple(
        Item(
            r.name,
            _whole(r.estimate) if r.name == "n" else r.estimate,
            r.se,
            lower=r.lower,
            upper=r.upper,
            person=is_of_a_person(r.name),
        )
        for r in rows
        if r.estimate is not None
    )


def _whole(count: float) -> float:
    return float(round(count)) if np.isfinite(count) and abs(count - round(count)) <= _ROUNDING * count else count


def independent(count: int, all_of_them: bool) -> str:
    """The number of independent sums over the records, in words.

    >>> independent(136, True), independent(1, False)
    ('exactly 136 independent sums over the records', 'about 1 independent sum over the records')
    """
    return f"{'exactly' if all_of_them else 'about'} {count} independent sum{'s' * (count != 1)} over the records"


def to_drop(
    kind: str,
    severity: Severity,
    title: str,
    where: tuple[str, ...],
    summary: str,
    needs: str = NOTHING,
    *,
    column: str | None = None,
    instead: str = "",
    leaves: Severity = "info",
    **more: Any,
) -> Finding:
    """A finding on items without which a file does not have it.

    Args:
        kind, severity, title, where, summary, needs, more: as in `Finding`.
        column: the private column that they are equal to, if they are.
        instead: what to do; by default, to drop them.
        leaves: severity of the finding after that.
    """
    summary += f"; they are the private column {column}" if column else ""
    remedies = (Remedy(instead or f"drop {places(where, 3)}", leaves=leaves),)
    return Finding(kind, severity, title, where, summary, needs, remedies=remedies, drop=where, **more)
