"""The columns of numbers on the right of a forest plot."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from bayesrecon.plots.style import GREY
from bayesrecon.plots.table import Columns
from bayesrecon.plots.text import numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_START, _BETWEEN, _SPACE = 10, 14, 3  # points: right of the axes, between columns, before the sign ±


def write_columns(ax: "Axes", table: Columns, compared: bool, sampled: bool) -> None:
    """Columns with a header: recovered values with their errors, and true values or intervals."""
    rows = zip(*(table[name] for name in ("estimate", "se", "scale", "lower", "upper", "true")), strict=True)
    values, errors, intervals, true = zip(*(numbers(*row) for row in rows), strict=True)
    missing = ["" if value else "not determined" for value in values]
    comparison, header = (true, "true") if compared else (intervals, "95 % interval")
    recovered = "recovered ± s.e." if sampled else "recovered"
    error_edge = _START + _width(ax, values)
    right_edge = max(error_edge + any(errors) * _SPACE + _width(ax, errors), _START + _width(ax, [*missing, recovered]))
    right_edge += _BETWEEN + _width(ax, [*comparison, header])

    def write(text: str, x: float, y: float, ha: str, va: str, up: float = 0, colour: str | None = None) -> None:
        ax.annotate(
            text,
            (1, y),
            xycoords=ax.get_yaxis_transform(),
            xytext=(x, up),
            textcoords="offset points",
            ha=ha,
            va=va,
            color=colour,
            fontsize="small",
        )

    top = ax.get_ylim()[1]
    write(recovered, _START, top, "left", "bottom", up=4)
    if any(comparison):
        write(header, right_edge, top, "right", "bottom", up=4)
    for column, x, ha in (
        (missing, _START, "left"),
        (values, error_edge, "right"),
        (errors, error_edge + _SPACE, "left"),
        (comparison, right_edge, "right"),
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
