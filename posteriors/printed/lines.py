"""Lines of text as the cells of a regression table, and the numbers that stand around it."""

import re
from collections.abc import Iterable, Sequence

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
        grid, rest = [header], list(lines[:at])
        for row in lines[at + 1 :]:
            cells = _row(row, len(header) - 1)
            if cells is None:
                rest.append(row)
            else:
                grid.append(cells)
        if len(grid) > 1:
            return grid, rest
    return [], list(lines)


def _header(line: str) -> list[str] | None:
    """Names of the columns of a line that can be a header, the lines' own first."""
    begin, bar, end = line.partition("|")
    text = plain(
        end if bar and not plain(begin).startswith("p>") and "(>" not in begin and len(begin.split()) < 2 else line
    )
    found = [match[0] for match in _HEADER.finditer(text)]
    known = {*ESTIMATE, *RATIO}
    first = next((i for i, word in enumerate(found) if word in known), None)
    if first is None:
        return None
    names = ["", *found[first:]]
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
    {'sigma': '0.6232', 'freedom': '27', 'n': '30'}
    """
    found: dict[str, str] = {}
    for line in lines:
        if (match := _ON.search(line)) is not None:
            found.setdefault("sigma", match[1])
            found.setdefault("freedom", match[2])
        if (match := _F_ON.search(line)) is not None:
            found.setdefault("f", match[1])
            found.setdefault("freedom", match[3])
        text = re.sub(r"\s+", " ", line.lower().replace("_", " "))
        for word, name in _NAMES:
            if len(word) < 2 and not text.startswith(word):
                continue
            label = re.escape(word).replace(r"\ ", r"\.?\s*")
            match = re.search(
                rf"(?<![\w.(-])(?<!adj )(?<!adj\. )(?<!adjusted ){label}\s*[:=]\s*({NUMBER})(?![\w(])", text
            )
            if match is not None and name not in found:
                found[name] = match[1].rstrip(".,")
    return found
