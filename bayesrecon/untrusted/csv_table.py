"""A table as CSV with a header, apart by commas, semicolons or tabs."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.delimiters import most_in
from bayesrecon.untrusted.names import MAX_NAMES

_LONGEST = 2**26  # bytes of a header
_QUOTED = re.compile(rb'(?<=[,;\t\n\r])"[^"]*(?:""[^"]*)*"')  # a quote opens a cell only where the cell begins
_DECIMAL_COMMA, _DECIMAL_POINT = re.compile(rb"\d,\d"), re.compile(rb"\d\.\d")


class CsvTable:
    """A file of columns.

    >>> _ = Path("table.csv").write_text('y,"name\\nof it"\\n1,Ann\\n2,\\n')
    >>> CsvTable(Path("table.csv")).columns()
    {'y': array([1, 2]), 'name\\nof it': ['Ann', nan]}
    >>> _ = Path("table.csv").write_text("age;dose\\n41;0,5\\n17;1,25\\n")
    >>> CsvTable(Path("table.csv")).columns()
    {'age': array([41, 17]), 'dose': array([0.5 , 1.25])}
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def close(self) -> None:
        """Nothing is held open."""

    def columns(self) -> dict[str, Any]:
        """Columns by their names: arrays of numbers, and lists of texts in which NaN is nothing.

        Raises:
            BayesreconError: more columns than `MAX_NAMES`, or a header of more than 64 MiB.
        """
        import pandas as pd

        frame = pd.read_csv(self._path, **self._checked_header())
        return {str(name): _values(frame.iloc[:, k].to_numpy()) for k, name in enumerate(frame.columns)}

    def texts(self) -> dict[str, Any]:
        """The cells as they stand: names of the `rows` from the first column, names of the other `columns`, `cells`.

        Raises:
            BayesreconError: as `columns`.
        """
        import pandas as pd

        delimiter = self._checked_header()["sep"]
        how = {"dtype": str, "index_col": 0, "keep_default_na": False, "skipinitialspace": True}
        frame = pd.read_csv(self._path, sep=delimiter, **how)
        cells = [[str(cell) for cell in row] for row in frame.to_numpy(object)]
        return {"rows": [str(r) for r in frame.index], "columns": [str(c) for c in frame.columns], "cells": cells}

    def _checked_header(self) -> dict[str, Any]:
        """The delimiter and the decimal sign, by the header and what follows it. A quoted name may hold commas and ends
        of lines, so that it is no line that counts."""
        with self._path.open("rb") as file:
            head = file.read(_LONGEST)
        bare = _QUOTED.sub(b"", b"\n" + head.lstrip(b"\r\n\xef\xbb\xbf"))[1:]
        header = re.split(rb"[\r\n]", bare, maxsplit=1)
        sep = most_in(header[0].decode("latin-1"))  # whose signs are those of ASCII, as in every other coding
        if len(header) < 2 and len(head) == _LONGEST:
            raise BayesreconError(f"{self._path}: a header of more than {_LONGEST // 2**20} MiB, refused")
        if (count := header[0].count(sep.encode()) + 1) > MAX_NAMES:
            raise BayesreconError(f"{self._path}: {count} columns, more than {MAX_NAMES}")
        comma = sep != "," and _DECIMAL_COMMA.search(header[-1]) and not _DECIMAL_POINT.search(header[-1])
        return {"sep": sep, "decimal": "," if comma else "."}


def _values(column: object) -> Any:
    values = np.asarray(column)
    if not values.dtype.hasobject:
        return values
    return [one.item() if isinstance(one, np.generic) else one for one in values.tolist()]
