"""Lines below a printed regression table, apart from those of its coefficients."""

from typing import Any

from bayesrecon.posteriors.printed.footers import Footer
from bayesrecon.posteriors.printed.headers import SIGMA, footer_of, plain
from bayesrecon.posteriors.printed.numbers import numbers_of

_SILENT = "sigma"


def parted(frame: Any) -> tuple[Any, Footer]:
    """The lines of coefficients of a table in the one form, that of sigma by this name, and what stands below.

    >>> import pandas as pd
    >>> rows = [["1.5", "0.1"], ["0.7", ""], ["30", ""]]
    >>> lines, below = parted(pd.DataFrame(rows, ["const", "Residual Std. Error", "N"], ["estimate", "std. error"]))
    >>> list(lines.index), below.n
    (['const', 'sigma'], 30.0)
    """
    first, second = frame.columns[:2]
    names = [
        footer_of(label) if _empty(value) else None for label, value in zip(frame.index, frame[second], strict=True)
    ]
    entries: dict[str, Any] = {}
    for name, text in zip(names, frame[first], strict=True):
        if name is None or name == _SILENT:
            continue
        numbers = numbers_of([text])
        if name in ("n", "freedom"):
            entries[name] = float(numbers.values[0])
        else:
            entries[name] = float(numbers.values[0]), float(numbers.half[0])
    kept = frame[[name in (None, _SILENT) for name in names]]
    renamed = [
        _SILENT if name == _SILENT and plain(label) in SIGMA else label
        for name, label in zip(names, frame.index, strict=True)
        if name in (None, _SILENT)
    ]
    return kept.set_axis(renamed, axis=0), Footer(**entries)


def with_scale(frame: Any, below: Footer) -> Any:
    """A table of least squares without a line `sigma` with one, where the log likelihood tells it or n is known."""
    labels = [plain(label) for label in frame.index]
    if any(label in SIGMA[:-1] for label in labels) or below.records(len(labels)) is None:
        return frame
    import pandas as pd

    line = pd.DataFrame([[""] * frame.shape[1]], [_SILENT], frame.columns, dtype=object)
    return pd.concat([frame, line])


def _empty(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())
