"""A printed figure of a paper beside ours: whether they agree, and why if not."""

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from bayesrecon.evaluate import clopper_pearson

HREC, DELETION, VICIOUS, CENTRAL, MEMORY = "hrec", "deletion", "vicious", "central", "memory"
AGREES, DIFFERS, UNLIKE, LACKS = STATES = ("agrees", "differs", "not comparable", "no data")
PRINTED = re.compile(r"(at most |at least |)(-?\d+(?:\.(\d+))?)")
UNKNOWN = "not known: tried "


class Cell(NamedTuple):
    """One figure or claim of a paper.

    Attributes:
        piece: such as "Table 2"; name: of the cell in it.
        printed: as the paper has it, such as "99.8" or "at most 0.5"; "" if it has no figure.
        ours: by the protocol of the paper, as far as it is stated.
        interval: of ours, 95 %.
        why: printed and ours differ.
        unlike: why they cannot be compared; the rows are then of other data, of another size, or of what has no figure.
        lacks: the data set that is not to be had.
    """

    paper: str
    piece: str
    name: str
    printed: str = ""
    ours: Any = None
    interval: Sequence[float] | None = None
    why: str = ""
    unlike: str = ""
    lacks: str = ""


def state(cell: Cell) -> str:
    """Of ours and the printed figure: the printed figure agrees if the interval of ours holds it.

    A bound agrees if the interval has a value on its side. Printed figures are rounded: half a unit of the last digit
    is allowed, and of decimals a whole one where ours has no interval, as some are cut.

    Raises:
        ValueError: ours or the printed one is not a figure, and the cell does not say why they are not compared.
    """
    if cell.lacks or cell.unlike:
        return LACKS if cell.lacks else UNLIKE
    match = PRINTED.fullmatch(cell.printed)
    if match is None or isinstance(cell.ours, bool) or not isinstance(cell.ours, int | float):
        raise ValueError(f"{cell.piece}, {cell.name}: {cell.ours!r} beside {cell.printed!r}: not two figures")
    bound, figure, decimals = match[1], float(match[2]), len(match[3] or "")
    low, high = cell.interval or (cell.ours, cell.ours)
    rounding = 10.0**-decimals * (0.5 if cell.interval else decimals > 0) * (1 + 1e-9)
    above = bound != "at most " and not high >= figure - rounding
    below = bound != "at least " and not low <= figure + rounding
    return DIFFERS if above or below else AGREES


def reason(cell: Cell) -> str:
    """Why two figures differ or are not compared.

    Raises:
        ValueError: the cell does not say it.
    """
    found = {DIFFERS: cell.why, UNLIKE: cell.unlike, LACKS: cell.lacks, AGREES: "-"}[state(cell)]
    if not found.strip():
        raise ValueError(f"{cell.piece}, {cell.name}: {state(cell)}, without a reason")
    return "" if found == "-" else found


def percent(stated: Sequence[float]) -> dict[str, Any]:
    """Ours and the interval of a rate `[estimate, lower, upper]`, in %."""
    p, *ends = (round(100 * value, 2) for value in stated[:3])
    return {"ours": p, "interval": ends}


def by_chance(stated: Sequence[float], printed: float, count: int) -> str:
    """Why a rate differs from a printed one, in %, of `count` rounds: both have sampling errors (Newcombe's square-and-
    add interval of a difference, from Clopper-Pearson's); empty if the interval of the difference excludes zero."""
    p, low, high = stated[:3]
    q, least, most = _of_rounds(round(printed / 100 * count), count)
    ends = (p - q - math.hypot(p - low, most - q), p - q + math.hypot(high - p, q - least))
    if not ends[0] <= 0 <= ends[1]:
        return ""
    points = "{:.1f} to {:.1f}".format(*(100 * end for end in ends))
    return f"sampling: the printed figure is of {count:,} rounds too, and the difference is {points} points"


_of_rounds = cache(clopper_pearson)
