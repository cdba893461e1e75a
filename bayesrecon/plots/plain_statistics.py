"""A plot for phones: a few statistics in plain words, with their intervals and the true values."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bayesrecon.plots.style import BLUE, RED, check_path, label, save_figure

_SIZE, _LINE = 5.0, 0.95  # inches: width, and height of a line; at 390 pixels wide, 12 points are 13 pixels
_NARROW = 0.2  # length of an interval whose ends have no room for numbers centred below them
_REACH = 1.3  # half width of the axis, relative to the largest interval or error


class PlainStatistic(NamedTuple):
    """One statistic: its name in words, the recovered value with its interval, and the true value."""

    words: str
    estimate: float
    lower: float
    upper: float
    true: float
    form: str  # how numbers are printed, as in format(3.2, ".0f")

    @property
    def numbers(self) -> tuple[str, str, str, str]:
        """Estimate, lower end, upper end and true value as strings."""
        estimate, lower, upper, true = (
            format(x, self.form) for x in (self.estimate, self.lower, self.upper, self.true)
        )
        return estimate, lower, upper, true


def plot_plain_statistics(lines: Sequence[PlainStatistic], title: str, path: str | Path) -> None:
    """One line per statistic: its name and numbers, and below them the interval with the true value.

    Args:
        lines: at least one statistic.
        title: title of the figure.
        path: a .png, .pdf or .svg file.
    """
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    check_path(path)
    height = _LINE * (len(lines) + 1.1)
    figure = Figure(figsize=(_SIZE, height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 1), ylim=(len(lines) + 0.85, -0.45))
    ax.set_axis_off()
    ax.text(0.05, -0.08, label(title), size=13, weight="bold", va="center")
    for y, line in enumerate(lines, 1):
        estimate, lower, upper, true = line.numbers
        ax.text(0.05, y - 0.35, label(line.words), size=12, va="center")
        ax.text(0.95, y - 0.35, f"{estimate}  (true {true})", size=12, va="center", ha="right", weight="bold")
        reach = max(line.upper - line.estimate, line.estimate - line.lower, abs(line.true - line.estimate))
        half = _REACH * reach if math.isfinite(reach) and reach else 1.0

        def at(x: float, line: PlainStatistic = line, half: float = half) -> float:
            return 0.5 + 0.45 * (x - line.estimate) / half

        ax.plot([0.05, 0.95], [y, y], color="0.85", lw=1, zorder=1)
        ax.plot([at(line.lower), at(line.upper)], [y, y], color=BLUE, lw=5, solid_capstyle="butt", zorder=2)
        sides = ("center", "center") if at(line.upper) - at(line.lower) > _NARROW else ("right", "left")
        for end, number, side in zip((line.lower, line.upper), (lower, upper), sides, strict=True):
            if math.isfinite(end) and (lower != upper or side == "right"):
                ax.text(at(end), y + 0.26, number, size=11, va="center", ha=side, color="0.35")
        ax.plot([at(line.estimate)], [y], "o", color=BLUE, ms=9, zorder=3)
        ax.plot([at(line.true)], [y], "D", color=RED, ms=8, mfc="white", mew=2.2, zorder=4)
    foot = len(lines) + 0.62
    ax.plot([0.06, 0.14], [foot, foot], color=BLUE, lw=5, solid_capstyle="butt")
    ax.plot([0.1], [foot], "o", color=BLUE, ms=9)
    ax.text(0.16, foot, "recovered, 95 % interval", size=11, va="center")
    ax.plot([0.66], [foot], "D", color=RED, ms=8, mfc="white", mew=2.2)
    ax.text(0.69, foot, "true", size=11, va="center")
    for text in ax.findobj(Text):
        text.set_usetex(False)  # type: ignore[attr-defined]
    save_figure(figure, path)
