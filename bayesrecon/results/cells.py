"""Tables that are safe to open in a spreadsheet. Names come from files, and a cell may contain a formula."""

from typing import Any

from bayesrecon.errors import visible

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula."""


def as_cells(table: Any) -> Any:
    """A copy of a DataFrame with all texts made safe: no formulas, and no control characters for a terminal.

    This applies to cells, index and columns.

    >>> import pandas as pd
    >>> print(as_cells(pd.DataFrame({"name": ["=1+1", "mu"], "n": [-1, 2]})).to_csv(index=False), end="")
    name,n
    '=1+1,-1
    mu,2
    """
    found = table.copy()
    for k in range(found.shape[1]):
        column = found.iloc[:, k]
        if column.dtype.kind == "O" or str(column.dtype).startswith("str"):
            found.isetitem(k, column.map(_cell))
    found.index, found.columns = found.index.map(_cell), found.columns.map(_cell)
    return found


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_cell, value))
    if not isinstance(value, str):
        return value
    text = visible(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
