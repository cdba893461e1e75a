"""The forest plot: one row per recovered statistic, with its precision or its error."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError, near
from bayesrecon.plots.style import (
    BLUE,
    GREY,
    RED,
    TITLE_PAD,
    Columns,
    draw_marks,
    label,
    minus,
    numbers,
    panel,
    power,
    set_ticks,
    tabulate,
)
from bayesrecon.results.recovery import Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    determined, share, rows = (
        np.isfinite(table["estimate"]),
        np.nan_to_num(table["visibility"]),
        np.arange(len(table["name"])),
    )
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
    ax.annotate(
        text,
        (x, y),
        xytext=(offset, 0),
        textcoords="offset points",
        ha=side,
        va="center",
        fontsize="small",
        color=colour,
    )


def _label_rows(ax: "Axes", table: Columns, labels: Sequence[str]) -> None:
    """A label and a faint line for each row, and a note if rows are omitted."""
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.set_yticks(range(len(labels)), labels)
    ax.tick_params(axis="y", length=0, pad=8)
    ax.spines["left"].set_visible(False)
    texts = ax.get_yticklabels()
    for i in np.flatnonzero(np.isnan(table["estimate"])):
        texts[i].set_color(GREY)
    for text in texts[len(table["name"]) :]:
        text.set(color=GREY, fontstyle="italic")
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

    def write(text: str, x: float, y: float, ha: str, va: str, up: float = 0, colour: str | None = None) -> None:
        ax.annotate(
            text,
            (1, y),
            xycoords=ax.get_yaxis_transform(),
            xytext=(x, up),
            textcoords="offset points",
            ha=ha,
            va=va,
            color=colour,
            fontsize="small",
        )

    top = ax.get_ylim()[1]
    write(recovered, _START, top, "left", "bottom", up=4)
    if any(comparison):
        write(header, right_edge, top, "right", "bottom", up=4)
    for column, x, ha in (
        (missing, _START, "left"),
        (values, error_edge, "right"),
        (errors, error_edge + _SPACE, "left"),
        (comparison, right_edge, "right"),
    ):
        for i, text in enumerate(column):
            if text:
                write(text, x, i, ha, "center", colour=None if values[i] else GREY)


def _width(ax: "Axes", texts: Iterable[str]) -> float:
    """Width of the longest of these small texts, in points."""
    probe = ax.figure.text(0, 0, "", fontsize="small", usetex=False)
    widths = [0.0]
    for text in filter(None, texts):
        probe.set_text(text)
        widths.append(probe.get_window_extent().width * 72 / ax.figure.dpi)
    probe.remove()
    return max(widths)
