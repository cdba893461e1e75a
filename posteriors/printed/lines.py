"""Lines of text as the cells of a regression table, and the numbers that stand around it."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from bayesrecon.posteriors.printed.headers import (
    ERROR,
    ESTIMATE,
    FOOTERS,
    LOWER,
    RATIO,
    UPPER,
    columns_of,
    plain,
)

NUMBER = r"[-\u2212\u2013+]?(?:(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
"""A number as packages print it."""

_OTHERS = (
    "t value",
    "z value",
    "t-value",
    "z-value",
    "t-statistic",
    "t-stat",
    "t stat",
    "z statistic",
    "p>|t|",
    "p>|z|",
    "pr(>|t|)",
    "pr(>|z|)",
    "pr > |t|",
    "pr > chisq",
    "wald chi-square",
    "p-value",
    "p value",
    "t ratio",
    "exp(coef)",
)
_TWO = "[95% conf interval]"
_WORDS = sorted({*ESTIMATE, *ERROR, *RATIO, *LOWER, *UPPER, *_OTHERS, _TWO}, key=len, reverse=True)
_HEADER = re.compile("|".join(rf"(?<!\S){re.escape(word)}(?!\S)" for word in _WORDS) + r"|\S+")
_TOKEN = re.compile(rf"(?:<\s?)?(?:{NUMBER}|NA|NaN|nan|\.)[*\u2020]*$")
_CELL = re.compile(rf"(?<!\S)(?:[(\[]\s*{NUMBER}(?:\s*[,;]\s*{NUMBER})?\s*[)\]]|{NUMBER})[*\u2020]*(?!\S)")
_BLOCK = re.compile(r"\s*([A-Za-z]\w*)\s*\|\s*$")  # Stata's line above those of the levels of a factor
_STARS = re.compile(r"(?<=[\d.])\s+[*.\u2020]{1,4}\s*$")
_NAMES = sorted(((word, name) for name, words in FOOTERS.items() for word in words), key=lambda p: -len(p[0]))
_ON = re.compile(rf"residual standard error:?\s*({NUMBER})\s+on\s+(\d+)\s+degrees", re.IGNORECASE)
_F_ON = re.compile(rf"f-statistic:?\s*({NUMBER})\s+on\s+(\d+)\s+and\s+(\d+)\s+df", re.IGNORECASE)


def grid_of(lines: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The table among some lines, with its header, and the other lines.

    >>> grid_of(["            Estimate Std. Error t value", "(Intercept)  5.0320     0.2202  22.85", "R-squared: 0.9"])
    ([['', 'estimate', 'std error', 't value'], ['(Intercept)', '5.0320', '0.2202', '22.85']], ['R-squared: 0.9'])
    """
    for at, line in enumerate(lines):
        header = _header(line)
        if header is None:
            continue
        grid, rest, factor = [header], list(lines[:at]), ""
        for row in lines[at + 1 :]:
            cells = _row(row, len(header) - 1)
            if cells is None:
                rest.append(row)
                factor = block[1] if (block := _BLOCK.match(row)) is not None else ""
            else:
                grid.append([f"{factor}={cells[0]}" if factor else cells[0], *cells[1:]])
        if len(grid) > 1:
            return grid, rest
    return [], list(lines)


def models_of(lines: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The table of models side by side whose errors stand in brackets below the estimates, and the other lines.

    Cells belong to the column whose middle is nearest; columns are where the line with most brackets has them.

    >>> lines = ["        (1)     (2)", "const 1.20**  1.40***", "      (0.40)   (0.30)", "N       30      30"]
    >>> models_of(lines)[0]
    [['', '(1)', '(2)'], ['const', '1.20**', '1.40***'], ['', '(0.40)', '(0.30)'], ['N', '30', '30']]
    """
    lines = [line.expandtabs() for line in lines]
    rows = [(label, cells) for label, cells in map(_cells, lines)]
    bare = [not label and bool(cells) and all(text[0] in "([" for _, text in cells) for label, cells in rows]
    starts = [
        i
        for i, (label, cells) in enumerate(rows[:-1])
        if label and cells and bare[i + 1] and cells[0][1][0] not in "(["
    ]
    if not starts:
        return [], lines
    middles = max(
        (cells for (_, cells), empty in zip(rows[starts[0] :], bare[starts[0] :], strict=True) if empty), key=len
    )
    places = [at for at, _ in middles]
    edge = places[0] - (min(b - a for a, b in pairwise(places)) / 2 if len(places) > 1 else places[0] / 2)
    above = next((i for i in range(starts[0] - 1, -1, -1) if re.search(r"\w", lines[i])), None)
    names = [] if above is None else [(m.start() + len(m[0]) / 2, m[0]) for m in re.finditer(r"\S+", lines[above])]
    grid, rest = [["", *_placed(names, places)]], [line for i, line in enumerate(lines[: starts[0]]) if i != above]
    for line in lines[starts[0] :]:
        label, cells = _cells(line, edge)
        if cells and (label or all(text[0] in "([" for _, text in cells)):
            grid.append([label, *_placed(cells, places)])
        else:
            rest.append(line)
    return grid, rest


def _cells(line: str, edge: float = 0.0) -> tuple[str, list[tuple[float, str]]]:
    """The label of a line, and its cells beyond an edge with where their middles are."""
    cells = [(m.start() + len(m[0]) / 2, m[0], m.start()) for m in _CELL.finditer(line)]
    cells = [cell for cell in cells if cell[0] > edge]
    label = line[: cells[0][2]] if cells else line
    return label.strip(), [(at, text) for at, text, _ in cells]


def _placed(cells: Sequence[tuple[float, str]], places: Sequence[float]) -> list[str]:
    """The first cell of each column."""
    row = [""] * len(places)
    for at, text in cells:
        k = min(range(len(places)), key=lambda k: abs(places[k] - at))
        row[k] = row[k] or text
    return row


def _header(line: str) -> list[str] | None:
    """Names of the columns of a line that can be a header, the lines' own first."""
    begin, bar, end = line.partition("|")
    text = plain(
        end if bar and not plain(begin).startswith("p>") and "(>" not in begin and len(begin.split()) < 2 else line
    )
    words = [match[0] for match in _HEADER.finditer(text)]
    known = {*ESTIMATE, *RATIO}
    first = next((i for i, word in enumerate(words) if word in known), None)
    if first is None:
        return None
    names = ["", *words[first:]]
    if _TWO in names:
        at = names.index(_TWO)
        names[at : at + 1] = [LOWER[0], UPPER[0]]
    return names if columns_of(names).enough else None


def _row(line: str, count: int) -> list[str] | None:
    words = _STARS.sub("", line.replace("|", " ")).replace("< ", "<").split()
    if len(words) <= count or not all(_TOKEN.match(word) for word in words[-count:]):
        return None
    return [" ".join(words[:-count]), *words[-count:]]


def footers_of(lines: Iterable[str]) -> dict[str, str]:
    """Numbers of a fit that stand beside its table, by the names of `FOOTERS`.

    >>> footers_of(["Residual standard error: 0.6232 on 27 degrees of freedom", "No. Observations:    30  AIC:  61.6"])
    {'sigma': '0.6232', 'freedom': '27', 'n': '30', 'aic': '61.6'}
    """
    result: dict[str, str] = {}
    for line in lines:
        if (match := _ON.search(line)) is not None:
            result.setdefault("sigma", match[1])
            result.setdefault("freedom", match[2])
        if (match := _F_ON.search(line)) is not None:
            result.setdefault("f", match[1])
            result.setdefault("freedom", match[3])
        text = re.sub(r"\s+", " ", line.lower().replace("_", " "))
        for word, name in _NAMES:
            if len(word) < 2 and not text.startswith(word):
                continue
            label = re.escape(word).replace(r"\ ", r"\.?\s*")
            match = re.search(
                rf"(?<![\w.(-])(?<!adj )(?<!adj\. )(?<!adjusted ){label}\s*[:=]\s*({NUMBER})(?![\w(])", text
            )
            if match is not None and name not in result:
                result[name] = match[1].rstrip(".,")
    return result
