"""A table as CSV with a header. The delimiter is a comma, a semicolon or a tab."""

import csv
import re
from pathlib import Path
from typing import TypedDict

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.names import MAX_NAMES

_LONGEST = 2**26  # largest size of a header, in bytes
_QUOTED = re.compile(rb'(?<=[,;\t\n\r])"[^"]*(?:""[^"]*)*"')  # a quote opens a cell only where the cell begins
_DECIMAL_COMMA, _DECIMAL_POINT = re.compile(rb"\d,\d"), re.compile(rb"\d\.\d")


class CsvFormat(TypedDict):
    """Keyword arguments of `pandas.read_csv`."""

    sep: str
    decimal: str


class CsvTexts(TypedDict):
    """The first column as names of `rows`, names of the other `columns`, and the `cells` row by row."""

    rows: list[str]
    columns: list[str]
    cells: list[list[str]]


def read_csv_columns(path: Path) -> dict[str, np.ndarray | list[object]]:
    """A dictionary from names to columns: arrays of numbers, or lists of texts in which empty cells are NaN.

    Raises:
        BayesreconError: more columns than `MAX_NAMES`, or a header of more than 64 MiB.

    >>> _ = Path("table.csv").write_text('y,"name\\nof it"\\n1,Ann\\n2,\\n')
    >>> read_csv_columns(Path("table.csv"))
    {'y': array([1, 2]), 'name\\nof it': ['Ann', nan]}
    >>> _ = Path("table.csv").write_text("age;dose\\n41;0,5\\n17;1,25\\n")
    >>> read_csv_columns(Path("table.csv"))
    {'age': array([41, 17]), 'dose': array([0.5 , 1.25])}
    """
    import pandas as pd

    frame = pd.read_csv(path, **_checked_header(path))
    return {str(name): _values(frame.iloc[:, k].to_numpy()) for k, name in enumerate(frame.columns)}


def read_csv_texts(path: Path) -> CsvTexts:
    """The text of the table: the first column as names of `rows`, names of the other `columns`, and the `cells`.

    Raises:
        BayesreconError: as `read_csv_columns`.
    """
    import pandas as pd

    delimiter = _checked_header(path)["sep"]
    frame = pd.read_csv(path, sep=delimiter, dtype=str, index_col=0, keep_default_na=False, skipinitialspace=True)
    cells = [[str(cell) for cell in row] for row in frame.to_numpy(object)]
    return {"rows": [str(r) for r in frame.index], "columns": [str(c) for c in frame.columns], "cells": cells}


def _checked_header(path: Path) -> CsvFormat:
    """The delimiter and the decimal sign, as keyword arguments of `pandas.read_csv`.

    They are inferred from the header and the text after it. A quoted name may contain delimiters and line ends, so
    quoted names are removed first.
    """
    with path.open("rb") as file:
        head = file.read(_LONGEST)
    bare = _QUOTED.sub(b"", b"\n" + head.lstrip(b"\r\n\xef\xbb\xbf"))[1:]
    header = re.split(rb"[\r\n]", bare, maxsplit=1)
    sep = most_in(header[0].decode("latin-1"))  # the delimiters are ASCII in every encoding
    if len(header) < 2 and len(head) == _LONGEST:
        raise BayesreconError(f"{path}: a header of more than {_LONGEST // 2**20} MiB, refused")
    if (count := header[0].count(sep.encode()) + 1) > MAX_NAMES:
        raise BayesreconError(f"{path}: {count} columns, more than {MAX_NAMES}")
    comma = sep != "," and _DECIMAL_COMMA.search(header[-1]) and not _DECIMAL_POINT.search(header[-1])
    return {"sep": sep, "decimal": "," if comma else "."}


def _values(column: object) -> np.ndarray | list[object]:
    values = np.asarray(column)
    if not values.dtype.hasobject:
        return values
    return [value.item() if isinstance(value, np.generic) else value for value in values.tolist()]


# Semicolons are what spreadsheets write where the comma is the decimal sign, and tabs what is copied from them.
_SIGNS = ",;\t"
_WITH_COMMA = re.compile(r"[-+\u2212]?\d+,\d+")


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
    return [[c.replace(",", ".") if _WITH_COMMA.fullmatch(c.strip()) else c for c in row] for row in rows]


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
