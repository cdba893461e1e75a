"""Deletion games beside their published cells, as the page benchmarks/GAMES.md.

python -m benchmarks.games.games [--minutes 20] [--workers 2] [--mnist DIR] [--rounds DIR] [WORD ...]

Cells are kept in benchmarks/games.json as soon as they are played, so that the page can be made in several goes; with
words only cells whose name holds one of them are played, anew. --mnist names the folder of MNIST's test images,
--rounds one for the rounds of cells that were not finished.
"""

import re
from dataclasses import astuple
from pathlib import Path
from typing import Any

from bayesrecon.evaluate import clopper_pearson
from bayesrecon.games import play
from benchmarks.games.game_batch import batch_page, batches
from benchmarks.games.game_cells import FITS, HUNDRED, LIBLINEAR, LISTED, Cell, cells
from benchmarks.games.game_figure import FIGURE, draw
from benchmarks.games.game_more import MORE, more_page
from benchmarks.study import HERE, Study, table
from benchmarks.tasks import add_missing

INTRODUCTION = """# Deletion games

Made by `python -m benchmarks.games.games`. A model is trained on a random 90 % of a table (or on 1,000 simulated
records). A fair coin decides which of two records is deleted, and the model is retrained without it. An adversary that
sees both records and can query both models says which one it was. Success is in %, with 95 % Clopper-Pearson intervals
for the stated number of rounds; guessing has 50 %. *Exm* is Del-Inf-Exm, *Ins* Del-Inf-Ins (Gao et al. 2022); pairs
are Exm / Ins.

* **as stated**: losses as the papers state them (squared, minus log probability, hinge), today's defaults of
  scikit-learn on raw columns, and a coin where both scores are equal;
* **ties as wins**: the same rounds, with ties counted as successes (a test written `>=`, the deleted record first);
* **absolute loss**: Exm with the absolute loss of a regression, same rounds;
* **standardised and converged**: columns standardised once over the whole table, and logistic regression by Newton to a
  gradient of 1e-11 a record; a coin where scores are equal. 1/12 MNIST is 5,000 of the 10,000 test images, drawn once,
  and its raw columns are pixels from 0 to 1; its SVM and MLP have few rounds, and no MLP was run on scaled pixels;
* **reaches**: columns that lie in the 95 % binomial interval of the published figure (1,000 games) or above, for Exm
  and for Ins.
"""
HEADINGS = ("data", "learner", "published", "rounds", "as stated", "ties as wins", "absolute loss")
HEADINGS += ("standardised and converged", "reaches: Exm", "reaches: Ins")
COLUMNS = ("as stated", "ties as wins", "absolute loss", "standardised and converged")


def key(cell: Cell) -> str:
    return f"{cell.section} | {cell.data} | {cell.learner}"


def played(cell: Cell, workers: int | None, rounds: Path | None = None) -> dict[str, Any]:
    """Rates of one cell, `{column: {"Exm" or "Ins": [estimate, lower, upper]}}`; a folder keeps unfinished rounds."""
    found: dict[str, Any] = {"rounds": cell.rounds}
    if cell.fewer:
        found["rounds, converged"] = cell.fewer
    for make, column in ((cell.raw, "as stated"), (cell.converged, "standardised and converged")):
        if make is None:
            continue
        folder = None if rounds is None else rounds / re.sub(r"\W+", "-", f"{key(cell)} {column}")
        rounds_of = cell.fewer if make is cell.converged and cell.fewer else cell.rounds
        result = play(make(), rounds_of, seed=20, workers=workers, folder=folder)
        first, last = result.rows[0], result.rows[-1]
        found[column] = {"Exm": astuple(first.success), "Ins": astuple(last.success)}
        found[f"{column}, warnings"] = list(result.warnings)
        if column == "as stated":
            found["ties as wins"] = {"Exm": astuple(first.success_with_ties), "Ins": astuple(last.success_with_ties)}
            if len(result.rows) == 3:
                found["absolute loss"] = {"Exm": astuple(result.rows[1].success)}
    return found


def shown(pair: dict[str, list[float]] | None) -> str:
    rates = (pair or {}).values()
    return " / ".join(f"{100 * p:.1f} ({100 * low:.1f} to {100 * high:.1f})" for p, low, high in rates)


def reaching(cell: Cell, found: dict[str, Any]) -> list[str]:
    """Of Exm and Ins, the columns that reach the published figure."""
    lists = []
    for name, published in zip(("Exm", "Ins"), cell.published or (None, None), strict=True):
        if published is None:
            lists.append("")
            continue
        lowest = clopper_pearson(round(10 * published), 1000).lower
        hits = [c for c in COLUMNS if name in found.get(c, {}) and found[c][name][0] >= lowest]
        lists.append(", ".join(hits) or "none")
    return lists


def within(cell: Cell, found: dict[str, Any], name: str) -> str:
    """The columns whose own interval holds the published figure, which few rounds leave wide."""
    published = dict(zip(("Exm", "Ins"), cell.published or (), strict=False))[name]
    near = [c for c in COLUMNS if name in found.get(c, {}) and 100 * found[c][name][2] >= published]
    return f"; the published figure lies in the interval of: {', '.join(near)}" if near else ""


def explains(why: str, reached: list[str]) -> bool:
    """Whether the column that a sentence names reaches a published figure that the rounds as stated do not."""
    missed = [one for one in reached if "as stated" not in one.split(", ")]
    return any(FITS.get(why, "none") in one.split(", ") for one in missed)


def page(kept: dict[str, Any]) -> str:
    lines = [INTRODUCTION]
    for section in LISTED:
        rows, notes = [], []
        for cell in (c for c in cells() if c.section == section):
            published = "" if cell.published is None else " / ".join(f"{p:.1f}" for p in cell.published)
            found = kept.get(key(cell))
            start = [cell.data, cell.learner, published]
            if found is None:
                rows.append([*start, "not run"] + [""] * (len(HEADINGS) - 4))
                if cell.absent:
                    notes.append((cell.data, cell.absent))
                continue
            reached = reaching(cell, found)
            rounds = f"{found['rounds']}" + (f", converged {n}" if (n := found.get("rounds, converged")) else "")
            values = [rounds, *(shown(found.get(c)) for c in COLUMNS), *reached]
            rows.append(start + values)
            where = f"{cell.data}, {cell.learner}"
            if cell.why and (cell.published is None or cell.why in (HUNDRED, LIBLINEAR) or explains(cell.why, reached)):
                notes.append((where, cell.why))
            short = [name for name, r in zip(("Exm", "Ins"), reached, strict=True) if r == "none"]
            notes += [(where, f"no column reaches {name}{within(cell, found, name)}.") for name in short]
            for column in (name for name in found if name.endswith(", warnings")):
                notes += [(where, f"{column.removesuffix(', warnings')}: {said}.") for said in found[column]]
        lines += [f"## {section}", "", table(HEADINGS, rows, words=len(HEADINGS)), ""]
        lines += [*dict.fromkeys(f"* {where}: {why}" for where, why in notes), ""]
    return "\n".join([*lines, batch_page(kept), more_page(kept)])


STUDY = Study(__file__, page)


def main() -> None:
    parser = STUDY.parser(__doc__, minutes=20.0)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--rounds", type=Path)
    given = STUDY.given(parser)
    wanted = [c for c in cells(given.mnist) if c.raw or c.converged]
    tasks = {key(c): (lambda c=c: played(c, given.workers, given.rounds)) for c in wanted}
    tasks = {**{name: (lambda make=make: make(given.workers)) for name, make in MORE.items()}, **tasks}
    tasks |= batches(given.mnist, given.workers, given.rounds)
    draw(add_missing(STUDY, tasks, given.words, 60 * given.minutes), HERE / FIGURE)


if __name__ == "__main__":
    main()
