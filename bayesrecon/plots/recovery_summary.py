"""One figure of a whole recovery."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.plots.forest import MOST_ROWS, plot_recovery, table_height
from bayesrecon.plots.style import (
    BLUE,
    GREY,
    PANEL,
    RED,
    ROUNDING,
    TITLE_PAD,
    Columns,
    axes_of,
    check_path,
    draw_marks,
    finish,
    fit,
    label,
    new_figure,
    panel,
    save_figure,
    select,
    set_ticks,
    tabulate,
)
from bayesrecon.results.recovery import Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import HashableList

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
    check_path(path)
    lines = min(len(result.rows), MOST_ROWS + 1)
    panels = [panel for panel in _TITLES if panel != "scatter" or truth is not None]
    if lines <= _SIDE_BY_SIDE:
        mosaic: list[HashableList[str]] = [[*panels]]
        heights = [max(PANEL, table_height(lines))]
    else:
        mosaic = [["table", panel] for panel in [*panels, "."] if panel != "table"]
        heights = [PANEL] * (len(panels) - 1)
        heights.append(max(table_height(lines) - sum(heights), 0.3))
    figure = new_figure(pyplot=path is None)
    axes = figure.subplot_mosaic(mosaic, height_ratios=heights)
    table = None if truth is None else draw_scatter(axes["scatter"], result, truth)
    plot_recovery(result, truth=truth, ax=axes["table"])
    plot_spectrum(result, ax=axes["spectrum"])
    for name in panels:
        axes[name].set_title(_TITLES[name], loc="left", pad=TITLE_PAD)
    heading = f"{label(result.release)}: {result.draws} draw{'s' * (result.draws != 1)}, rank {result.rank}"
    figure.suptitle(heading, weight="bold").set_usetex(False)
    fit(figure, [PANEL] * len(mosaic[0]), heights)
    if table is not None:
        label_points(axes["scatter"], table)
    if path is not None:
        save_figure(figure, path)
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
