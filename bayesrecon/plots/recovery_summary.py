"""One figure of a whole recovery."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError, near
from bayesrecon.plots.style import (
    BLUE,
    GREY,
    PANEL,
    RED,
    ROUNDING,
    TITLE_PAD,
    Columns,
    axes_of,
    draw_marks,
    finish,
    fit,
    head,
    label,
    minus,
    name_rows,
    numbers,
    panel,
    power,
    select,
    set_ticks,
    sheet,
    tabulate,
    write,
)
from bayesrecon.results.recovery import Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import HashableList


# The forest plot: one row per recovered statistic, with its precision or its error.


MOST_ROWS = 40
_FARTHEST_Z = 12.0
_ARROW = 0.4  # length of an arrow at the end of the axis, in standard errors


def plot_recovery(
    result: Recovery,
    *,
    truth: Mapping[str, float] | None = None,
    ax: "Axes | None" = None,
    statistics: Sequence[str] | None = None,
    names: Mapping[str, str] | None = None,
    path: str | Path | None = None,
) -> "Axes":
    """A forest plot of the recovered statistics: one row each, with their values in columns on the right.

    * With `truth`: the horizontal axis is the error in standard errors. Points have 95 % intervals. The grey band is
      from -1.96 to 1.96.
    * Without `truth`: bars are standard errors relative to the estimates. A tick is the Cramer-Rao floor. Above 51 %
      the 95 % interval includes zero.
    * A trained parameter has no sampling error. The axis is then the relative error with `truth`, and the visibility
      without.

    Hollow markers are partly determined statistics. Their scale is half the 95 % interval divided by 1.96 instead of a
    standard error. Undetermined statistics are grey.

    Args:
        result: result of `bayesrecon.recover`.
        truth: true values by name, from `bayesrecon.evaluate.true_statistics`.
        ax: Axes to draw into; by default a new figure. Columns and legend are outside it, so use a constrained layout.
        statistics: names of the statistics to show, in this order; by default the first 40.
        names: `{name: label}`, other labels for some of the statistics.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.
    """
    by_name = {row.name: row for row in reversed(result.rows)}
    requested = [statistics] if isinstance(statistics, str) else statistics
    for name in requested or ():
        if name not in by_name:
            raise BayesreconError(f"no statistic {name!r}{near(str(name), by_name)}")
    rows = result.rows[:MOST_ROWS] if requested is None else [by_name[name] for name in requested]
    table = tabulate(replace(result, rows=tuple(rows)), truth)
    labels = [label((names or {}).get(row.name, row.name)) for row in rows]
    if requested is None and len(result.rows) > MOST_ROWS:
        labels.append(f"and {len(result.rows) - MOST_ROWS} more")
    with panel(ax, path, [table_height(len(labels))]) as ax:
        sampled = bool(np.isfinite(table["scale"]).any())
        if sampled and truth is not None:
            _draw_errors(ax, table)
        elif sampled:
            _draw_precision(ax, table)
        elif truth is not None and np.isfinite(table["estimate"]).any():
            _draw_bars(ax, table, _relative(table["estimate"] - table["true"], table["true"]))
            ax.set_xlabel(minus("|recovered - true| / |true|"))
        else:
            _draw_visibility(ax, table)
        _label_rows(ax, table, labels)
        if rows:
            write_columns(ax, table, truth is not None, sampled)
        ax.set_title(f"Statistics recovered from {label(result.release)}", loc="left", pad=TITLE_PAD)
    return ax


def table_height(lines: int) -> float:
    return 0.27 * max(lines, 4)  # inches


def _draw_errors(ax: "Axes", table: Columns) -> None:
    """Errors in standard errors. Errors beyond the end of the axis are arrows there."""
    z, rows = table["z"], np.arange(len(table["name"]))
    limit = float(np.clip(np.abs(np.nan_to_num(z)).max() + Z95 + _ARROW, 4.0, _FARTHEST_Z))
    far = np.abs(z) > limit - _ARROW
    near = (np.abs(z) <= limit - _ARROW) & (table["scale"] > 0)
    ax.set_xlim(-limit, limit)
    ax.axvspan(-Z95, Z95, color=GREY, alpha=0.16, lw=0, zorder=0)
    ax.axvline(0, color=GREY, lw=1, zorder=1)
    scale = np.where(table["scale"] > 0, table["scale"], np.nan)
    ends = np.clip([(table[end] - table["true"]) / scale for end in ("lower", "upper")], -limit, limit)[:, near]
    colours = np.where(table["off"], RED, BLUE)[near].tolist()
    ax.hlines(rows[near], *ends, colors=colours, lw=1.4, zorder=2)
    for i in rows[far]:
        text = minus(f"z = {z[i]:.3g}") if table["scale"][i] else "exact, yet off"
        _draw_arrow(ax, math.copysign(limit - _ARROW, z[i]), i, text, RED)
    draw_marks(ax, table, np.where(far, np.inf, z), rows)
    ax.set_xlabel(minus("(recovered - true) / standard error"))


def _draw_precision(ax: "Axes", table: Columns) -> None:
    """Standard errors relative to the estimates, and the Cramer-Rao floor."""
    floors = _relative(table["floor"], table["estimate"])
    _draw_bars(ax, table, _relative(table["scale"], table["estimate"]), floors)
    low, high = ax.get_xlim()
    if high > 1 / Z95:
        ax.axvspan(1 / Z95, high, color=GREY, alpha=0.16, lw=0, zorder=0, label="95 % interval includes zero")
    (visible,) = np.nonzero(floors <= high)
    if visible.size:
        floor = np.maximum(floors[visible], low)
        ax.plot(floor, visible, "|", color=ax.title.get_color(), ms=8, mew=1.2, zorder=4, label="Cramér-Rao floor")
    ax.set_xlabel("standard error / |estimate|")


def _relative(part: np.ndarray, total: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(part == 0, 0 * total, np.abs(part / total))


def _draw_bars(ax: "Axes", table: Columns, bars: np.ndarray, covered: np.ndarray | None = None) -> None:
    """Bars on a logarithmic axis with ticks in per cent. The axis also covers the values `covered`."""
    inner = bars if covered is None else np.concatenate([bars, covered])
    inner = np.log10(np.clip(inner[inner > 0], 1e-12, 10)) if (inner > 0).any() else np.array([-3, -1])
    bottom = math.floor(inner.min() - 0.3)
    top = max(math.ceil(inner.max()), bottom + 2, -1)
    low, high, rows = 10.0**bottom, 10.0 ** (top + 0.15), np.arange(len(table["name"]))
    exponents = range(bottom, top + 1, math.ceil((top - bottom) / 5))
    ax.set_xscale("log")
    set_ticks(ax.xaxis, [10.0**e for e in exponents], [f"{power(10.0 ** (e + 2))} %" for e in exponents])
    ax.set_xlim(low, high)
    ax.grid(axis="x", color=GREY, alpha=0.2, lw=0.8)
    ends = np.where(bars > high, np.inf, np.maximum(bars, low))
    ax.hlines(rows[bars <= high], low, ends[bars <= high], color=BLUE, lw=1.6, zorder=2)
    for i in rows[bars > high]:
        _draw_arrow(ax, high, i, "over 1000 %" if math.isfinite(bars[i]) else "relative to 0", BLUE)
    draw_marks(ax, table, ends, rows)


def _draw_visibility(ax: "Axes", table: Columns) -> None:
    determined, share = np.isfinite(table["estimate"]), np.nan_to_num(table["visibility"])
    rows = np.arange(len(table["name"]))
    colours = np.where(determined, BLUE, GREY).tolist()
    ax.hlines(rows, 0, share, colors=colours, lw=1.6, zorder=2)
    if not determined.all():
        ax.plot(share[~determined], rows[~determined], "o", ms=5, color=GREY, zorder=3, clip_on=False)
    draw_marks(ax, table, np.where(determined, share, np.nan), rows)
    ax.set_xlim(0, 1.02)
    ax.set_xlabel("share of the statistic that the release determines")


def _draw_arrow(ax: "Axes", x: float, y: float, text: str, colour: str) -> None:
    """A value beyond the end of the axis."""
    marker, offset, side = (">", -8, "right") if x > 0 else ("<", 8, "left")
    ax.plot(x, y, marker, ms=6, color=colour, zorder=3, clip_on=False)
    write(ax, text, (x, y), (offset, 0), ha=side, va="center", color=colour)


def _label_rows(ax: "Axes", table: Columns, labels: Sequence[str]) -> None:
    """A label and a faint line for each row, and a note if rows are omitted."""
    name_rows(ax, labels, np.isnan(table["estimate"]))
    ax.tick_params(axis="y", length=0, pad=8)
    ax.hlines(
        range(len(table["name"])), 0, 1, transform=ax.get_yaxis_transform(), color=GREY, alpha=0.18, lw=0.8, zorder=0
    )


# The columns of numbers on the right of a forest plot.

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

    beside = partial(write, ax, xycoords=ax.get_yaxis_transform())
    top = ax.get_ylim()[1]
    beside(recovered, (1, top), (_START, 4), ha="left", va="bottom")
    if any(comparison):
        beside(header, (1, top), (right_edge, 4), ha="right", va="bottom")
    for column, x, ha in (
        (missing, _START, "left"),
        (values, error_edge, "right"),
        (errors, error_edge + _SPACE, "left"),
        (comparison, right_edge, "right"),
    ):
        for i, text in enumerate(column):
            if text:
                beside(text, (1, i), (x, 0), ha=ha, va="center", color=None if values[i] else GREY)


def _width(ax: "Axes", texts: Iterable[str]) -> float:
    """Width of the longest of these small texts, in points."""
    probe = ax.figure.text(0, 0, "", fontsize="small", usetex=False)
    widths = [0.0]
    for text in filter(None, texts):
        probe.set_text(text)
        widths.append(probe.get_window_extent().width * 72 / ax.figure.dpi)
    probe.remove()
    return max(widths)


_TITLES = {"scatter": "Recovered against true", "table": "Recovered statistics", "spectrum": "Spectrum"}
_SIDE_BY_SIDE = 14  # with more rows, the table would be taller than the panels beside it


def plot_summary(
    result: Recovery, truth: Mapping[str, float] | None = None, path: str | Path | None = None
) -> np.ndarray:
    """One figure of the whole result: the recovered statistics and the spectrum.

    With `truth`, the figure also has a scatter plot of recovered against true values, and shows errors in standard
    errors.

    Args:
        result: result of `bayesrecon.recover`.
        truth: true values by name, from `bayesrecon.evaluate.true_statistics`.
        path: save the figure there (.png, .pdf or .svg). The figure is then not registered with pyplot, so it need not
            be closed.

    Returns:
        The Axes in an array: recovered against true (with `truth`), statistics, spectrum.

    Raises:
        BayesreconError: the path has another suffix or is in a folder that does not exist.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> axes = plot_summary(bayesrecon.recover(release))
    >>> [ax.get_title("left") for ax in axes]
    ['Recovered statistics', 'Spectrum']
    """
    lines = min(len(result.rows), MOST_ROWS + 1)
    panels = [panel for panel in _TITLES if panel != "scatter" or truth is not None]
    if lines <= _SIDE_BY_SIDE:
        mosaic: list[HashableList[str]] = [[*panels]]
        heights = [max(PANEL, table_height(lines))]
    else:
        mosaic = [["table", panel] for panel in [*panels, "."] if panel != "table"]
        heights = [PANEL] * (len(panels) - 1)
        heights.append(max(table_height(lines) - sum(heights), 0.3))
    with sheet(path) as figure:
        axes = figure.subplot_mosaic(mosaic, height_ratios=heights)
        table = None if truth is None else draw_scatter(axes["scatter"], result, truth)
        plot_recovery(result, truth=truth, ax=axes["table"])
        plot_spectrum(result, ax=axes["spectrum"])
        for name in panels:
            axes[name].set_title(_TITLES[name], loc="left", pad=TITLE_PAD)
        head(figure, f"{label(result.release)}: {result.draws} draw{'s' * (result.draws != 1)}, rank {result.rank}")
        fit(figure, [PANEL] * len(mosaic[0]), heights)
        if table is not None:
            label_points(axes["scatter"], table)
    return np.array([axes[panel] for panel in panels], dtype=object)


# Recovered values against true ones.

# Possible positions of a name: the offset from its point, and its alignment.
_PLACES = (
    (7, -1, "left", "center"),
    (-7, 1, "right", "center"),
    (5, -5, "left", "top"),
    (-5, 5, "right", "bottom"),
)
_CROWD = 16


def plot_recovered_against_true(result: Recovery, truth: Mapping[str, float], ax: "Axes | None" = None) -> "Axes":
    """Recovered values against true ones, with 95 % intervals and the identity line.

    Both axes have the same scale: linear, or (symmetric-)logarithmic if the values span orders of magnitude. A note in
    a corner counts the undetermined statistics. Points are labelled if there is room.

    Args:
        result: result of `bayesrecon.recover`.
        truth: true values by name, from `bayesrecon.evaluate.true_statistics`.
        ax: Axes to draw into; by default a new figure.

    Returns:
        The Axes.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> from matplotlib.figure import Figure
    >>> result, ax = bayesrecon.recover(release), Figure().add_subplot()
    >>> ax = plot_recovered_against_true(result, {"n": 100.0, "mean(y)": 1.0}, ax=ax)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('true value', 'recovered value')
    """
    ax, figure = axes_of(ax)
    table = draw_scatter(ax, result, truth)
    if figure is not None:
        fit(figure)
    label_points(ax, table)
    return ax


def draw_scatter(ax: "Axes", result: Recovery, truth: Mapping[str, float]) -> Columns:
    """Draw everything except the names, which need the final layout. Returns the table of the statistics shown."""
    table = tabulate(result, truth)
    undetermined = np.isnan(table["estimate"])
    hidden = int(undetermined.sum())
    table = select(table, ~(undetermined | np.isnan(table["true"])))
    limits = _set_common_scale(ax, table)
    bars = select(table, ~np.isnan(table["lower"] + table["upper"]))
    colours = np.where(bars["off"], RED, BLUE).tolist()
    ax.vlines(bars["true"], bars["lower"], bars["upper"], colors=colours, lw=1.4, zorder=2)
    draw_marks(ax, table, table["true"], table["estimate"], clip=True)
    if len(table["name"]):
        ax.plot(limits, limits, color=GREY, lw=1, zorder=1, label="recovered = true")
    else:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "nothing to compare", transform=ax.transAxes, ha="center", va="center", color=GREY)
    if hidden:
        note = f"{hidden} of {len(result.rows)} not determined"
        ax.text(0.98, 0.03, note, transform=ax.transAxes, ha="right", color=GREY, fontsize="small")
    ax.set(xlabel="true value", ylabel="recovered value")
    ax.set_title(f"{label(result.release)}: recovered against true", loc="left")
    finish(ax)
    return table


def _set_common_scale(ax: "Axes", table: Columns) -> tuple[float, float]:
    """One scale for both axes, and its limits."""
    values = np.concatenate([table[name] for name in ("true", "estimate", "lower", "upper")])
    values = values[np.isfinite(values)] if len(values) else np.array([0.0, 1.0])
    low, high, largest = values.min(), values.max(), np.abs(values).max() or 1.0
    # Values of both signs: symmetric-logarithmic if a typical interval would be invisible on a linear scale.
    typical = Z95 * table["scale"][table["scale"] > 0]
    unit = max(np.median(typical if typical.size else np.abs(values)), largest * 1e-9)
    if low > 0 and high > 20 * low:
        low = max(low, high * 1e-20)
        stretch = 1.2 * (high / low) ** 0.06
        limits = (low / stretch, high * stretch)
        ax.set(xscale="log", yscale="log")
        ticks = _powers(low, high, 6)
        if len(ticks) < 3:
            decade = 10.0 ** math.floor(math.log10(low))
            ticks = [m * decade for m in (1, 2, 5, 10, 20, 50, 100, 200, 500) if limits[0] <= m * decade <= limits[1]]
    elif low <= 0 and high - low > 100 * unit:
        threshold = 10.0 ** math.floor(math.log10(unit))
        stretch = 1.2 * (largest / threshold) ** 0.06
        limits = (low * stretch - 0.5 * threshold, max(high, 0.0) * stretch + 0.5 * threshold)
        ticks = _powers(10 * threshold, largest, 3)
        ticks = [*(-tick for tick in ticks), 0.0, *ticks]
        ax.set_xscale("symlog", linthresh=threshold)
        ax.set_yscale("symlog", linthresh=threshold)
    else:
        margin = 0.08 * (high - low) or 0.5 * largest
        limits = (low - margin, high + margin)
        ticks = []
        ax.set(xscale="linear", yscale="linear")
    if ticks:
        set_ticks(ax.xaxis, ticks)
        set_ticks(ax.yaxis, ticks)
    ax.set(xlim=limits, ylim=limits)
    ax.set_aspect("equal", adjustable="box", anchor="W")
    return limits


def _powers(low: float, high: float, most: int) -> list[float]:
    """Powers of ten from the largest down, evenly spaced, at most `most`."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return [10.0**e for e in range(last, first - 1, -max(math.ceil((last - first + 1) / most), 1))]


def label_points(ax: "Axes", table: Columns) -> None:
    """Names beside the points if there is room. Points that miss the truth come first."""
    from matplotlib.transforms import Bbox

    frame, values = ax.get_window_extent(), np.stack([table[name] for name in ("lower", "estimate", "upper")])
    corners = [np.column_stack([table["true"], end(values, axis=0)]) for end in (np.fmin.reduce, np.fmax.reduce)]
    boxes = zip(*map(ax.transData.transform, corners), strict=True)
    occupied = [Bbox(box).padded(4 * ax.figure.dpi / 72) for box in boxes]
    places = _PLACES if len(table["name"]) <= _CROWD else _PLACES[:2]
    for i in np.argsort(~table["off"].astype(bool), kind="stable"):
        name = ax.annotate(
            label(str(table["name"][i])),
            (table["true"][i], table["estimate"][i]),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize="x-small",
            usetex=False,
        )
        for x, y, ha, va in places:
            name.set(position=(x, y), ha=ha, va=va)
            box = name.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            if inside and not box.count_overlaps(occupied):
                occupied.append(box)
                break
        else:
            name.remove()


# The spectrum of the score kernel.


def plot_spectrum(result: Recovery, ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Eigenvalues of the score kernel on generic records, largest first, and the rank that was kept.

    A clear gap after the rank means that the release determines finitely many features of the data, and that all of
    them were used. Values at rounding level are grey. Smaller ones than 1e-18 are drawn there.

    Args:
        result: result of `bayesrecon.recover`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> from matplotlib.figure import Figure
    >>> ax = plot_spectrum(bayesrecon.recover(release), ax=Figure().add_subplot())
    >>> ax.get_legend().get_texts()[0].get_text()
    'kept (5)'
    """
    from matplotlib.ticker import MaxNLocator

    with panel(ax, path) as ax:
        values = np.nan_to_num(np.asarray(result.spectrum, float), nan=0.0, posinf=1.0)
        values = np.maximum(values / (values.max(initial=0.0) or 1.0), ROUNDING)
        index, kept = np.arange(1, values.size + 1), min(result.rank, values.size)
        bottom = min(values.min(initial=1.0), 1e-3) / 10
        last = math.floor(math.log10(bottom))
        ax.set_yscale("log")
        set_ticks(ax.yaxis, [10.0**e for e in range(0, last, last // 7)])
        ax.set(xlim=(0, max(values.size, 1) + 1), ylim=(bottom, 10))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        ax.grid(axis="y", color=GREY, alpha=0.2, lw=0.8)
        ax.axvline(kept + 0.5, color=GREY, lw=1, ls="--", zorder=1)
        if kept:
            ax.plot(index[:kept], values[:kept], "o", ms=4.5, color=BLUE, zorder=3, label=f"kept ({kept})")
        if kept < values.size:
            legend = f"at rounding level ({values.size - kept})"
            ax.plot(index[kept:], values[kept:], "o", ms=3.5, mfc="none", color=GREY, zorder=2, label=legend)
        if result.gap:
            note = f"rank {result.rank}: everything\nabove the gap is kept"
        else:
            note = f"rank {result.rank}, no gap:\nregularised at the noise level"
        annotate = partial(ax.annotate, note, textcoords="offset points", ha="left", fontsize="small")
        if kept <= 0.55 * values.size:
            # Beside the line, above the values that follow it.
            annotate(xy=(kept + 0.5, 0.95), xycoords=ax.get_xaxis_transform(), xytext=(6, 0), va="top")
        else:
            # Under a curve that decreases.
            annotate(xy=(0, 0.05), xycoords=ax.transAxes, xytext=(8, 0), va="bottom")
        ax.set_xlabel("index")
        ax.set_ylabel("eigenvalue, relative to the largest")
        ax.set_title("Spectrum of the score kernel", loc="left")
    return ax
