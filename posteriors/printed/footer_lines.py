"""Separation of a printed regression table into coefficients and footer."""

from typing import TYPE_CHECKING, Any

from bayesrecon.posteriors.printed.footers import Footer
from bayesrecon.posteriors.printed.headers import SIGMA, footer_of, plain
from bayesrecon.posteriors.printed.numbers import Cell, numbers_of

if TYPE_CHECKING:
    import pandas as pd

_SIGMA = "sigma"


def without_footer(frame: "pd.DataFrame") -> "tuple[pd.DataFrame, Footer]":
    """The lines of coefficients of a table in the standard form (`reading.Printed`), and the numbers of its footer.

    The line of the residual standard error is named `sigma`.

    >>> import pandas as pd
    >>> rows = [["1.5", "0.1"], ["0.7", ""], ["30", ""]]
    >>> labels = ["const", "Residual Std. Error", "N"]
    >>> lines, footer = without_footer(pd.DataFrame(rows, labels, ["estimate", "std. error"]))
    >>> list(lines.index), footer.n
    (['const', 'sigma'], 30.0)
    """
    first, second = frame.columns[:2]
    names = [
        footer_of(label) if _empty(value) else None for label, value in zip(frame.index, frame[second], strict=True)
    ]
    entries: dict[str, Any] = {}
    for name, text in zip(names, frame[first], strict=True):
        if name is None or name == _SIGMA:
            continue
        numbers = numbers_of([text])
        if name in ("n", "freedom"):
            entries[name] = float(numbers.values[0])
        else:
            entries[name] = float(numbers.values[0]), float(numbers.half[0])
    lines = frame.loc[[name in (None, _SIGMA) for name in names]]
    renamed = [
        _SIGMA if name == _SIGMA and plain(label) in SIGMA else label
        for name, label in zip(names, frame.index, strict=True)
        if name in (None, _SIGMA)
    ]
    return lines.set_axis(renamed, axis=0), Footer(**entries)


def with_scale(frame: "pd.DataFrame", footer: Footer) -> "pd.DataFrame":
    """The table with an empty line `sigma`, if it has none and the footer determines the number of records."""
    labels = [plain(label) for label in frame.index]
    if any(label in SIGMA[:-1] for label in labels) or footer.records(len(labels)) is None:
        return frame
    import pandas as pd

    line = pd.DataFrame([[""] * frame.shape[1]], [_SIGMA], frame.columns, dtype=object)
    return pd.concat([frame, line])


def _empty(value: Cell) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())
