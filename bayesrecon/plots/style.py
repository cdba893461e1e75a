"""Shared parts of the plots: colours, markers and their legend, ticks, and the size of a figure."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.saving import check_path, save_figure
from bayesrecon.plots.table import Columns
from bayesrecon.plots.text import power

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

# The Okabe-Ito palette. The colours also differ in lightness, and markers of different colours differ in shape.
BLUE, RED, ORANGE, GREY = "#0072B2", "#D55E00", "#E69F00", "#8C8C8C"
_GREEN, _PURPLE, _SKY = "#009E73", "#CC79A7", "#56B4E9"
_COLOURS = (BLUE, ORANGE, _GREEN, RED, _PURPLE, _SKY, GREY)
_MARKERS = ("o", "s", "D", "^", "v", "P", "X")
_Dashes = str | tuple[int, tuple[float, ...]]
_DASHES: tuple[_Dashes, ...] = ("-", (0, (5, 2)), (0, (7, 2, 1.5, 2)), (0, (1.5, 1.5)), (0, (4, 1, 1, 1, 1, 1)))
PANEL = 3.6  # inches
TITLE_PAD = 22  # points from the axes to a title, above the columns' heads
_PAD = 0.12  # inches, around a panel
_LEGEND_PAD = 38 / 8.33  # font sizes from the axes to a legend, below the axis label


@dataclass(frozen=True)
class Style:
    """Colour, marker and dashes of one of several series. Neighbouring series differ in all three."""

    colour: str
    marker: str
    dashes: _Dashes


def styles(count: int) -> list[Style]:
    """Styles of `count` series, which can be distinguished without colours."""
    return [
        Style(_COLOURS[i % len(_COLOURS)], _MARKERS[i % len(_MARKERS)], _DASHES[i % len(_DASHES)]) for i in range(count)
    ]


ROUNDING = 1e-18
"""Eigenvalues relative to the largest that are drawn at least: below what rounding leaves of zero."""


def new_figure(pyplot: bool = True) -> "Figure":
    """A new figure with a constrained layout. `fit` sets its final size."""
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD, wspace=0, hspace=0)
    return (plt.figure if pyplot else Figure)(figsize=(12, 9), layout=layout)


def axes_of(ax: "Axes | None", pyplot: bool = True) -> "tuple[Axes, Figure | None]":
    """The Axes to draw into, and the figure if it is new."""
    if ax is not None:
        return ax, None
    figure = new_figure(pyplot)
    return figure.add_subplot(), figure


def fit(figure: "Figure", widths: Sequence[float] = (PANEL,), heights: Sequence[float] = (PANEL,)) -> None:
    """Resize and lay out the figure so that its panels have these widths and heights, in inches."""
    last = figure.axes[-1].get_position(original=True)
    figure.set_size_inches(widths[-1] / last.width, heights[0] / last.height)  # to see which titles are too wide
    sides, margins, tallest = np.zeros((len(widths), 2)), np.zeros((len(heights), 2)), 0.0
    for ax in figure.axes:
        box, tight, cell = ax.bbox, ax.get_tightbbox(), ax.get_subplotspec()
        assert tight is not None
        assert cell is not None
        column, row = cell.colspan.start, cell.rowspan
        sides[column] = np.maximum(sides[column], [box.x0 - tight.x0, tight.x1 - box.x1])
        if len(row) == len(heights):
            tallest = max(tallest, tight.height - box.height)
        else:
            margins[row.start] = np.maximum(margins[row.start], [box.y0 - tight.y0, tight.y1 - box.y1])
    width = sum(widths) + sides.sum() / figure.dpi + 2 * _PAD * len(widths)
    height = sum(heights) + max(tallest, margins.sum()) / figure.dpi + 2 * _PAD * len(heights)
    figure.set_size_inches(width, height + (0.35 if figure.get_suptitle() else 0))
    figure.draw_without_rendering()


@contextmanager
def panel(
    ax: "Axes | None", path: str | Path | None, heights: Sequence[float] = (PANEL,)
) -> "Generator[Axes, None, None]":
    """The Axes to draw into: the given ones, or those of a new figure. On exit they are finished and saved.

    A new figure gets its size from `heights`. If `path` is given, it is not registered with pyplot.
    """
    check_path(path)
    ax, figure = axes_of(ax, pyplot=path is None)
    yield ax
    finish(ax)
    if figure is not None:
        fit(figure, heights=heights)
    if path is not None:
        save_figure(ax.figure.figure, path)


def only(ax: "Axes", path: str | Path | None, draw: "Callable[[Axes], None]") -> np.ndarray:
    """The Axes in an array, after the main panel of a figure of several panels was drawn into them."""
    with panel(ax, path) as ax:
        draw(ax)
    return np.array([ax], dtype=object)


def draw_marks(ax: "Axes", table: Columns, x: np.ndarray, y: np.ndarray, clip: bool = False) -> None:
    """A marker per statistic, hollow if it is partly determined, and the number of each kind in the legend.

    Statistics at NaN are omitted. Statistics at infinity are counted, but not drawn.
    """
    inside, outside, exact = "truth in 95 % interval", "truth outside", "exact"
    groups = np.select([table["off"], table["se"] == 0, ~np.isnan(table["z"])], [outside, exact, inside], "")
    partly = table["verdict"] == "partly"
    styles = ((inside, "o", 6, BLUE), (outside, "s", 5, RED), ("", "o", 6, BLUE), (exact, "D", 5, ax.title.get_color()))
    for group, marker, size, colour in styles:
        for is_partly in (False, True):
            selected = (groups == group) & (partly == is_partly) & ~np.isnan(x)
            if selected.any():
                legend = ", ".join(filter(None, [group, "seen in part" if is_partly else ""]))
                legend = f"{legend} ({selected.sum()})" if legend else None
                fill = ax.get_facecolor() if is_partly else colour
                ax.plot(
                    x[selected],
                    y[selected],
                    marker=marker,
                    ms=size - clip,
                    mfc=fill,
                    mec=colour,
                    mew=1.4,
                    ls="none",
                    zorder=3,
                    clip_on=clip,
                    label=legend,
                )


def set_ticks(axis: "Axis", ticks: Sequence[float], labels: Sequence[str] | None = None) -> None:
    """Set exactly these ticks, also on a logarithmic axis."""
    axis.set_ticks(ticks, labels=labels or [power(tick) for tick in ticks])
    axis.set_ticks([], minor=True)


def finish(ax: "Axes") -> None:
    """Put the legend under the axis label, remove the frame, and turn TeX off, because names come from files."""
    from matplotlib.text import Text

    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, 0),
            borderaxespad=_LEGEND_PAD,
            ncols=2,
            frameon=False,
            fontsize="small",
            handletextpad=0.5,
            columnspacing=1.2,
        )
    for text in ax.findobj(Text):
        text.set_usetex(False)  # type: ignore[attr-defined]
