"""Printed tables of estimates in one standard form, whatever package printed them.

Notes say how the columns were read.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bayesrecon.errors import BayesreconError, Note, reading
from bayesrecon.errors import beside as files_beside
from bayesrecon.posteriors.printed.footers import Cell
from bayesrecon.posteriors.printed.headers import (
    ERROR,
    EST,
    ESTIMATE,
    FOOTERS,
    HIGH,
    INTERCEPT,
    LOW,
    LOWER,
    OR,
    RATIO,
    SE,
    SIGMA,
    STAT,
    UPPER,
    ColumnPositions,
    columns_of,
    footer_of,
    line_label,
    plain,
)
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.printed_table import PrintedText, printed_text

if TYPE_CHECKING:
    import pandas as pd


NUMBER = r"[-\u2212\u2013+]?(?:(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d+)(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
"""A number as packages print it."""

SUFFIXES = (".csv", ".md", ".html", ".htm", ".tex", ".txt")
"""Files that may be printed tables."""

LABELS = {
    "n": "N", "freedom": "Df Residuals", "r2": "R-squared", "f": "F-statistic", "loglik": "Log-Likelihood",
    "aic": "AIC", "bic": "BIC",
}  # fmt: skip
"""Labels of footer lines in the standard form."""

BRACKETS = re.compile(
    rf"(?P<first>{NUMBER})\s*[*\u2020\u2021]*\s*[(\[]\s*(?P<second>{NUMBER})"
    rf"(?:\s*(?:,|;|to|\u2013|-)\s*(?P<third>{NUMBER}))?\s*[)\]]\s*[*\u2020\u2021]*$"
)
_BELOW = re.compile(
    rf"[(\[]\s*(?P<second>{NUMBER})(?:\s*(?:,|;|to|\u2013)\s*(?P<third>{NUMBER}))?\s*[)\]]\s*[*\u2020]*$"
)
_PAIR = re.compile(rf"[(\[]?\s*(?P<second>{NUMBER})\s*(?:,|;|to|\u2013|-)\s*(?P<third>{NUMBER})\s*[)\]]?$")
_FREEDOM = re.compile(r"\s*\(df\s*=[^)]*\)\s*$", re.IGNORECASE)  # after a number of the footer
_PLAIN = {EST, "coef", "mean", "std error", "std err", "se", "sd"}  # headers that need no note


Row = Sequence[Cell]
Grid = Sequence[Row]

T = TypeVar("T")


@dataclass(frozen=True)
class Printed:
    """A table in the standard form.

    Attributes:
        frame: a line for each coefficient and each number of the footer. Columns are `estimate` or `odds ratio`, and
            `std. error` or `lower` and `upper`. Ratios with standard errors have `statistic`, too. Cells are text as
            printed, or numbers of a DataFrame.
        notes: how the columns were read, unless their headers are plain.
        model: name of the model's column if several models stand side by side, else "".
        formula: formula of the call that R prints above, else "".
        correlations: those of the estimates that are printed below, as text; None if there are none.
    """

    frame: "pd.DataFrame"
    notes: tuple[str, ...] = ()
    model: str = ""
    formula: str = ""
    correlations: "pd.DataFrame | None" = None


def as_printed(table: object, beside: Sequence[Path] = (), column: str | None = None) -> Printed:
    """The standard form of a printed table.

    Args:
        table: the path of a file, a DataFrame, or a table in this form.
        beside: files with numbers of its footer.
        column: name or number, from 1, of one of several models side by side.
    """
    import pandas as pd

    if isinstance(table, Printed):
        return table
    if isinstance(table, pd.DataFrame):
        grid = [["", *table.columns]] + [
            [name, *row] for name, row in zip(table.index, table.to_numpy(object), strict=True)
        ]
        return _form(grid, [], _plain_headers(grid[0]), column)
    if not isinstance(table, str | Path):
        raise BayesreconError(
            f"the table: expected the path of a CSV file or another text, or a DataFrame, got a {type(table).__name__}"
        )
    path = Path(table)
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file{files_beside(path)}")
    content = read_printed(path)
    grids, lines = [rows for grid in content["grids"] if (rows := [row for row in grid if row])], content["lines"]
    for other in beside:
        content = read_printed(other)
        lines = [*lines, *content["lines"], *(" ".join(row) for grid in content["grids"] for row in grid)]
    if not grids:
        lines, related = _apart(lines)
        read = grid_of(lines)
        grid, lines = read if read[0] else models_of(lines)
        if not grid:
            raise BayesreconError(f"{path}: no line of the text is the header of a table of estimates and errors")
        form = _form(grid, lines, column=column)
        return form if related is None else _with_correlations(form, related)
    grid = max(grids, key=_readable)
    others = [" ".join(map(str, row)) for other in grids if other is not grid for row in other]
    return _form(grid, [*lines, *others], path.suffix.lower() == ".csv" and _plain_headers(grid[0]), column)


def read_printed(path: Path, description: str = "a printed table") -> PrintedText:
    """The cells of all tables of a file, `grids`, and the `lines` beside them, read by the guarded process.

    Raises:
        BayesreconError: a file that is not `description`.
    """
    with reading(path, description):
        return asked(printed_text, path)


def _plain_headers(headers: Sequence[object]) -> bool:
    columns = columns_of(headers)
    if columns.estimate is None or columns.error is None:
        return False
    return columns.enough and {plain(headers[columns.estimate]), plain(headers[columns.error])} <= _PLAIN


def _readable(grid: Grid) -> int:
    return 2 * any(columns_of(row).enough for row in grid[:40]) + any(
        BRACKETS.match(str(c)) for row in grid for c in row
    )


def _form(grid: Grid, lines: list[str], plain_headers: bool = False, column: str | None = None) -> Printed:
    import pandas as pd

    at = next((i for i, row in enumerate(grid) if columns_of(row).enough), None)
    notes: list[str] = []
    if at is not None:
        header, body = grid[at], grid[at + 1 :]
        beside = [row for row in body if str(row[0]).rstrip().endswith(":") and footer_of(str(row[0])) is None]
        body = [row for row in body if row not in beside]
        lines = [*lines, *(" ".join(map(str, row)) for row in (*grid[:at], *beside))]
        if column is not None:
            raise BayesreconError("column= chooses one of several models, but this table has one")
        model, (rows, how) = "", _of_columns(header, body, columns_of(header), every=plain_headers)
    else:
        header, body = grid[0], grid[1:]
        k, model = _model_of(header, body, column)
        rows, how = _of_model(header, body, k)
    labelled = {name for label, *_ in rows if (name := footer_of(label)) is not None}
    extra = {name: text for name, text in footers_of(lines).items() if name not in labelled}
    rows += [(LABELS[name], [text]) for name, text in extra.items() if name in LABELS]
    if "sigma" in extra and not any(plain(label) in SIGMA for label, _ in rows):
        rows.append(("sigma", [extra["sigma"]]))
    columns = how[0]
    cells = [[*values, *[""] * (len(columns) - len(values))] for _, values in rows]
    frame = pd.DataFrame(cells, [label for label, _ in rows], columns, dtype=object)
    if not len(frame) or len(frame) > _MOST_LINES:
        raise BayesreconError(f"the table has {len(frame)} rows")
    if frame.index.duplicated().any():
        raise BayesreconError(f"the table has two rows named {frame.index[frame.index.duplicated()][0]}")
    below = [f"{label} {values[0]}" for label, values in rows if footer_of(label) not in (None, "sigma")]
    if not plain_headers or below:
        listed = f"; below it {', '.join(below)}" if below else ""
        constant = [label for label, _ in rows if plain(label) in INTERCEPT]
        intercept = constant[0] if constant else "none of the lines"
        notes.append(Note(f"columns read as {how[1]}; the intercept is {intercept}{listed}"))
    return Printed(frame, tuple(notes), model, _formula_of(lines))


_Triangle = dict[str, list[str]]
"""The numbers of each line of a matrix of correlations."""

_RELATED = re.compile(r"correlations?\b.*\b(?:coefficients?|estimates|effects)\b", re.IGNORECASE)
_CORRELATION = re.compile(r"(?P<label>\S.*?)(?P<row>(?:\s+[-\u2212]?[01]?\.\d+)+)\s*$")  # counts have no point


def _apart(lines: Sequence[str]) -> tuple[list[str], _Triangle | None]:
    """The lines without a matrix of correlations of the estimates, and the matrix, which may go on below itself.

    Symbols in place of numbers are no correlations.
    """
    at = next((i for i, line in enumerate(lines) if _RELATED.search(line)), None)
    if at is None:
        return list(lines), None
    end = next((i for i in range(at + 1, len(lines)) if lines[i].rstrip().endswith(":")), len(lines))
    related: _Triangle = {}
    rest = list(lines[:at])
    for line in lines[at + 1 : end]:
        if (match := _CORRELATION.match(line.replace("|", " ").strip())) is not None:
            related.setdefault(line_label(match["label"]), []).extend(match["row"].split())
        else:
            rest.append(line)
    return [*rest, *lines[end:]], related


def _with_correlations(form: Printed, related: _Triangle) -> Printed:
    """The table with its correlations: a lower triangle with or without a diagonal, or a square."""
    import pandas as pd

    counts, labels = [len(row) for row in related.values()], list(related)
    lines = [str(label) for label, *cells in form.frame.itertuples() if len(cells) > 1 and not _empty(cells[1])]
    first = [label for label in lines if label not in related]
    if len(first) == 1 and counts == list(range(1, len(counts) + 1)):  # the first column has no line of its own
        labels, rows = [*first, *labels], [[], *related.values()]
        rows = [[*row, "1"] for row in rows]
    elif counts in (list(range(1, len(counts) + 1)), [len(counts)] * len(counts)):
        rows = list(related.values())
    else:
        rows = []
    if not rows or {*labels} != {*lines}:
        note = "the correlations of the estimates that are printed below were not read"
        return replace(form, notes=(*form.notes, f"{note}: pass them as numbers (correlations=)"))
    cells = [[*row, *[""] * (len(labels) - len(row))] for row in rows]
    return replace(form, correlations=pd.DataFrame(cells, labels, labels, dtype=object))


def _formula_of(lines: Sequence[str]) -> str:
    """The formula of a call such as `lm(formula = y ~ x, data = d)`: it ends at a comma or at the call's bracket."""
    text = " ".join(line.strip() for line in lines)
    begin = re.search(r"\bformula\s*=\s*(?=[^,()]*~)", text)
    if begin is None:
        return ""
    depth = 0
    for end in range(begin.end(), min(len(text), begin.end() + _LONGEST)):
        depth += (text[end] == "(") - (text[end] == ")")
        if depth < 0 or (not depth and text[end] == ","):
            return text[begin.end() : end]
    return ""


_LONGEST = 10_000  # letters of a formula
_MOST_LINES = 10_000  # coefficients that a table has at most

_Rows = list[tuple[str, list[Cell]]]


def _of_columns(
    header: Row, body: Grid, columns: ColumnPositions, every: bool = False
) -> tuple[_Rows, tuple[list[str], str]]:
    """The lines of a table with headed columns, the names of these columns, and a description of them.

    Args:
        every: whether all lines are coefficients. If not, some may be other text that was copied with the table.
    """
    first = OR if columns.ratio else EST
    assert columns.estimate is not None
    if columns.error is not None and not columns.ratio:
        wanted, names = [columns.estimate, columns.error], [first, SE]
    elif columns.lower is not None and columns.upper is not None:
        wanted, names = [columns.estimate, columns.lower, columns.upper], [first, LOW, HIGH]
    elif columns.both is not None:
        wanted, names = [columns.estimate, columns.both], [first, LOW, HIGH]
    elif columns.error is not None and columns.statistic is not None:
        wanted, names = [columns.estimate, columns.error, columns.statistic], [first, SE, STAT]
    else:
        raise BayesreconError(
            f"{header[columns.estimate]} are exponentials of estimates, but it is not known whether the standard "
            "errors are those of the ratios or of their logarithms; add the limits of their intervals (lower, upper), "
            "or z"
        )
    rows: _Rows = []
    for row in body:
        values = [row[i] if i < len(row) else "" for i in wanted]
        label = line_label(row[0])
        if not label or all(map(_empty, values)) or (label[0] in "_=" and label != "_cons"):
            continue
        values = [_without_marks(v) for v in values]
        if len(wanted) < len(names) and not footer_of(label):
            pair = _PAIR.match(str(values[1]).strip())
            values = [values[0], pair["second"], pair["third"]] if pair is not None else [values[0], "", ""]
        if any(not _empty(v) and isinstance(v, str) and not re.fullmatch(NUMBER, v) for v in values):
            if every or not _empty(values[1]):
                rows.append((label, values))  # which is refused with its name
            continue
        rows.append((label, values))
    description = " and ".join(
        f"{name} from {header[i]!r}" for name, i in zip((first + "s", *names[1:]), wanted, strict=False)
    )
    return rows, (names, f"{description}, limits of 95 % intervals" if LOW in names else description)


def _model_of(header: Row, body: Grid, column: str | None) -> tuple[int, str]:
    """The column of a model whose errors or intervals are in brackets, and its name if there are several models."""
    width = max((len(row) for row in body), default=0)
    columns = [k for k in range(1, width) if sum(_inside(row, k) for row in body) > 0]
    if not columns:
        listed = ", ".join(str(c) for c in header[:8])
        raise BayesreconError(f"the table has no column std. error (std error, std err, se); its columns: {listed}")
    names = [str(header[k]).strip() if k < len(header) else "" for k in columns]
    several = len(columns) > 1
    called = dict(zip(columns, names, strict=True))
    if column is not None:
        columns = _chosen(columns, names, column)
    elif len(columns) > 1:
        raise BayesreconError(
            f"the table has {len(columns)} models ({', '.join(names)}); choose one with column= (--column), or "
            "several of the same records, which are then read together"
        )
    (k,) = columns
    return k, (called[k] or f"model {list(called).index(k) + 1}") if several else ""


def _of_model(header: Row, body: Grid, k: int) -> tuple[_Rows, tuple[list[str], str]]:
    """Like `_of_columns`, for a model with errors or intervals in brackets beside or below its estimates."""
    ratio = k < len(header) and any(word in plain(header[k]).replace(",", " ").split() for word in RATIO)
    rows: _Rows = []
    pairs = False
    for row in body:
        label, text = line_label(row[0]), _FREEDOM.sub("", str(row[k])).strip() if k < len(row) else ""
        beside, below = BRACKETS.match(text), _BELOW.match(text)
        if below is not None and rows and not rows[-1][1][1:]:
            rows[-1][1].extend(filter(None, (below["second"], below["third"])))
            pairs |= below["third"] is not None
        elif beside is not None and label:
            rows.append((label, [beside["first"], *filter(None, (beside["second"], beside["third"]))]))
            pairs |= beside["third"] is not None
        elif label and re.fullmatch(NUMBER, _without_marks(text)):
            rows.append((label, [_without_marks(text)]))
    names = [OR if ratio else EST, *((LOW, HIGH) if pairs else (SE,))]
    if not pairs and any(
        float(str(v[1]).replace("\u2212", "-").replace("\u2013", "-")) < 0 for _, v in rows if len(v) > 1
    ):
        raise BayesreconError(
            "a number in brackets is negative, so these are not standard errors; supply the standard errors"
        )
    if ratio and not pairs:
        raise BayesreconError("odds ratios with a single number in brackets are not supported; supply their intervals")
    complete = [(label, values) for label, values in rows if len(values) == len(names) or footer_of(label)]
    brackets = "the limits of 95 % intervals" if pairs else "standard errors"
    return complete, (names, f"{names[0]}s, with {brackets} in brackets")


def _chosen(columns: list[int], names: list[str], column: str) -> list[int]:
    """The only column with this name, or with this number, counted from 1."""
    matches = [k for k, name in zip(columns, names, strict=True) if name == column.strip()]
    if not matches and column.strip().isdecimal() and 1 <= int(column) <= len(columns):
        matches = [columns[int(column) - 1]]
    if len(matches) != 1:
        raise BayesreconError(
            f"{len(matches) or 'no'} models of the table are called {column!r}; there are {', '.join(names)}, or 1 to "
            f"{len(names)}"
        )
    return matches


def _inside(row: Row, k: int) -> bool:
    text = str(row[k]).strip() if k < len(row) else ""
    return bool(BRACKETS.match(text) or _BELOW.match(text))


def _empty(value: Cell) -> bool:
    return (
        value is None
        or value != value
        or (isinstance(value, str) and value.strip() in ("", ".", "NA", "nan", "NaN", "—", "-", "Ref.", "Reference"))
    )


def _without_marks(value: T) -> T | str:
    """The cell without stars and without commas between thousands."""
    if not isinstance(value, str):
        return value
    text = re.sub(r"\s*[*\u2020\u2021]+$", "", value.strip())
    text = text.replace("\u2212", "-").replace("\u2013", "-") if re.fullmatch(NUMBER, text) else text
    return text.replace(",", "") if re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?", text) else text


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
