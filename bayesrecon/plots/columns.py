"""The numbers right of a forest plot."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from bayesrecon.plots.frame import GREY
from bayesrecon.plots.points import Point
from bayesrecon.plots.text import numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_START, _BETWEEN, _SPACE = 10.0, 14.0, 3.0  # points right of the axes, between the columns, around the sign ±


def write_columns(ax: "Axes", points: Sequence[Point], compared: bool, sampled: bool) -> None:
    """Recovered values with their errors, and true values (or intervals), row by row under a head."""
    values, errors, intervals, true = zip(*map(numbers, points), strict=True)
    absent = ["not determined" if point.value is None else "" for point in points]
    others, head = (true, "true") if compared else (intervals, "95 % interval")
    first = "recovered ± s.e." if sampled else "recovered"
    middle = _START + _width(ax, values)
    edge = middle + (_SPACE + _width(ax, errors) if any(errors) else 0)
    edge = max(edge, _START + _width(ax, [*absent, first])) + _BETWEEN
    edge += _width(ax, [*others, head])

    def write(at: float, y: float, text: str, align: Any, **style: Any) -> None:
        if text:
            where = {"xycoords": ax.get_yaxis_transform(), "xytext": (at, 0), "va": "center", **style}
            ax.annotate(text, (1, y), textcoords="offset points", ha=align, fontsize="small", **where)

    top = {"xycoords": ax.transAxes, "va": "bottom"}
    write(_START, 1, first, "left", **top | {"xytext": (_START, 4)})
    if any(others):
        write(edge, 1, head, "right", **top | {"xytext": (edge, 4)})
    for i, point in enumerate(points):
        write(_START, i, absent[i], "left", color=GREY)
        write(middle, i, values[i], "right")
        write(middle + _SPACE, i, errors[i], "left")
        write(edge, i, others[i], "right", **{"color": GREY} if point.value is None else {})


def _width(ax: "Axes", texts: Iterable[str]) -> float:
    """Width of the longest of these small texts, in points."""
    probe = ax.figure.text(0, 0, "", fontsize="small", usetex=False)
    widths = [0.0]
    for text in filter(None, texts):
        probe.set_text(text)
        widths.append(probe.get_window_extent().width * 72 / ax.figure.dpi)
    probe.remove()
    return max(widths)
