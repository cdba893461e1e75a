"""Intervals of statistics that a release determines only in part."""

from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.plots.style import BLUE, GREY, label, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.diagnosis import Bounds


def plot_bounds(bounds: "Bounds", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Each interval relative to its midpoint, in per cent, labelled with its ends.

    Statistics without bounds are grey.

    Args:
        bounds: result of `bayesrecon.bound`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    >>> from bayesrecon.results.diagnosis import Bounds, Interval
    >>> bounds = Bounds("survey", 0.99, {"y": (0, 9)}, (Interval("n", 90.0, 110.0), Interval("mean(y)", 4.0, 5.0)))
    >>> [label.get_text() for label in plot_bounds(bounds).get_yticklabels()]
    ['n', 'mean(y)']
    """
    with panel(ax, path) as ax:
        widest = 0.0
        for i, interval in enumerate(bounds.intervals):
            if interval.lower is None or interval.upper is None:
                ax.text(0, i, "not bounded", color=GREY, ha="center", va="center")
                continue
            middle = (interval.lower + interval.upper) / 2
            half = 50 * (interval.upper - interval.lower) / (abs(middle) or 1.0)
            widest = max(widest, half)
            ax.plot([-half, half], [i, i], color=BLUE, linewidth=3, solid_capstyle="butt")
            ax.annotate(
                f"{interval.lower:.5g} … {interval.upper:.5g}",
                (1.02, i),
                xycoords=("axes fraction", "data"),
                va="center",
            )
        ax.set_yticks(range(len(bounds.intervals)), [label(interval.name) for interval in bounds.intervals])
        ax.set_ylim(len(bounds.intervals) - 0.5, -0.5)
        ax.set_xlim(-1.1 * (widest or 1.0), 1.1 * (widest or 1.0))
        ax.set_xlabel("per cent of the interval's midpoint")
        domains = ", ".join(f"{field} in {domain}" for field, domain in bounds.domain.items())
        ax.set_title(label(f"{bounds.level:.0%} bounds, {domains}"), loc="left")
    return ax
