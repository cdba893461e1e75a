"""A table as somebody printed it: CSV, Markdown, HTML, or lines of text."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import TypedDict

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.delimiters import rows_of

MOST_BYTES = 2**24
_MOST_ROWS, _MOST_CELLS = 20_000, 400_000  # of all tables of a file: more are data, no estimates
_LONGEST = 10_000  # letters of a cell or of a line of text
_RULE = re.compile(r"[\s|:+=_-]*$")  # lines that are drawn


class PrintedText(TypedDict):
    """`grids`, the cells of each table, row by row; and `lines` of text beside them."""

    grids: list[list[list[str]]]
    lines: list[str]


def printed_text(path: Path) -> PrintedText:
    """`grids`, the cells of each table in the file, and `lines` of text beside them.

    Raises:
        BayesreconError: more than 16 MiB, what is no text, or more cells than a table of estimates has.

    >>> _ = Path("fit.md").write_text("| term | coef | se |\\n|---|---|---|\\n| age | 0.61 | 0.06 |\\n\\nN = 434\\n")
    >>> printed_text(Path("fit.md"))
    {'grids': [[['term', 'coef', 'se'], ['age', '0.61', '0.06']]], 'lines': ['N = 434']}
    """
    if path.stat().st_size > MOST_BYTES:
        raise BayesreconError(f"{path}: more than {MOST_BYTES // 2**20} MiB, too large for a table of estimates")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BayesreconError(f"{path}: a table is text in UTF-8, and this is none") from None
    grids, lines = in_text(text, path.suffix.lower())
    if sum(map(len, grids)) > _MOST_ROWS or sum(len(r) for g in grids for r in g) > _MOST_CELLS:
        raise BayesreconError(f"{path}: so many cells are no table of estimates")
    cells = (cell for grid in grids for row in grid for cell in row)
    if any(len(text) > _LONGEST for texts in (cells, lines) for text in texts):
        raise BayesreconError(f"{path}: a cell or line of more than {_LONGEST} letters is none of estimates")
    return {"grids": grids, "lines": lines}


def in_text(text: str, suffix: str) -> tuple[list[list[list[str]]], list[str]]:
    """The cells of each table of a text, and its other lines.

    >>> in_text("a,b\\n1,2\\n", ".csv")
    ([[['a', 'b'], ['1', '2']]], [])
    """
    if suffix in (".html", ".htm"):
        return _of_html(text)
    if suffix == ".csv":
        return [[[cell.strip() for cell in row] for row in rows_of(text) if any(cell.strip() for cell in row)]], []
    lines = text.splitlines()
    piped = [line for line in lines if line.strip().startswith("|") and line.count("|") > 1]
    if piped:
        grid = [[c.strip().strip("*`") for c in _split(line)] for line in piped if not _RULE.match(line)]
        return [grid], [line.strip() for line in lines if line.strip() and line not in piped]
    return [], [line.rstrip() for line in lines if line.strip() and not _RULE.match(line)]


def _split(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip())
    return [cell.replace(r"\|", "|") for cell in cells[1 : -1 if line.strip().endswith("|") else None]]


def _of_html(text: str) -> tuple[list[list[list[str]]], list[str]]:
    parser = _Cells()
    parser.feed(text)
    parser.close()
    return [[row for row in grid if any(row)] for grid in parser.grids if grid], parser.lines


class _Cells(HTMLParser):
    """Texts of the cells of all tables; what scripts and styles hold is none."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.grids: list[list[list[str]]] = []
        self.lines: list[str] = []
        self._cell: list[str] | None = None
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._hidden += 1
        elif tag == "table":
            self.grids.append([])
        elif tag == "tr" and self.grids:
            self.grids[-1].append([])
        elif tag in ("td", "th") and self.grids:
            if not self.grids[-1]:
                self.grids[-1].append([])
            self._close()
            self._cell = []
            wide = dict(attrs).get("colspan") or "1"
            self._wide = min(int(wide), 100) if wide.isdigit() else 1
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._hidden = max(self._hidden - 1, 0)
        elif tag in ("td", "th", "tr", "table"):
            self._close()

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._cell is not None:
            self._cell.append(data)
        elif data.strip():
            self.lines.append(data.strip())

    def _close(self) -> None:
        if self._cell is not None and self.grids and self.grids[-1]:
            text = " ".join("".join(self._cell).split())
            self.grids[-1][-1].extend([text] + [""] * (self._wide - 1))
        self._cell = None
