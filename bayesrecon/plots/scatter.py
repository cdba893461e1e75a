"""Recovered values against true ones."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.frame import BLUE, GREY, RED, draw_marks, finish, fit, new_figure, powers, set_ticks
from bayesrecon.plots.points import OUTSIDE, Z95, Point, to_point
from bayesrecon.plots.text import label
from bayesrecon.result import Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Where a name may stand: the offset from its point, and its alignment.
_PLACES = (
    (7, -1, "left", "center"),
    (-7, 1, "right", "center"),
    (5, -5, "left", "top"),
    (-5, 5, "right", "bottom"),
    (7, -10, "left", "top"),
    (-7, 10, "right", "bottom"),
)
_CROWD = 16


def plot_recovered_against_true(result: Recovery, truth: Mapping[str, float], ax: "Axes | None" = None) -> "Axes":
    """Recovered values against true ones, with 95 % intervals and the identity line.

    Both axes share one scale: linear, or (symmetric-)logarithmic when the values span orders of magnitude.
    Statistics that are not determined are counted in a corner; points are named where there is room.

    Args:
        truth: true values by name, from `bayesrecon.evaluate.true_statistics`.
        ax: where to draw.

    Returns:
        The Axes.

    >>> ax = plot_recovered_against_true(result, truth)  # doctest: +SKIP
    """
    own = ax is None
    ax = new_figure().add_subplot() if ax is None else ax
    points = draw_scatter(ax, result, truth)
    if own:
        fit(ax.figure)
    label_points(ax, points)
    return ax


def draw_scatter(ax: "Axes", result: Recovery, truth: Mapping[str, float]) -> list[Point]:
    """Everything but the names, which need the final layout; returns the points shown."""
    points = [to_point(row, truth) for row in result.rows]
    hidden = sum(point.value is None for point in points)
    points = [point for point in points if point.value is not None and point.true is not None]
    _set_common_scale(ax, points)
    for point in points:
        if point.interval:
            ax.vlines(point.true, *point.interval, color=RED if point.kind == OUTSIDE else BLUE, lw=1.4, zorder=2)
    draw_marks(ax, points, [point.true for point in points], [point.value for point in points], clip=True)
    if points:
        ax.plot(ax.get_xlim(), ax.get_xlim(), color=GREY, lw=1, zorder=1, label="recovered = true")
    else:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "nothing to compare", transform=ax.transAxes, ha="center", va="center", color=GREY)
    if hidden:
        note = f"{hidden} of {len(result.rows)} not determined"
        ax.text(0.98, 0.03, note, transform=ax.transAxes, ha="right", color=GREY, fontsize="small")
    ax.set_xlabel("true value")
    ax.set_ylabel("recovered value")
    ax.set_title(f"{label(result.release)}: recovered against true", loc="left")
    finish(ax)
    return points


def _extent(point: Point) -> list[float]:
    return [v for v in (point.value, *(point.interval or ())) if v is not None]


def _set_common_scale(ax: "Axes", points: Sequence[Point]) -> None:
    values = [v for point in points for v in [point.true, *_extent(point)] if v is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    largest = max(abs(low), abs(high)) or 1.0
    # Values of both signs: symmetric-logarithmic if even a usual interval would vanish on a linear scale.
    unit = max(float(np.median([Z95 * point.se for point in points if point.se] or [0.0])), largest * 1e-9)
    if low > 0 and high > 20 * low:
        low = max(low, high * 1e-20)
        stretch = 1.2 * (high / low) ** 0.06
        limits = (low / stretch, high * stretch)
        scale, ticks = {"value": "log"}, powers(low, high, 6)
        if len(ticks) < 3:
            first = math.floor(math.log10(low))
            ticks = [m * 10.0 ** (first + e) for e in range(4) for m in (1, 2, 5)]
            ticks = [tick for tick in ticks if limits[0] <= tick <= limits[1]]
    elif low <= 0 and high - low > 100 * unit:
        threshold = 10.0 ** math.floor(math.log10(unit))
        stretch = 1.2 * (largest / threshold) ** 0.06
        limits = (low * stretch - 0.5 * threshold, max(high, 0.0) * stretch + 0.5 * threshold)
        ticks = powers(10 * threshold, largest, 3)
        scale, ticks = {"value": "symlog", "linthresh": threshold}, [*(-tick for tick in ticks), 0.0, *ticks]
    else:
        margin = 0.08 * (high - low) or 0.5 * largest
        limits = (low - margin, high + margin)
        scale, ticks = {"value": "linear"}, []
    ax.set_xscale(**scale)
    ax.set_yscale(**scale)
    if ticks:
        set_ticks(ax.xaxis, ticks)
        set_ticks(ax.yaxis, ticks)
    ax.set(xlim=limits, ylim=limits)
    ax.set_aspect("equal", adjustable="box", anchor="W")


def label_points(ax: "Axes", points: Sequence[Point]) -> None:
    """Names beside the points where there is room, those that miss the truth first."""
    from matplotlib.transforms import Bbox

    frame, taken = ax.get_window_extent(), []
    for point in points:
        ends = [(point.true, min(_extent(point))), (point.true, max(_extent(point)))]
        taken.append(Bbox(ax.transData.transform(ends)).padded(4 * ax.figure.dpi / 72))
    for point in sorted(points, key=lambda point: point.kind != OUTSIDE):
        style = {"textcoords": "offset points", "fontsize": "x-small", "usetex": False}
        name = ax.annotate(label(point.name), (point.true, point.value), xytext=(0, 0), **style)
        for x, y, ha, va in _PLACES if len(points) <= _CROWD else _PLACES[:2]:
            name.set(position=(x, y), ha=ha, va=va)
            box = name.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not box.count_overlaps(taken):
                taken.append(box)
                break
        else:
            name.remove()
