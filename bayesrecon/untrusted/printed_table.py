"""A table as somebody printed it: CSV, Markdown, HTML, LaTeX, cells between tabs, or lines of text."""

import re
from html.parser import HTMLParser
from itertools import accumulate
from pathlib import Path
from typing import TypedDict

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.csv_table import rows_of

MOST_BYTES = 2**24
_MOST_ROWS, _MOST_CELLS = 20_000, 400_000  # of all tables of a file: more are data, no estimates
_LONGEST = 10_000  # letters of a cell or of a line of text
_RULE = re.compile(r"[\s|:+=_-]*$")  # lines that are drawn
_BLANK = re.compile(r"\s+\|\s*$")  # line that ends a block of Stata's
_TABBED = 3  # lines with tabs, from which on a text is a table that was copied from a document

_COMMENT = re.compile(r"(?<!\\)%.*")
_TABULAR = re.compile(r"\\(begin|end)\{(?:tabular[xy*]?|longtable|tblr|talltblr)\}")
_RULES = re.compile(r"\\(?:(?:top|mid|bottom|cmid)rule|hline|cline)(?:\[[^\]]*\]|\([^)]*\)|\{[^{}]*\})*")
_MERGED = re.compile(r"\\multicolumn\s*\{(\d{1,2})\}\s*\{(?:[^{}]|\{[^{}]*\})*\}")
_SPACE = re.compile(r"\\(?:[hv]space\*?\s*\{[^{}]*\}|[,;:! ]|quad\b)|(?<!\\)~")
_COMMAND = re.compile(r"\\[A-Za-z]+\*?\s*|\\(?=[^A-Za-z])|(?<!\\)[{}$^]")


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
    if suffix == ".tex":
        return _of_latex(text)
    lines = text.splitlines()
    tabbed = [line for line in lines if "\t" in line.strip()]
    if len(tabbed) >= max(_TABBED, len(lines) // 2):
        grid = [[cell.strip() for cell in line.split("\t")] for line in tabbed]
        return [grid], [line.strip() for line in lines if line.strip() and line not in tabbed]
    piped = [line for line in lines if line.strip().startswith("|") and line.count("|") > 1]
    if piped:
        grid = [[c.strip().strip("*`") for c in _split(line)] for line in piped if not _RULE.match(line)]
        return [grid], [line.strip() for line in lines if line.strip() and line not in piped]
    return [], [line.rstrip() for line in lines if line.strip() and (not _RULE.match(line) or _BLANK.match(line))]


def _of_latex(text: str) -> tuple[list[list[list[str]]], list[str]]:
    r"""The cells of all tables of a LaTeX file, and the lines beside them.

    >>> _of_latex(r"\begin{tabular}{lc} \toprule age & 0.06$^{***}$ \\ & (0.01) \\ \end{tabular} 9 \% left")
    ([[['age', '0.06***'], ['', '(0.01)']]], ['9 % left'])
    """
    outside, *pieces = _TABULAR.split(_COMMENT.sub("", text))
    lines, grids = [outside], []
    for kind, piece in zip(pieces[::2], pieces[1::2], strict=True):
        if kind == "end":
            lines.append(piece)
            continue
        rows = re.split(r"\\\\(?:\[[^\]]*\])?", _RULES.sub(" ", _after_columns(piece)))
        grid = [[cell for text in re.split(r"(?<!\\)&", row) for cell in _merged(text)] for row in rows]
        grids.append([row for row in grid if any(row)])
    words = (_latex_words(line) for text in lines for line in text.splitlines())
    return [grid for grid in grids if grid], [line for line in words if line]


def _after_columns(body: str) -> str:
    """What follows the arguments with which a table begins: its width, its place and the kinds of its columns."""
    while (begun := body.lstrip()) and begun[0] in "{[":
        depths = accumulate((letter in "{[") - (letter in "}]") for letter in begun)
        body = begun[next((i for i, depth in enumerate(depths) if not depth), len(begun)) + 1 :]
    return body


def _merged(cell: str) -> list[str]:
    """The words of a cell, and empty cells where it takes the width of several."""
    width = int(match[1]) if (match := _MERGED.search(cell)) is not None else 1
    return [_latex_words(_MERGED.sub("", cell)), *[""] * (width - 1)]


def _latex_words(text: str) -> str:
    return " ".join(_COMMAND.sub("", _SPACE.sub(" ", text)).split())


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
