"""Tables that are safe to open in a spreadsheet. Names come from files, and a cell may contain a formula."""

from typing import TYPE_CHECKING

from bayesrecon.errors import visible

if TYPE_CHECKING:
    from pandas import DataFrame

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters by which a spreadsheet recognises a formula."""


def as_cells(table: "DataFrame") -> "DataFrame":
    """A copy of a table whose texts are safe: no formulas, and no control characters for a terminal.

    This applies to cells, index and columns.

    >>> import pandas as pd
    >>> print(as_cells(pd.DataFrame({"name": ["=1+1", "mu"], "n": [-1, 2]})).to_csv(index=False), end="")
    name,n
    '=1+1,-1
    mu,2
    """
    result = table.copy()
    for k in range(result.shape[1]):
        column = result.iloc[:, k]
        if column.dtype.kind == "O" or str(column.dtype).startswith("str"):
            result.isetitem(k, column.map(_cell))
    result.index, result.columns = result.index.map(_cell), result.columns.map(_cell)
    return result


def _cell(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_cell, value))
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
