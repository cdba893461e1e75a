"""Shared parts of the plots: colours, markers and their legend, ticks, and the size of a figure."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.plots.saving import check_path, save_figure
from bayesrecon.plots.text import power

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The Okabe-Ito palette. The colours also differ in lightness, and markers of different colours differ in shape.
BLUE, RED, ORANGE, GREY = "#0072B2", "#D55E00", "#E69F00", "#8C8C8C"
_GREEN, _PURPLE, _SKY = "#009E73", "#CC79A7", "#56B4E9"
_COLOURS = (BLUE, ORANGE, _GREEN, RED, _PURPLE, _SKY, GREY)
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (7, 2, 1.5, 2)), (0, (1.5, 1.5)), (0, (4, 1, 1, 1, 1, 1)))
PANEL = 3.6  # inches
TITLE_PAD = 22  # points from the axes to a title, above the columns' heads
_PAD = 0.12  # inches, around a panel
_LEGEND_PAD = 38 / 8.33  # font sizes from the axes to a legend, below the axis label


@dataclass(frozen=True)
class Style:
    """Colour, marker and dashes of one of several series. Neighbouring series differ in all three."""

    colour: str
    marker: str
    dashes: str | tuple[int, tuple[float, ...]]


def styles(count: int) -> list[Style]:
    """Styles of `count` series, which can be distinguished without colours.

    >>> one, *_, last = styles(7)
    >>> one.colour, one.marker, last.colour, last.marker
    ('#0072B2', 'o', '#8C8C8C', 'X')
    """
    return [
        Style(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)]) for i in range(count)
    ]


def new_figure(pyplot: bool = True) -> "Figure":
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD, wspace=0, hspace=0)
    return (plt.figure if pyplot else Figure)(figsize=(12, 9), layout=layout)


def fit(figure: Any, widths: Sequence[float] = (PANEL,), heights: Sequence[float] = (PANEL,)) -> None:
    """Resize and lay out the figure so that its panels have these widths and heights, in inches."""
    last = figure.axes[-1].get_position(original=True)
    figure.set_size_inches(widths[-1] / last.width, heights[0] / last.height)  # to see which titles are too wide
    sides, ends, tallest = np.zeros((len(widths), 2)), np.zeros((len(heights), 2)), 0.0
    for ax in figure.axes:
        box, whole, place = ax.bbox, ax.get_tightbbox(), ax.get_subplotspec()
        column, row = place.colspan.start, place.rowspan
        sides[column] = np.maximum(sides[column], [box.x0 - whole.x0, whole.x1 - box.x1])
        if len(row) == len(heights):
            tallest = max(tallest, whole.height - box.height)
        else:
            ends[row.start] = np.maximum(ends[row.start], [box.y0 - whole.y0, whole.y1 - box.y1])
    width = sum(widths) + sides.sum() / figure.dpi + 2 * _PAD * len(widths)
    height = sum(heights) + max(tallest, ends.sum()) / figure.dpi + 2 * _PAD * len(heights)
    figure.set_size_inches(width, height + (0.35 if figure.get_suptitle() else 0))
    figure.draw_without_rendering()


@contextmanager
def panel(ax: "Axes | None", path: str | Path | None, heights: Sequence[float] = (PANEL,)) -> "Iterator[Axes]":
    """The Axes to draw into: the given ones, or those of a new figure. On exit they are finished and saved.

    A new figure gets its size from `heights`. If `path` is given, it is not registered with pyplot.
    """
    check_path(path)
    own = ax is None
    ax = new_figure(pyplot=path is None).add_subplot() if ax is None else ax
    yield ax
    finish(ax)
    if own:
        fit(ax.figure, heights=heights)
    if path is not None:
        save_figure(ax.figure, path)


def draw_marks(ax: "Axes", table: "pd.DataFrame", x: Any, y: Any, clip: bool = False) -> None:
    """A marker per statistic, hollow if it is partly determined, and the number of each kind in the legend.

    Statistics at NaN are omitted. Statistics at infinity are counted, but not drawn.
    """
    inside, outside, exact = "truth in 95 % interval", "truth outside", "exact"
    kinds = np.select([table["off"], table["se"] == 0, table["z"].notna()], [outside, exact, inside], "")
    partly = table["verdict"] == "partly"
    styles = ((inside, "o", 6, BLUE), (outside, "s", 5, RED), ("", "o", 6, BLUE), (exact, "D", 5, ax.title.get_color()))
    for kind, marker, size, colour in styles:
        for part in (False, True):
            at = (kinds == kind) & (partly == part) & ~np.isnan(x)
            if at.any():
                words = ", ".join(filter(None, [kind, "seen in part" if part else ""]))
                words = f"{words} ({at.sum()})" if words else None
                fill = ax.get_facecolor() if part else colour
                style = {"marker": marker, "ms": size - clip, "mfc": fill, "mec": colour, "mew": 1.4, "ls": "none"}
                ax.plot(x[at], y[at], zorder=3, clip_on=clip, label=words, **style)


def set_ticks(axis: Any, ticks: Sequence[float], labels: Sequence[str] | None = None) -> None:
    """Set exactly these ticks, also on a logarithmic axis."""
    axis.set_ticks(ticks, labels=labels or [power(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def finish(ax: "Axes") -> None:
    """Put the legend under the axis label, remove the frame, and turn TeX off, because names come from files."""
    from matplotlib.text import Text

    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[0]:
        style = {"frameon": False, "fontsize": "small", "handletextpad": 0.5, "columnspacing": 1.2}
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), borderaxespad=_LEGEND_PAD, ncols=2, **style)
    for text in ax.findobj(Text):
        text.set_usetex(False)  # type: ignore[attr-defined]
