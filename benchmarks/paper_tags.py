"""How a row says which piece of a paper it reproduces: the coverage page (`papers.py`) collects what they say."""

from collections.abc import Callable
from typing import Any

from benchmarks.study import Study

HREC, DELETION, VICIOUS, CENTRAL, MEMORY = "hrec", "deletion", "vicious", "central", "memory"


def tag(
    paper: str,
    piece: str,
    cell: str,
    ours: Any,
    *,
    published: Any = "",
    interval: Any = None,
    why: str = "",
    blocked: str = "",
) -> dict[str, Any]:
    """One cell: ours beside what was published.

    Args:
        piece: such as "Table 2"; cell: of it.
        interval: of ours, two numbers, or None.
        why: they differ. blocked: the data set that is missing, where ours is measured on another.
    """
    ends = None if interval is None else [float(end) for end in interval]
    return {
        "paper": paper,
        "piece": piece,
        "cell": cell,
        "published": published,
        "ours": ours,
        "interval": ends,
        "why": why,
        "blocked": blocked,
    }


def rate(paper: str, piece: str, cell: str, stated: Any, **about: Any) -> dict[str, Any]:
    """The tag of a rate `[estimate, lower, upper]`, in %."""
    p, low, high = (round(100 * value, 2) for value in stated)
    return tag(paper, piece, cell, p, interval=(low, high), **about)


def keep_tags(study: Study, tags: Callable[[], list[dict[str, Any]]], document: str | None) -> None:
    """The program of a study that keeps tags of other studies' rows."""
    study.given(study.parser(document))
    found = tags()
    study.keep({"papers": found})
    print(f"{len(found)} cells, {sum(bool(one['blocked']) for one in found)} of them blocked by data")
