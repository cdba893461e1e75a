"""What of five papers the benchmarks reproduce, as the page benchmarks/PAPERS.md.

python -m benchmarks.papers

Rows of all programs say which pieces they reproduce (`paper_tags.py`), under the key `papers` of benchmarks/*.json; the
pieces that there are lie in benchmarks/papers_pieces.json: numbers and names, no sentences. Nothing is measured here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.study import HERE, Study, table

PAPERS = {
    "central": "Wynne 2025, On Reconstructing Training Data From Bayesian Posteriors and Trained Models",
    "hrec": "Bertran et al. 2024, Reconstruction Attacks on Machine Unlearning",
    "deletion": "Gao et al. 2022, Deletion Inference, Reconstruction, and Compliance, and its workshop version",
    "vicious": "Malekzadeh and Gunduz 2024, Vicious Classifiers",
    "memory": "Haim et al. 2022, Buzaglo et al. 2023, Loo et al. 2023, Balle et al. 2022: what trained models remember",
}
INTRODUCTION = """# What of the papers is reproduced

Made by `python -m benchmarks.papers` from the rows of all programs. This page compares published results with ours.
*Published* is the printed figure or the claim in words. *Interval* is the 95 % interval of our result, which the row's
own page explains. If the results differ, *why* gives the known reasons. If the data are not available, *why* names
them, and our result is for other data.

A *piece* is a cell of a table, a panel of a figure, or a claim. It is *done* if a row has our result on the paper's own
data, or on data that the paper leaves open. It is *other data* if a row has our result on other data only, *no data* if
only the data set is missing, and *not done* otherwise. Pieces without a row are listed with what was tried.
"""
PIECES = HERE / "papers_pieces.json"
STATES = ("done", "other data", "no data", "not done")


def collected(folder: Path = HERE) -> list[dict[str, Any]]:
    """All tags of the rows in a folder, in the order of their files."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("*.json")):
        found += _tags(json.loads(path.read_text(encoding="utf-8")))
    unknown = {one["paper"] for one in found} - set(PAPERS)
    assert not unknown, f"papers that nobody lists: {unknown}"
    return found


def _tags(rows: Any) -> Iterator[dict[str, Any]]:
    if isinstance(rows, dict):
        yield from rows.get("papers", ())
        rows = [value for key, value in rows.items() if key != "papers"]
    if isinstance(rows, list):
        for one in rows:
            if isinstance(one, dict | list):
                yield from _tags(one)


def state(piece: dict[str, Any], tags: list[dict[str, Any]]) -> str:
    """How far a piece is reached: by rows of its name, and of its cell where it has one."""
    own = [one for one in tags if _is_of(one, piece)]
    measured = [one for one in own if one["ours"] not in (None, "")]
    if measured:
        return "done" if any(not one["blocked"] for one in measured) else "other data"
    return "no data" if own or piece.get("blocked") else "not done"


def _is_of(tag: dict[str, Any], piece: dict[str, Any]) -> bool:
    same = tag["paper"] == piece["paper"] and tag["piece"].startswith(piece["piece"])
    return bool(same and piece.get("cell", "") in tag["cell"])


def page(kept: dict[str, Any]) -> str:
    pieces, tags = kept["pieces"], kept["tags"]
    states = [state(piece, tags) for piece in pieces]
    rows = []
    for paper in [*PAPERS, ""]:
        own = [s for piece, s in zip(pieces, states, strict=True) if piece["paper"] == paper or not paper]
        shown = sum(one["paper"] == paper or not paper for one in tags)
        rows.append([PAPERS.get(paper, "all"), len(own), *(own.count(name) for name in STATES), shown])
    lines = [INTRODUCTION, table(("paper", "pieces", *STATES, "cells below"), rows), ""]
    for paper, title in PAPERS.items():
        lines += [f"## {title}", ""]
        cells = [row(one) for one in tags if one["paper"] == paper]
        head = ("piece", "cell", "ours", "published", "interval", "why they differ")
        lines += [table(head, cells, len(head)) if cells else "No row yet.", ""]
        left = [(p, s) for p, s in zip(pieces, states, strict=True) if p["paper"] == paper and s in STATES[2:]]
        if left:
            lines += ["Without a row:", "", *(_missing(*one) for one in left), ""]
    return "\n".join(lines)


def row(one: dict[str, Any]) -> list[str]:
    ends = "" if one["interval"] is None else "{:g} to {:g}".format(*one["interval"])
    why = "; ".join(filter(None, [one["why"], f"no data: {one['blocked']}" if one["blocked"] else ""]))
    found = [one["piece"], one["cell"], _shown(one["ours"]), _shown(one["published"]), ends, why]
    return [text.replace("|", "/") for text in found]


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _missing(piece: dict[str, Any], how: str) -> str:
    name = ", ".join(filter(None, [piece["piece"], piece.get("cell", "")]))
    published = f" (published: {piece['published']})" if piece.get("published") else ""
    status = f"no data: {piece['blocked']}" if piece.get("blocked") else how
    return f"* {name}{published}: {status}; {piece.get('tried') or 'not tried'}."


class _Collected(Study):
    """A study whose rows are those of the others."""

    def __init__(self, file: str) -> None:
        super().__init__(file, page)
        self.program = "benchmarks.papers"

    def kept(self) -> Any:
        return {"pieces": json.loads(PIECES.read_text(encoding="utf-8")), "tags": collected()}


STUDY = _Collected(__file__)


def main() -> None:
    STUDY.given(STUDY.parser(__doc__))
    STUDY.write()


if __name__ == "__main__":
    main()
