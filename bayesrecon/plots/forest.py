"""The forest plot: recovered statistics, one row each, with their precision or their error."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.errors import BayesreconError, near
from bayesrecon.plots.columns import write_columns
from bayesrecon.plots.frame import BLUE, GREY, RED, TITLE_PAD, draw_marks, finish, fit, new_figure, set_ticks
from bayesrecon.plots.points import OUTSIDE, Z95, Point, to_point
from bayesrecon.plots.text import label, minus, power
from bayesrecon.result import Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ROWS = 40
_FARTHEST_Z = 12.0
_ARROW = 0.4  # standard errors from the end of the axis


def plot_recovery(
    result: Recovery,
    *,
    truth: Mapping[str, float] | None = None,
    ax: "Axes | None" = None,
    statistics: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
) -> "Axes":
    """A forest plot of the recovered statistics, one row each, with their values in columns at the right.

    With `truth`, the horizontal axis is the error in units of the standard error: points with 95 % intervals
    over a band from -1.96 to 1.96. Without it, bars show the standard error relative to the estimate, a tick
    marks the Cramer-Rao floor, and from 51 % on a 95 % interval includes zero. A trained parameter has no
    sampling error: the relative difference from the truth takes its place, or the visibility. Hollow marks
    are statistics seen only in part; those not determined are grey.

    Args:
        truth: true values by name, from `bayesrecon.evaluate.true_statistics`.
        ax: where to draw; columns and legend lie outside it, so use a constrained layout.
        statistics: names of those to show, in this order; by default the first 40.
        names: `{name: label}`, other labels for some of the statistics.

    Returns:
        The Axes.

    Raises:
        BayesreconError: when `statistics` names one that the result lacks.

    >>> ax = plot_recovery(result, statistics=["n", "mean(mom_iq)"])  # doctest: +SKIP
    """
    rows, more = list(result.rows[:MOST_ROWS]), len(result.rows) - MOST_ROWS
    if statistics is not None:
        known = {row.name: row for row in reversed(result.rows)}
        wanted = [statistics] if isinstance(statistics, str) else statistics
        for name in wanted:
            if name not in known:
                raise BayesreconError(f"no statistic {name!r}{near(str(name), known)}")
        rows, more = [known[name] for name in wanted], 0
    points = [to_point(row, truth) for row in rows]
    labels = [label((names or {}).get(row.name, row.name)) for row in rows]
    own = ax is None
    ax = new_figure().add_subplot() if ax is None else ax
    sampled = any(point.se is not None for point in points)
    if sampled and truth is not None:
        _draw_errors(ax, points)
    elif sampled:
        _draw_precision(ax, points)
    elif truth is not None and any(point.value is not None for point in points):
        differences = [_share(p.true, None if p.true is None or p.value is None else p.value - p.true) for p in points]
        _draw_bars(ax, points, differences)
        ax.set_xlabel(minus("|recovered - true| / |true|"))
    else:
        _draw_visibility(ax, points)
    _label_rows(ax, points, [*labels, f"and {more} more"] if more > 0 else labels)
    if points:
        write_columns(ax, points, truth is not None, sampled)
    ax.set_title(f"Statistics recovered from {label(result.release)}", loc="left", pad=TITLE_PAD)
    finish(ax, left=False)
    if own:
        fit(ax.figure, heights=[table_height(len(ax.get_yticks()))])
    return ax


def table_height(lines: int) -> float:
    return 0.27 * max(lines, 4)  # inches


def _draw_errors(ax: "Axes", points: Sequence[Point]) -> None:
    """Errors in units of the standard error; those beyond the axis as arrows at its end."""
    z = [point.z for point in points]
    limit = min(max([4.0, *(abs(v) + Z95 + _ARROW for v in z if v is not None)]), _FARTHEST_Z)
    ax.set_xlim(-limit, limit)
    ax.axvspan(-Z95, Z95, color=GREY, alpha=0.16, lw=0, zorder=0)
    ax.axvline(0, color=GREY, lw=1, zorder=1)
    for i, (point, value) in enumerate(zip(points, z, strict=True)):
        if value is None:
            continue
        if abs(value) > limit - _ARROW:
            text = minus(f"z = {value:.3g}") if point.se else "exact, yet off"
            _draw_arrow(ax, math.copysign(limit - _ARROW, value), i, value > 0, text, RED)
            z[i] = math.nan
        elif point.se:
            ends = [max(value - Z95, -limit), min(value + Z95, limit)]
            ax.hlines(i, *ends, color=RED if point.kind == OUTSIDE else BLUE, lw=1.4, zorder=2)
    draw_marks(ax, points, z, range(len(points)), clip=False)
    ax.set_xlabel(minus("(recovered - true) / standard error"))


def _draw_precision(ax: "Axes", points: Sequence[Point]) -> None:
    """Standard errors relative to the estimates, and the Cramer-Rao floor."""
    floors = [_share(point.value, point.floor) for point in points]
    _draw_bars(ax, points, [_share(point.value, point.se) for point in points], floors)
    low, high = ax.get_xlim()
    if high > 1 / Z95:
        ax.axvspan(1 / Z95, high, color=GREY, alpha=0.16, lw=0, zorder=0, label="95 % interval includes zero")
    at = [(max(floor, low), i) for i, floor in enumerate(floors) if floor is not None and floor <= high]
    if at:
        style = {"ls": "none", "color": ax.title.get_color(), "ms": 8, "mew": 1.2, "zorder": 4}
        ax.plot(*zip(*at, strict=True), marker="|", label="Cramér-Rao floor", **style)
    ax.set_xlabel("standard error / |estimate|")


def _share(whole: float | None, part: float | None) -> float | None:
    if part is None or whole is None:
        return None
    return abs(part / whole) if whole else math.inf if part else 0.0


def _draw_bars(
    ax: "Axes", points: Sequence[Point], bars: Sequence[float | None], others: Sequence[float | None] = ()
) -> None:
    """Bars on a logarithmic axis of shares, with ticks in per cent, that has room for the `others`."""
    inner = [float(np.clip(v, 1e-12, 10)) for v in [*bars, *others] if v]
    bottom = math.floor(math.log10(min(inner, default=1e-3)) - 0.3)
    top = max(math.ceil(math.log10(max(inner, default=1e-1))), bottom + 2, -1)
    low, high = 10.0**bottom, 10.0 ** (top + 0.15)
    ax.set_xscale("log")
    exponents = range(bottom, top + 1, math.ceil((top - bottom) / 5))
    set_ticks(ax.xaxis, [10.0**e for e in exponents], [f"{power(10.0 ** (e + 2))} %" for e in exponents])
    ax.set_xlim(low, high)
    ax.grid(axis="x", color=GREY, alpha=0.2, lw=0.8)
    ends = [None if bar is None else max(bar, low) for bar in bars]
    for i, end in enumerate(ends):
        if end is not None and end > high:
            _draw_arrow(ax, high, i, True, "over 1000 %" if math.isfinite(end) else "relative to 0", BLUE)
            ends[i] = math.nan
        elif end is not None:
            ax.hlines(i, low, end, color=BLUE, lw=1.6, zorder=2)
    draw_marks(ax, points, ends, range(len(points)), clip=False)


def _draw_visibility(ax: "Axes", points: Sequence[Point]) -> None:
    for i, point in enumerate(points):
        colour = GREY if point.value is None else BLUE
        ax.hlines(i, 0, point.visibility, color=colour, lw=1.6, zorder=2)
        if point.value is None:
            ax.plot(point.visibility, i, "o", ms=5, color=GREY, zorder=3, clip_on=False)
    shares = [None if point.value is None else point.visibility for point in points]
    draw_marks(ax, points, shares, range(len(points)), clip=False)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("share of the statistic that the release determines")


def _draw_arrow(ax: "Axes", x: float, y: float, right: bool, text: str, colour: str) -> None:
    """A value beyond the end of the axis."""
    ax.plot(x, y, ">" if right else "<", ms=6, color=colour, zorder=3, clip_on=False)
    place = {"xytext": (-8 if right else 8, 0), "ha": "right" if right else "left", "va": "center"}
    ax.annotate(text, (x, y), textcoords="offset points", fontsize="small", color=colour, **place)


def _label_rows(ax: "Axes", points: Sequence[Point], labels: Sequence[str]) -> None:
    """A label and a faint line for each row; a label more says how many rows are left out."""
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0, pad=8)
    for i, text in enumerate(ax.get_yticklabels()):
        if i >= len(points) or points[i].value is None:
            text.set_color(GREY)
        if i >= len(points):
            text.set_fontstyle("italic")
    for i in range(len(points)):
        ax.axhline(i, color=GREY, alpha=0.18, lw=0.8, zorder=0)
