"""The columns of numbers on the right of a forest plot."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bayesrecon.plots.style import GREY
from bayesrecon.plots.text import numbers

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_START, _BETWEEN, _SPACE = 10, 14, 3  # points: right of the axes, between columns, before the sign ±


def write_columns(ax: "Axes", table: "pd.DataFrame", compared: bool, sampled: bool) -> None:
    """Columns with a header: recovered values with their errors, and true values or intervals."""
    rows = table[["estimate", "se", "scale", "lower", "upper", "true"]].to_numpy()
    values, errors, intervals, true = zip(*(numbers(*row) for row in rows), strict=True)
    absent = ["" if value else "not determined" for value in values]
    others, head = (true, "true") if compared else (intervals, "95 % interval")
    first = "recovered ± s.e." if sampled else "recovered"
    middle = _START + _width(ax, values)
    edge = max(middle + any(errors) * _SPACE + _width(ax, errors), _START + _width(ax, [*absent, first]))
    edge += _BETWEEN + _width(ax, [*others, head])

    def write(text: str, x: float, y: float, ha: str, va: str, up: float = 0, colour: str | None = None) -> None:
        place = {"xycoords": ax.get_yaxis_transform(), "xytext": (x, up), "textcoords": "offset points"}
        ax.annotate(text, (1, y), ha=ha, va=va, color=colour, fontsize="small", **place)

    top = ax.get_ylim()[1]
    write(first, _START, top, "left", "bottom", up=4)
    if any(others):
        write(head, edge, top, "right", "bottom", up=4)
    for column, x, ha in (
        (absent, _START, "left"),
        (values, middle, "right"),
        (errors, middle + _SPACE, "left"),
        (others, edge, "right"),
    ):
        for i, text in enumerate(column):
            if text:
                write(text, x, i, ha, "center", colour=None if values[i] else GREY)


def _width(ax: "Axes", texts: Iterable[str]) -> float:
    """Width of the longest of these small texts, in points."""
    probe = ax.figure.text(0, 0, "", fontsize="small", usetex=False)
    widths = [0.0]
    for text in filter(None, texts):
        probe.set_text(text)
        widths.append(probe.get_window_extent().width * 72 / ax.figure.dpi)
    probe.remove()
    return max(widths)
