"""Plots of a recovery: what was recovered and how precisely, against the truth, and the kernel's spectrum.

Every function draws into the `ax` it is given, or into a new pyplot figure, and returns the Axes. Nothing
here shows a figure, chooses a backend or changes a global setting; matplotlib is imported on first use.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from bayesrecon.errors import BayesreconError, near
from bayesrecon.result import Recovery, Row, write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From the Okabe-Ito palette; the two also differ in lightness, and marks differ in shape wherever colours do.
_BLUE, _RED, _GREY = "#0072B2", "#D55E00", "#8C8C8C"
_Z95 = 1.959964
_MOST_ROWS = 40
_LONGEST_NAME = 48
_FARTHEST_Z = 12.0
_SMALLEST_EIGENVALUE = 1e-33
_FORMATS = {".png": "png", ".pdf": "pdf", ".svg": "svg"}
_ROW_HEIGHT, _PANEL, _PAD = 0.27, 3.6, 0.12  # inches
_TITLE = 22  # points from the axes to a title, above the columns' heads
_SIDE_BY_SIDE = 14  # a longer table is taller than the panels next to it
_MOST_LABELS, _MOST_DECIMALS = 16, 8


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
    rows, more = _chosen(result, statistics)
    labels = [_text((names or {}).get(row.name, row.name)) for row in rows]
    own = ax is None
    ax = _new_axes() if ax is None else ax
    true = [_true(truth, row.name) for row in rows]
    sampled = any(_seen(row) and _se(row) is not None for row in rows)
    if sampled and truth is not None:
        _draw_errors(ax, rows, true)
    elif sampled:
        _draw_precision(ax, rows)
    elif truth is not None and any(_seen(row) for row in rows):
        _draw_differences(ax, rows, true)
    else:
        _draw_visibility(ax, rows)
    _label_rows(ax, rows, labels, more)
    _write_columns(ax, rows, None if truth is None else true, sampled)
    ax.set_title(f"Statistics recovered from {_text(result.release)}", loc="left", pad=_TITLE)
    _finish(ax)
    if own:
        _fit(ax.figure, heights=[_table_height(len(rows) + bool(more))])
    return ax


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
    ax = _new_axes() if ax is None else ax
    points = _draw_scatter(ax, result, truth)
    if own:
        _fit(ax.figure)
    _label_points(ax, points)
    return ax


def plot_spectrum(result: Recovery, ax: "Axes | None" = None) -> "Axes":
    """Eigenvalues of the score kernel on generic records, largest first, and the rank that was kept.

    A clear gap after the rank means that the release determines finitely many features of the data and that
    all of them were used. Values at rounding level are grey; zeros are drawn at 1e-33.

    Args:
        ax: where to draw.

    Returns:
        The Axes.

    >>> ax = plot_spectrum(result)  # doctest: +SKIP
    """
    from matplotlib.ticker import MaxNLocator

    own = ax is None
    ax = _new_axes() if ax is None else ax
    values = np.nan_to_num(np.asarray(result.spectrum, float).ravel(), nan=0.0, posinf=1.0)
    values = np.maximum(values / (values.max() if values.size and values.max() > 0 else 1.0), _SMALLEST_EIGENVALUE)
    index, kept = np.arange(1, values.size + 1), int(np.clip(result.rank, 0, values.size))
    ax.set_yscale("log")
    bottom = min(values.min(initial=1.0), 1e-3) / 10
    ax.set_ylim(bottom, 10)
    ax.set_xlim(0, max(values.size, 1) + 1)
    last = math.floor(math.log10(bottom))
    _set_ticks(ax.yaxis, [10.0**e for e in range(0, last, last // 7)])
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    ax.grid(axis="y", color=_GREY, alpha=0.2, lw=0.8)
    ax.axvline(kept + 0.5, color=_GREY, lw=1, ls="--", zorder=1)
    if kept:
        ax.plot(index[:kept], values[:kept], "o", ms=4.5, color=_BLUE, zorder=3, label=f"kept ({kept})")
    if kept < values.size:
        rest = f"at rounding level ({values.size - kept})"
        ax.plot(index[kept:], values[kept:], "o", ms=3.5, mfc="none", color=_GREY, zorder=2, label=rest)
    if result.gap:
        note = f"rank {result.rank}: everything\nabove the gap is kept"
    else:
        note = f"rank {result.rank}, no gap:\nregularised at the noise level"
    if kept <= 0.55 * values.size:
        # Beside the line, above the values that follow it.
        place = {"xy": (kept + 0.5, 0.95), "xycoords": ax.get_xaxis_transform(), "xytext": (6, 0), "va": "top"}
    else:
        # Under a curve that decreases.
        place = {"xy": (0, 0.05), "xycoords": ax.transAxes, "xytext": (8, 0), "va": "bottom"}
    ax.annotate(note, textcoords="offset points", ha="left", fontsize="small", **place)
    ax.set_xlabel("index")
    ax.set_ylabel("eigenvalue, relative to the largest")
    ax.set_title("Spectrum of the score kernel", loc="left")
    _despine(ax)
    _finish(ax)
    if own:
        _fit(ax.figure)
    return ax


def plot_summary(
    result: Recovery, truth: Mapping[str, float] | None = None, path: str | Path | None = None
) -> np.ndarray:
    """One figure of the whole result: the recovered statistics and the spectrum.

    With `truth`, a scatter of recovered against true values is added and the statistics are shown by their
    error in standard errors.

    Args:
        truth: true values by name, from `bayesrecon.evaluate.true_statistics`.
        path: where to save the figure, a .png, .pdf or .svg file that appears only once it is complete. The
            figure then stays outside pyplot, so that nothing is left to close or to be shown.

    Returns:
        The Axes in an array: recovered against true (with `truth`), statistics, spectrum.

    Raises:
        BayesreconError: for a path with another suffix or in a folder that does not exist.

    >>> axes = plot_summary(result, truth, "summary.pdf")  # doctest: +SKIP
    """
    kind = None
    if path is not None:
        kind = _FORMATS.get(Path(path).suffix.lower())
        if kind is None:
            raise BayesreconError(f"cannot write {path}: the name must end in {', '.join(_FORMATS)}")
    figure = _new_figure(pyplot=path is None)
    rows, more = _chosen(result, None)
    lines = len(rows) + bool(more)
    compared = truth is not None
    if lines <= _SIDE_BY_SIDE:
        widths, heights = [_PANEL] * (2 + compared), [max(_PANEL, _table_height(lines))]
        grid = figure.add_gridspec(1, len(widths))
        axes = [figure.add_subplot(grid[0, i]) for i in range(len(widths))]
    else:
        widths, heights = [_PANEL, _PANEL], [_PANEL] * (1 + compared)
        heights.append(max(_table_height(lines) - sum(heights), 0.3))
        grid = figure.add_gridspec(len(heights), 2, width_ratios=widths, height_ratios=heights)
        table = figure.add_subplot(grid[:, 0])
        side = [figure.add_subplot(grid[i, 1]) for i in range(1 + compared)]
        axes = [*side[:-1], table, side[-1]]
    points = _draw_scatter(axes[0], result, truth) if truth is not None else []
    plot_recovery(result, truth=truth, ax=axes[-2])
    plot_spectrum(result, ax=axes[-1])
    for ax, title in zip(axes[::-1], ("Spectrum", "Recovered statistics", "Recovered against true"), strict=False):
        ax.set_title(title, loc="left", pad=_TITLE)
    heading = f"{_text(result.release)}: {_count(result.draws, 'draw')}, rank {result.rank}"
    figure.suptitle(heading, weight="bold").set_usetex(False)
    _fit(figure, widths, heights)
    _label_points(axes[0], points)
    if path is not None:
        write_whole(Path(path), lambda temporary: figure.savefig(temporary, format=kind, dpi=150))
    return np.array(axes, dtype=object)


# Figures


def _new_axes() -> "Axes":
    return _new_figure().add_subplot()


def _new_figure(pyplot: bool = True) -> "Figure":
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=_PAD, h_pad=_PAD, wspace=0, hspace=0)
    if pyplot:
        import matplotlib.pyplot as plt

        return plt.figure(figsize=(12, 9), layout=layout)
    from matplotlib.figure import Figure

    return Figure(figsize=(12, 9), layout=layout)


def _table_height(lines: int) -> float:
    return _ROW_HEIGHT * max(lines, 4)


def _fit(figure: Any, widths: Sequence[float] = (_PANEL,), heights: Sequence[float] = (_PANEL,)) -> None:
    """Give the figure the size at which its panels have these widths and heights, and lay it out."""
    dots = figure.dpi
    for lay_out in (lambda: figure.get_layout_engine().execute(figure), figure.draw_without_rendering):
        sides, ends, tallest = np.zeros((len(widths), 2)), np.zeros((len(heights), 2)), 0.0
        for ax in figure.axes:
            box, whole, place = ax.bbox, ax.get_tightbbox(), ax.get_subplotspec()
            column, row = place.colspan.start, place.rowspan
            sides[column] = np.maximum(sides[column], [box.x0 - whole.x0, whole.x1 - box.x1])
            if len(row) == len(heights):
                tallest = max(tallest, sum(heights) + (whole.height - box.height) / dots)
            else:
                ends[row.start] = np.maximum(ends[row.start], [box.y0 - whole.y0, whole.y1 - box.y1])
        width = sum(widths) + sides.sum() / dots + 2 * _PAD * len(widths)
        height = max(tallest, sum(heights) + ends.sum() / dots) + 2 * _PAD * len(heights)
        figure.set_size_inches(width, height + (0.35 if figure.get_suptitle() else 0))
        lay_out()  # only then does a title wider than its panel show, so measure twice


# What a row says


def _chosen(result: Recovery, statistics: Sequence[str] | None) -> tuple[list[Row], int]:
    """The rows to show, and how many are left out."""
    if statistics is None:
        return list(result.rows[:_MOST_ROWS]), max(len(result.rows) - _MOST_ROWS, 0)
    known = {row.name: row for row in reversed(result.rows)}
    wanted = [statistics] if isinstance(statistics, str) else statistics
    for name in wanted:
        if name not in known:
            raise BayesreconError(f"no statistic {name!r}{near(str(name), known)}")
    return [known[name] for name in wanted], 0


def _finite(value: float | None) -> TypeGuard[float]:
    return value is not None and abs(value) < 1e290  # beyond, an axis would overflow


def _seen(row: Row) -> bool:
    return _finite(row.estimate) and row.verdict != "undetermined"


def _value(row: Row) -> float:
    return float(row.estimate) if _finite(row.estimate) else 0.0


def _se(row: Row) -> float | None:
    return float(row.se) if _finite(row.se) and row.se >= 0 else None


def _true(truth: Mapping[str, float] | None, name: str) -> float | None:
    value = None if truth is None else truth.get(name)
    return float(value) if _finite(value) else None


def _agrees(a: float, b: float) -> bool:
    return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)


def _inside(row: Row, true: float) -> bool | None:
    """Whether the truth lies in the 95 % interval; None for a row without a standard error."""
    se = _se(row)
    return None if se is None else abs(_value(row) - true) <= _Z95 * se or _agrees(_value(row), true)


# The four kinds of forest plot


def _draw_errors(ax: "Axes", rows: Sequence[Row], true: Sequence[float | None]) -> None:
    """Errors in units of the standard error; those beyond the axis as arrows at its end."""
    z: list[float | None] = []
    for row, x in zip(rows, true, strict=True):
        se = _se(row)
        if not _seen(row) or x is None or se is None:
            z.append(None)
        elif se:
            z.append((_value(row) - x) / se)
        else:
            z.append(0.0 if _inside(row, x) else math.copysign(math.inf, _value(row) - x))
    largest = max((abs(v) for v in z if v is not None), default=0.0)
    limit = min(max(largest + _Z95 + 0.4, 4.0), _FARTHEST_Z)
    ax.set_xlim(-limit, limit)
    ax.axvspan(-_Z95, _Z95, color=_GREY, alpha=0.16, lw=0, zorder=0)
    ax.axvline(0, color=_GREY, lw=1, zorder=1)
    for i, (row, value) in enumerate(zip(rows, z, strict=True)):
        if value is None:
            continue
        if abs(value) > limit - 0.4:
            text = _minus(f"z = {value:.3g}") if _se(row) else "exact, yet off"
            _arrow(ax, math.copysign(limit - 0.4, value), i, value > 0, text, off=True)
            continue
        inside = abs(value) <= _Z95
        if _se(row):
            ends = [max(value - _Z95, -limit), min(value + _Z95, limit)]
            ax.plot(ends, [i, i], color=_BLUE if inside else _RED, lw=1.4, zorder=2, solid_capstyle="butt")
        _mark(ax, value, i, row, inside)
    ax.set_xlabel(_minus("(recovered - true) / standard error"))


def _draw_precision(ax: "Axes", rows: Sequence[Row]) -> None:
    """Standard errors relative to the estimates, and the Cramer-Rao floor."""
    bars = [_ratio(_se(row), row.estimate) if _seen(row) and _se(row) else None for row in rows]
    floors = [_ratio(row.floor, row.estimate) if bar is not None else None for row, bar in zip(rows, bars, strict=True)]
    low, high = _draw_bars(ax, rows, bars, floors)
    if high > 1 / _Z95:
        ax.axvspan(1 / _Z95, high, color=_GREY, alpha=0.16, lw=0, zorder=0, label="95 % interval includes zero")
    for i, row in enumerate(rows):
        if _seen(row) and _se(row) == 0:
            _mark(ax, low, i, row, None)
    if any(floor is not None for floor in floors):
        ax.plot([], [], "|", color=_ink(), ms=8, mew=1.2, label="Cramér-Rao floor")
    ax.set_xlabel("standard error / |estimate|")


def _draw_differences(ax: "Axes", rows: Sequence[Row], true: Sequence[float | None]) -> None:
    """Relative differences from the truth, for a release without sampling error."""
    bars = [
        _ratio(_value(row) - x, x) if _seen(row) and x is not None else None for row, x in zip(rows, true, strict=True)
    ]
    _draw_bars(ax, rows, bars, [None] * len(rows))
    ax.set_xlabel(_minus("|recovered - true| / |true|"))


def _draw_visibility(ax: "Axes", rows: Sequence[Row]) -> None:
    for i, row in enumerate(rows):
        seen = _seen(row)
        share = float(np.clip(row.visibility, 0, 1)) if _finite(row.visibility) else 0.0
        ax.plot([0, share], [i, i], color=_BLUE if seen else _GREY, lw=1.6, zorder=2, solid_capstyle="butt")
        if seen:
            _mark(ax, share, i, row, None)
        else:
            ax.plot(share, i, "o", ms=5, color=_GREY, zorder=3, clip_on=False)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("share of the statistic that the release determines")


def _ratio(part: float | None, whole: float | None) -> float | None:
    if part is None or whole is None or not (_finite(part) and _finite(whole)):
        return None
    return abs(part / whole) if whole else math.inf if part else 0.0


def _draw_bars(
    ax: "Axes", rows: Sequence[Row], bars: Sequence[float | None], floors: Sequence[float | None]
) -> tuple[float, float]:
    """Bars on a logarithmic axis of shares, with ticks in per cent; its limits."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    inner = [float(np.clip(v, 1e-12, 10)) for v in [*bars, *floors] if v is not None]
    bottom = math.floor(math.log10(min(inner, default=1e-3)) - 0.3)
    top = max(math.ceil(math.log10(max(inner, default=1e-1))), bottom + 2, -1)
    low, high = 10.0**bottom, 10.0 ** (top + 0.15)
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    step = math.ceil((top - bottom) / 5)
    ticks = range(bottom, top + 1, step)
    ax.xaxis.set_major_locator(FixedLocator([10.0**e for e in ticks]))
    ax.xaxis.set_major_formatter(FixedFormatter([f"{_power(10.0 ** (e + 2))} %" for e in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.grid(axis="x", color=_GREY, alpha=0.2, lw=0.8)
    for i, (row, bar, floor) in enumerate(zip(rows, bars, floors, strict=True)):
        if bar is None:
            continue
        if bar > high:
            _arrow(ax, high, i, True, "over 1000 %" if math.isfinite(bar) else "relative to 0")
            continue
        bar = max(bar, low)
        ax.plot([low, bar], [i, i], color=_BLUE, lw=1.6, zorder=2, solid_capstyle="butt")
        _mark(ax, bar, i, row, None)
        if floor:
            ax.plot(max(floor, low), i, "|", color=_ink(), ms=8, mew=1.2, zorder=4)
    return low, high


_INSIDE, _OUTSIDE, _PART, _EXACT = "truth in 95 % interval", "truth outside", "seen in part", "exact"
_COUNTED = (_INSIDE, f"{_INSIDE}, {_PART}", _OUTSIDE, f"{_OUTSIDE}, {_PART}", _PART, _EXACT)


def _mark(ax: "Axes", x: float, y: float, row: Row, inside: bool | None, within: bool = False) -> None:
    """A point: hollow when seen in part, a diamond when exact, a red square when the truth lies outside.

    `inside` is None where nothing is compared with the truth; `within` keeps the mark inside the axes.
    """
    exact, off, partly = _se(row) == 0 and inside is not False, inside is False, row.verdict == "partly"
    words = [] if inside is None else [_OUTSIDE if off else _INSIDE]
    words = [_EXACT] if exact else words + [_PART] * partly
    colour = _RED if off else _ink() if exact else _BLUE
    ax.plot(
        x,
        y,
        marker="s" if off else "D" if exact else "o",
        ms=(5 if off or exact else 6) - within,
        mfc=ax.get_facecolor() if partly else colour,
        mec=colour,
        mew=1.4,
        ls="none",
        zorder=3,
        clip_on=within,
        label=", ".join(words) or None,
    )


def _arrow(ax: "Axes", x: float, y: float, right: bool, text: str, off: bool = False) -> None:
    """A value beyond the end of the axis."""
    colour = _RED if off else _BLUE
    label = _OUTSIDE if off else None
    ax.plot(x, y, ">" if right else "<", ms=6, color=colour, zorder=3, clip_on=False, label=label)
    ax.annotate(
        text,
        (x, y),
        xytext=(-8 if right else 8, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontsize="small",
        color=colour,
    )


# Recovered against true


def _draw_scatter(ax: "Axes", result: Recovery, truth: Mapping[str, float]) -> list[tuple[Row, float]]:
    """Everything but the names, which need the final layout; returns the rows shown and their true values."""
    shown = [(row, x) for row in result.rows if _seen(row) and (x := _true(truth, row.name)) is not None]
    ax.set_title(f"{_text(result.release)}: recovered against true", loc="left")
    ax.set_xlabel("true value")
    ax.set_ylabel("recovered value")
    _despine(ax)
    limits = _set_common_scale(ax, shown)
    if not shown:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "nothing to compare", transform=ax.transAxes, ha="center", va="center", color=_GREY)
    else:
        ax.plot(limits, limits, color=_GREY, lw=1, zorder=1, label="recovered = true")
    for row, x in shown:
        inside = _inside(row, x)
        if _se(row) and _finite(row.lower) and _finite(row.upper):
            ends = [row.lower, row.upper]
            ax.plot(
                [x, x],
                ends,
                color=_RED if inside is False else _BLUE,
                lw=1.4,
                zorder=2,
                solid_capstyle="butt",
            )
        _mark(ax, x, _value(row), row, inside, within=True)
    hidden = sum(not _seen(row) for row in result.rows)
    if hidden:
        note = f"{hidden} of {len(result.rows)} not determined"
        ax.text(0.98, 0.03, note, transform=ax.transAxes, ha="right", color=_GREY, fontsize="small")
    _finish(ax)
    return shown


def _set_common_scale(ax: "Axes", shown: Sequence[tuple[Row, float]]) -> tuple[float, float]:
    """One scale for both axes, and its limits."""
    values = [float(v) for row, x in shown for v in (x, row.estimate, row.lower, row.upper) if _finite(v)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    largest = max(abs(low), abs(high)) or 1.0
    widths = [_Z95 * se for row, _ in shown if (se := _se(row))]
    # Values of both signs: symmetric-logarithmic if even a usual interval would vanish on a linear scale.
    unit = max(float(np.median(widths)) if widths else 0.0, largest * 1e-9)
    if low > 0 and high > 20 * low:
        low = max(low, high * 1e-20)
        stretch = 1.2 * (high / low) ** 0.06
        limits = (low / stretch, high * stretch)
        scale, ticks = {"value": "log"}, _powers(low, high, 6)
        if len(ticks) < 3:
            first = math.floor(math.log10(low))
            ticks = [m * 10.0 ** (first + e) for e in range(4) for m in (1, 2, 5)]
            ticks = [tick for tick in ticks if limits[0] <= tick <= limits[1]]
    elif low <= 0 and high - low > 100 * unit:
        threshold = 10.0 ** math.floor(math.log10(unit))
        stretch = 1.2 * (largest / threshold) ** 0.06
        limits = (low * stretch - 0.5 * threshold, max(high, 0.0) * stretch + 0.5 * threshold)
        powers = _powers(10 * threshold, largest, 3)
        scale, ticks = {"value": "symlog", "linthresh": threshold}, [*(-p for p in powers), 0.0, *powers]
    else:
        margin = 0.08 * (high - low) or 0.5 * largest
        limits = (low - margin, high + margin)
        scale, ticks = {"value": "linear"}, []
    ax.set_xscale(**scale)
    ax.set_yscale(**scale)
    if ticks:
        _set_ticks(ax.xaxis, ticks)
        _set_ticks(ax.yaxis, ticks)
    ax.set_xlim(limits)
    ax.set_ylim(limits)
    ax.set_aspect("equal", adjustable="box", anchor="W")
    return limits


def _powers(low: float, high: float, most: int) -> list[float]:
    """Powers of ten from the largest down, evenly spaced, at most `most`."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    step = max(math.ceil((last - first + 1) / most), 1)
    return [10.0**e for e in range(last, first - 1, -step)]


def _set_ticks(axis: Any, ticks: Sequence[float]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FixedFormatter([_power(t) for t in ticks]))
    axis.set_minor_locator(NullLocator())


def _power(value: float) -> str:
    if value == 0 or 1e-4 < abs(value) < 1e6:
        return _minus(f"{value:g}")
    exponent = math.floor(math.log10(abs(value)) + 1e-9)
    digit = round(abs(value) / 10.0**exponent)
    factor = "" if digit == 1 else rf"{digit}\cdot "
    return f"${'-' if value < 0 else ''}{factor}10^{{{exponent}}}$"


def _label_points(ax: "Axes", shown: Sequence[tuple[Row, float]]) -> None:
    """Names beside the points where there is room, those that miss the truth first."""
    pad, frame = 4 * ax.figure.dpi / 72, ax.get_window_extent()
    boxes = []
    for row, x in shown:
        ends = [v for v in (row.estimate, row.lower, row.upper) if _finite(v)]
        across, below = ax.transData.transform((x, min(ends)))
        boxes.append((across - pad, below - pad, across + pad, ax.transData.transform((x, max(ends)))[1] + pad))
    order = sorted(range(len(shown)), key=lambda i: _inside(*shown[i]) is not False)
    for i in order:
        row, x = shown[i]
        for dx, dy, ha, va in _PLACES if len(shown) <= _MOST_LABELS else _PLACES[:2]:
            label = ax.annotate(
                _text(row.name),
                (x, _value(row)),
                xytext=(dx, dy),
                textcoords="offset points",
                ha=ha,
                va=va,
                fontsize="x-small",
            )
            label.set_usetex(False)
            box = label.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not any(box.x0 < c and a < box.x1 and box.y0 < d and b < box.y1 for a, b, c, d in boxes):
                boxes.append((box.x0, box.y0, box.x1, box.y1))
                break
            label.remove()


_PLACES = (
    (7, -1, "left", "center"),
    (-7, 1, "right", "center"),
    (5, -5, "left", "top"),
    (-5, 5, "right", "bottom"),
    (7, -10, "left", "top"),
    (-7, 10, "right", "bottom"),
)


# Labels, columns and legend


def _label_rows(ax: "Axes", rows: Sequence[Row], labels: Sequence[str], more: int) -> None:
    ticks = [*labels, f"and {more} more"] if more else list(labels)
    ax.set_ylim(len(ticks) - 0.4, -0.6)
    ax.set_yticks(range(len(ticks)), ticks)
    ax.tick_params(axis="y", length=0, pad=8)
    for i, label in enumerate(ax.get_yticklabels()):
        if i >= len(rows) or not _seen(rows[i]):
            label.set_color(_GREY)
        if i >= len(rows):
            label.set_fontstyle("italic")
    for i in range(len(rows)):
        ax.axhline(i, color=_GREY, alpha=0.18, lw=0.8, zorder=0)
    _despine(ax, left=True)


def _write_columns(ax: "Axes", rows: Sequence[Row], true: Sequence[float | None] | None, sampled: bool) -> None:
    """Recovered values, errors and true values (or intervals) in columns right of the axes."""
    estimates, errors, last = [], [], []
    for i, row in enumerate(rows):
        x = None if true is None else true[i]
        estimate, error, other = _numbers(row, x)
        if true is None and error.startswith("±") and _finite(row.lower) and _finite(row.upper):
            show = _format_like(row)
            other = f"{show(row.lower)} to {show(row.upper)}"
        estimates.append(estimate)
        errors.append(error)
        last.append(other)
    gap = 10.0
    edge = _column(ax, gap, estimates, "right", rows)
    edge = _column(ax, edge + 3, errors, "left", rows) if any(errors) else edge
    absent = [("not determined" if not _seen(row) else "") for row in rows]
    edge = max(edge, _column(ax, gap, absent, "left", rows)) if any(absent) else edge
    if rows:
        edge = max(edge, _header(ax, gap, edge, "recovered ± s.e." if sampled else "recovered", "left"))
    if any(last):
        start = edge + 14
        title = "95 % interval" if true is None else "true"
        width = max(_width(ax, [*last, title]))
        _column(ax, start, last, "right", rows, width)
        _header(ax, start, start + width, title, "right")


def _format_like(row: Row) -> Callable[[float], str]:
    """A function that writes a number to the digits that the row's standard error supports."""
    se = _se(row)
    if not se:
        return lambda value: _minus(f"{value:.6g}")
    exponent = math.floor(math.log10(max(abs(_value(row)), se)))
    exponent = exponent if exponent >= 7 or -300 < exponent < -3 else 0
    scale, suffix = 10.0**exponent, f"e{exponent}" if exponent else ""
    decimals = min(max(1 - math.floor(math.log10(max(se / scale, 1e-99))), 0), _MOST_DECIMALS)
    return lambda value: _minus(f"{value / scale:.{decimals}f}{suffix}")


def _numbers(row: Row, true: float | None) -> tuple[str, str, str]:
    """Estimate, error and true value as texts."""
    show, se = _format_like(row), _se(row)
    if not _seen(row):
        return "", "", "" if true is None else _minus(f"{true:.5g}")
    error = "exact" if se == 0 else ""
    if se:
        error = show(se)
        if not any(c in "123456789" for c in error.split("e")[0]):
            error = _minus(f"{se:.1g}")  # below the last digit shown
        error = f"± {error}"
    return show(_value(row)), error, "" if true is None else show(true)


def _column(
    ax: "Axes", start: float, texts: Sequence[str], align: str, rows: Sequence[Row], width: float = 0.0
) -> float:
    """Texts in the rows of a column that starts `start` points right of the axes; where it ends."""
    width = max([width, *_width(ax, texts)])
    at = start + width if align == "right" else start
    for i, text in enumerate(texts):
        if text:
            colour = _ink() if _seen(rows[i]) else _GREY
            _beside(ax, at, i, text, ha=align, va="center", color=colour, fontsize="small")
    return start + width


def _header(ax: "Axes", start: float, end: float, text: str, align: str) -> float:
    (width,) = _width(ax, [text])
    _beside(ax, start if align == "left" else end, 1, text, head=True, ha=align, va="bottom", fontsize="small")
    return start + width


def _beside(ax: "Axes", points: float, y: float, text: str, head: bool = False, **style: Any) -> None:
    where = ax.transAxes if head else ax.get_yaxis_transform()
    offset = (points, 4 if head else 0)
    ax.annotate(text, (1, y), xycoords=where, xytext=offset, textcoords="offset points", **style)


def _width(ax: "Axes", texts: Iterable[str]) -> list[float]:
    """Widths of small texts in points."""
    figure = ax.figure
    probe = figure.text(0, 0, "", fontsize="small", usetex=False)
    widths = []
    for text in texts:
        probe.set_text(text)
        widths.append(probe.get_window_extent().width * 72 / figure.dpi if text else 0.0)
    probe.remove()
    return widths


def _legend_below(ax: "Axes") -> None:
    """A legend under the axis label; marks are counted."""
    from matplotlib.transforms import ScaledTranslation

    groups: dict[str, list[Any]] = {}
    for handle, word in zip(*ax.get_legend_handles_labels(), strict=True):
        groups.setdefault(word, []).append(handle)
    if not groups:
        return
    order = [*_COUNTED, *(word for word in groups if word not in _COUNTED)]
    groups = {word: groups[word] for word in order if word in groups}
    below = ScaledTranslation(0, -38 / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        [min(handles, key=lambda h: getattr(h, "get_marker", str)() in ("<", ">")) for handles in groups.values()],
        [f"{word} ({len(handles)})" if word in _COUNTED else word for word, handles in groups.items()],
        loc="upper center",
        bbox_to_anchor=(0.5, 0),
        bbox_transform=ax.transAxes + below,
        ncols=2,
        frameon=False,
        fontsize="small",
        borderaxespad=0,
        handletextpad=0.5,
        columnspacing=1.2,
    )


def _ink() -> str:
    from matplotlib import rcParams

    return rcParams["text.color"]


def _finish(ax: "Axes") -> None:
    """The legend, and no TeX: names come from files."""
    from matplotlib.text import Text

    _legend_below(ax)
    for text in ax.findobj(Text):
        text.set_usetex(False)  # type: ignore[attr-defined]


def _minus(text: str) -> str:
    from matplotlib.ticker import Formatter

    return Formatter.fix_minus(text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _text(name: str, longest: int = _LONGEST_NAME) -> str:
    """A name as a label: printable characters that the font has, not too long, no mathematics between `$`."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = [get_font(findfont(FontProperties(family=[family]))) for family in FontProperties().get_family()]
    name = str(name)
    if len(name) > longest:
        name = f"{name[: longest - 1]}…"
    known = (c.isprintable() and any(font.get_char_index(ord(c)) for font in fonts) for c in name)
    return "".join(c if k else "?" for c, k in zip(name, known, strict=True)).replace("$", r"\$")


def _despine(ax: "Axes", left: bool = False) -> None:
    ax.spines[["top", "right", "left"] if left else ["top", "right"]].set_visible(False)
