"""Values of a file in a few words, without what would turn a page or a terminal around."""

from typing import Any

import numpy as np

SHOW = 5  # values that a finding quotes


def count(values: Any) -> str:
    """How many values there are, as a shape."""
    return " by ".join(str(n) for n in np.shape(values)) or "1"


def preview(values: Any) -> str:
    """The first values.

    >>> preview([1.0, 2.5]), preview(["a", "b"])
    ('1, 2.5', 'a, b')
    """
    flat = np.ravel(np.asarray(values))[:SHOW]
    return ", ".join(f"{v:.6g}" if flat.dtype.kind in "fiub" else short(v, 40) for v in flat)


def short(value: Any, most: int = 120) -> str:
    """A text on one line, at most so long."""
    text = " ".join(str(value)[: 20 * most].split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def places(where: Any, most: int = 6) -> str:
    """Some places, and how many more there are."""
    listed = list(where)
    return ", ".join(short(w, 60) for w in listed[:most]) + (
        f" and {len(listed) - most} more" if len(listed) > most else ""
    )
