"""Shared parts of the plots: colours, markers and their legend, ticks, and the size of a figure."""

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_whole
from bayesrecon.results.recovery import Recovery
from bayesrecon.results.row import exceeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


_SUFFIXES = (".png", ".pdf", ".svg")


def check_path(path: str | Path | None) -> None:
    """Check the suffix of a path before anything is drawn."""
    if path is not None and Path(path).suffix.lower() not in _SUFFIXES:
        raise BayesreconError(f"cannot write {path}: the name must end in {', '.join(_SUFFIXES)}")


def save_figure(figure: "Figure", path: str | Path) -> None:
    """Write the figure completely or not at all."""
    write_whole(Path(path), lambda temporary: figure.savefig(temporary, dpi=150))


Columns = dict[str, np.ndarray]
"""Columns `(S,)` by name, with one entry per statistic."""


def tabulate(result: Recovery, truth: Mapping[str, float] | None) -> Columns:
    """The columns of a result, with true values and errors. Numbers that are missing or not finite are NaN.

    Undetermined statistics have no estimate. Further columns:

    * `scale`: the standard error, or half the 95 % interval divided by 1.96 for partly determined statistics.
    * `z`: the error divided by `scale`, or infinity for an exact value that is wrong.
    * `off`: whether the truth is outside the interval.
    """
    table = result.to_dataframe().reset_index()
    table["true"] = np.array([(truth or {}).get(name, np.nan) for name in table["name"]], float)
    numbers = table.select_dtypes(float)
    table[numbers.columns] = numbers.where(numbers.abs() < 1e290)  # larger values would overflow an axis
    table.loc[(table["verdict"] == "undetermined") | table["estimate"].isna(), ["estimate", "se"]] = np.nan
    table.loc[table["estimate"].isna() | ~(table["se"].isna() | (table["se"] > 0)), ["lower", "upper", "floor"]] = (
        np.nan
    )
    half = (table["upper"] - table["lower"]) / 2
    table["scale"] = table["se"].fillna((half / Z95).where(half > 0))
    agree = (table["scale"] == 0) & np.isclose(table["estimate"], table["true"], rtol=1e-6, atol=1e-9)
    table["z"] = ((table["estimate"] - table["true"]) / table["scale"]).mask(agree, 0.0)
    beyond = (table["true"] < table["lower"]) | (table["true"] > table["upper"])
    table["off"] = beyond.where(table["se"].isna(), table["z"].abs() > Z95)
    return {str(name): table[name].to_numpy() for name in table}


def select(table: Columns, rows: np.ndarray) -> Columns:
    """The rows of a table at a mask or at positions."""
    return {name: values[rows] for name, values in table.items()}


_LONGEST_NAME = 48
_MOST_DECIMALS = 8


def label(name: str) -> str:
    """A name as a label: shortened, with only printable characters of the font, and without mathematics in `$`."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in FontProperties().get_family()]
    name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
    known = (c if c.isprintable() and any(font.get_char_index(ord(c)) for font in fonts) else "?" for c in name)
    return "".join(known).replace("$", r"\$")


def minus(text: str) -> str:
    """Replace hyphens by minus signs, unless the user's style prefers hyphens."""
    from matplotlib.ticker import Formatter

    return Formatter.fix_minus(text)


def power(value: float) -> str:
    """A tick label: `0.1`, `5`, or a power of ten with one digit before it."""
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return minus(f"{value:g}")
    mantissa, exponent = f"{value:.0e}".split("e")
    factor = {"1": "", "-1": "-"}.get(mantissa, rf"{mantissa}\cdot ")
    return f"${factor}10^{{{int(exponent)}}}$"


def numbers(
    value: float, se: float, scale: float, lower: float, upper: float, true: float
) -> tuple[str, str, str, str]:
    """Value, error, interval and true value as strings, to the digits that the error supports. NaN is omitted, and so
    is a standard error beside an interval that holds more than that."""
    spec, unit, suffix = ".5g" if math.isnan(value) else ".6g", 1.0, ""
    if scale > 0:
        exponent = math.floor(math.log10(max(abs(value), scale)))
        if exponent >= 7 or -300 < exponent < -3:
            unit, suffix = 10.0**exponent, f"e{exponent}"
        decimals = 1 - math.floor(math.log10(max(scale / unit, 1e-99)))
        spec = f".{min(max(decimals, 0), _MOST_DECIMALS)}f"

    def show(number: float) -> str:
        return "" if math.isnan(number) else minus(f"{number / unit:{spec}}{suffix}")

    error = "exact" if se == 0 else ""
    if se > 0 and not exceeds(se, value, lower, upper):
        beneath = float(f"{se / unit:{spec}}") == 0  # the last digit shown
        error = f"± {minus(f'{se:.1g}') if beneath else show(se)}"
    interval = "" if math.isnan(lower + upper) else f"{show(lower)} to {show(upper)}"
    return show(value), error, interval, show(true)


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


@contextmanager
def sheet(path: str | Path | None) -> "Generator[Figure, None, None]":
    """A new figure for several panels, which is saved on exit. If `path` is given, it is not registered with pyplot."""
    check_path(path)
    figure = new_figure(pyplot=path is None)
    yield figure
    if path is not None:
        save_figure(figure, path)


def head(figure: "Figure", text: str) -> None:
    """The heading of a figure of several panels."""
    figure.suptitle(text, weight="bold").set_usetex(False)


def write(ax: "Axes", text: str, at: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """A small text at a distance from a place, in points."""
    ax.annotate(text, at, offset, textcoords="offset points", fontsize="small", **style)


def check_pixels(count: int, shape: tuple[int, int]) -> None:
    """Refuse values that are not an image of this height and width."""
    if count != shape[0] * shape[1]:
        raise BayesreconError(f"{count} values are not an image of {shape[0]} by {shape[1]} pixels")


def name_rows(ax: "Axes", labels: Sequence[str], grey: np.ndarray) -> None:
    """The labels of rows, of which some are grey; the last may be a note on rows that are left out."""
    ax.set_ylim(max(len(labels), 1) - 0.4, -0.6)
    ax.set_yticks(range(len(labels)), labels)
    ax.spines["left"].set_visible(False)
    texts = ax.get_yticklabels()
    for i in np.flatnonzero(grey):
        texts[i].set_color(GREY)
    for text in texts[len(grey) :]:
        text.set(color=GREY, fontstyle="italic")


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
