"""What five papers print, beside what our programs measured, as the page benchmarks/PAPERS.md.

python -m benchmarks.papers

Nothing is measured here: the cells are made of the rows of all programs.
"""

from collections import Counter
from typing import Any

from benchmarks.deletion.hrec_papers import cells as hrec
from benchmarks.draws.central_papers import cells as central
from benchmarks.games.deletion_papers import cells as deletion
from benchmarks.games.vicious_papers import cells as vicious
from benchmarks.paper_cells import AGREES, STATES, Cell, reason, state
from benchmarks.study import Study, table

PAPERS = {
    "central": "Wynne 2025, On Reconstructing Training Data From Bayesian Posteriors and Trained Models",
    "hrec": "Bertran et al. 2024, Reconstruction Attacks on Machine Unlearning",
    "deletion": "Gao et al. 2022, Deletion Inference, Reconstruction, and Compliance, and its workshop version",
    "vicious": "Malekzadeh and Gunduz 2024, Vicious Classifiers",
    "memory": "Haim et al. 2022, Buzaglo et al. 2023, Loo et al. 2023, Balle et al. 2022: what trained models remember",
}
INTRODUCTION = """# What the papers print, beside ours

Made by `python -m benchmarks.papers` from the rows of all programs. A cell is one printed figure or claim. *Ours*
follows the protocol of the paper as far as the paper states it, with its 95 % interval.

* *agrees*: the interval of ours holds the printed figure. Without an interval, all printed digits are the same up to
  one unit of the last. A bound agrees if the interval has a value on its side.
* *differs*: it does not. The reason is one that rows show: a reading of the protocol under which ours reaches the
  printed figure, with its result, or sampling errors of both. "Not known" says what was tried in vain.
* *not comparable*: ours is of other data or of another size, or the paper prints no figure.
* *no data*: the data set is not to be had.
"""


def all_cells() -> list[Cell]:
    return [*central(), *hrec(), *deletion(), *vicious()]


def page(cells: list[Cell]) -> str:
    """One line a piece with the number of its cells in each state, and one line a cell."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for cell in cells:
        counts.setdefault((cell.paper, cell.piece), Counter())[state(cell)] += 1
    total = sum(counts.values(), Counter())
    lines = [INTRODUCTION, table(("", *STATES), [["all cells", *(total[name] for name in STATES)]]), ""]
    for paper, title in PAPERS.items():
        own = {piece: count for (of, piece), count in counts.items() if of == paper}
        rows = [[piece, *(count[name] for name in STATES)] for piece, count in own.items()]
        lines += [f"## {title}", "", table(("piece", *STATES), rows), ""]
        head = ("piece", "cell", "printed", "ours", "interval", "state")
        lines += [table(head, [_row(cell) for cell in cells if cell.paper == paper], len(head)), ""]
    return "\n".join(lines)


def _row(cell: Cell) -> list[str]:
    ends = "" if cell.interval is None else "{:g} to {:g}".format(*cell.interval)
    said = state(cell) if state(cell) == AGREES else f"{state(cell)}: {reason(cell)}"
    ours = "" if cell.ours is None else f"{cell.ours:g}" if isinstance(cell.ours, float) else str(cell.ours)
    return [text.replace("|", "/") for text in (cell.piece, cell.name, cell.printed, ours, ends, said)]


class _OfOthers(Study):
    """A study whose rows are those of the others."""

    def __init__(self, file: str) -> None:
        super().__init__(file, page)
        self.program = "benchmarks.papers"

    def kept(self) -> Any:
        return all_cells()


STUDY = _OfOthers(__file__)


def main() -> None:
    STUDY.given(STUDY.parser(__doc__))
    STUDY.write()


if __name__ == "__main__":
    main()
