"""Values of a file as short text, without control characters that would affect a page or a terminal."""

from collections.abc import Iterable

import numpy as np

from bayesrecon.results.told import values_in

SHOW = 5  # largest number of values quoted in a finding


def count(values: np.ndarray) -> str:
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
