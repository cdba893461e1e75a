"""Rows of CSV whose delimiter is a comma, a semicolon or a tab."""

import csv
import re

# Semicolons are what spreadsheets write where the comma is the decimal sign, and tabs what is copied from them.
_SIGNS = ",;\t"
_DECIMAL_COMMA = re.compile(r"[-+\u2212]?\d+,\d+")


def rows_of(text: str) -> list[list[str]]:
    """The rows of a text. Unless the delimiter is a comma, decimal commas become points.

    >>> rows_of("term;estimate;std. error\\nage;0,61;0,06\\n")
    [['term', 'estimate', 'std. error'], ['age', '0.61', '0.06']]
    >>> rows_of('term,OR,95% CI\\nage,1.5,"1.2; 1.9"\\n')[1]
    ['age', '1.5', '1.2; 1.9']
    """
    lines = text.splitlines()
    delimiter = _delimiter_of([line for line in lines if line.strip()])
    rows = list(csv.reader(lines, delimiter=delimiter, skipinitialspace=True))
    if delimiter == ",":
        return rows
    return [[c.replace(",", ".") if _DECIMAL_COMMA.fullmatch(c.strip()) else c for c in row] for row in rows]


def most_in(header: str) -> str:
    """The most frequent delimiter of a header; a comma if there is none.

    >>> most_in("age;dose, mg;place")
    ';'
    """
    return max(_SIGNS, key=header.count)


def _delimiter_of(lines: list[str]) -> str:
    """The delimiter of the first line with one, if at least half of the lines have it, unlike that of a title."""
    sign = most_in(next((line for line in lines if any(sign in line for sign in _SIGNS)), ""))
    return sign if 2 * sum(sign in line for line in lines) >= len(lines) else ","
