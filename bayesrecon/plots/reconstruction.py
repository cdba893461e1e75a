"""Plots of a reconstruction: traces of its moments, its distance from the optimum, and its weighted records."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.plots.style import (
    BLUE,
    GREY,
    ORANGE,
    PANEL,
    RED,
    Style,
    finish,
    fit,
    head,
    label,
    minus,
    new_figure,
    only,
    power,
    set_ticks,
    sheet,
    styles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayesrecon.results.reconstruction import Reconstruction

_WIDTH, _HEIGHT = 2.5, 1.7  # inches: size of a panel with a trace
_ALONE = styles(1)[0]
_A_ROW = 3  # fields per row of panels
_MOST = 7  # largest number of fields with traces
_LEADING = 4  # number of columns of a trace before the moments
_DECADES = 2  # if the iterations span more decades, their axis is logarithmic
_FEW = 60  # largest number of points of a trace that get markers
_LARGEST = 1e290  # larger values would overflow an axis
_INK, _LARGEST_MARK = 6000.0, 150.0  # square points: area of all markers together, and of the largest one
_DISTINCT = 12  # largest number of records of a single field that are drawn as one line each
_LEVELS = 10  # if integer values span less than this, each gets a tick
_TITLE = 28  # largest number of characters in a panel's title


def plot_traces(
    results: "Mapping[str, Reconstruction]",
    truth: Mapping[str, float] | None = None,
    axes: "Sequence[Axes] | np.ndarray | None" = None,
    x: Literal["iteration", "seconds"] = "iteration",
) -> np.ndarray:
    """Traces of several reconstructions: the sum of the weights, and the weighted means and variances.

    Args:
        results: reconstructions of the same fields, by label.
        truth: true values by name, from `bayesrecon.evaluate.true_statistics`, drawn as dashed lines.
        axes: Axes to draw into, one for each statistic of the first result; by default a new figure.
        x: horizontal axis, "iteration" or "seconds".

    Returns:
        The Axes in an array, in the order of the statistics: n, means, variances.

    Raises:
        BayesreconError: `x` is neither of these, there are no results, or there are too few axes.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> result = bayesrecon.reconstruct(release, n=5)
    >>> [ax.get_title("left") for ax in plot_traces({"five records": result}, x="seconds")]
    ['n', 'mean(x[1])', 'mean(y)', 'var(x[1])', 'var(y)']
    """
    if x not in ("iteration", "seconds"):
        raise BayesreconError(f"x={x!r}: expected 'iteration' or 'seconds'")
    if not results:
        raise BayesreconError("results: expected at least one reconstruction")
    first = next(iter(results.values()))
    new = axes is None
    names = _panel_names(first) if new else list(first.columns[_LEADING:])
    sizes: tuple[list[float], list[float]] = ([], [])
    if axes is None:
        panels, sizes = _grid(new_figure(), names)
    else:
        panels = list(np.ravel(np.asarray(axes, dtype=object)))
    if len(panels) < len(names):
        raise BayesreconError(f"axes: {len(panels)} given for {len(names)} statistics ({', '.join(names)})")
    for ax, name in zip(panels, names, strict=False):
        for (key, result), style in zip(results.items(), styles(len(results)), strict=True):
            if name in result.columns:
                _draw_trace(ax, _column(result, x), _column(result, name), style, label(key))
        if truth is not None and np.isfinite(value := float(truth.get(name, np.nan))):
            ax.axhline(value, color=ax.title.get_color(), lw=1, ls="--", zorder=1, label="true")
        _frame_trace(ax, _short(name))
        _set_iterations(ax, np.concatenate([_column(result, x) for result in results.values()]), x)
        # One legend for all panels: under the first one in a new figure, which has room there, or else under the last.
        finish(ax)
        if (legend := ax.get_legend()) is not None and ax is not panels[0 if new else len(names) - 1]:
            legend.remove()
    if new:
        legend = panels[0].get_legend()
        if legend is not None:
            legend.set_in_layout(False)
        fit(panels[0].figure.figure, *sizes)
    return np.array(panels[: len(names)], dtype=object)


def plot_reconstruction(
    result: "Reconstruction", path: str | Path | None = None, ax: "Axes | None" = None
) -> np.ndarray:
    """One figure of a reconstruction: its weighted records, its distance from the optimum, and its traces.

    A dot marks the iterate that was kept. Its value is in the corner of the panel. At most seven fields have traces.

    Args:
        result: result of `bayesrecon.reconstruct`.
        path: save the figure there (.png, .pdf or .svg). The figure is then not registered with pyplot, so it need not
            be closed.
        ax: Axes for the records alone; by default a new figure of everything.

    Returns:
        The Axes in an array: traces of n, means and variances, then the relative gap, then the records.
    """
    if ax is not None:
        return only(ax, path, lambda ax: _draw_records(ax, result))
    names = _panel_names(result)
    with sheet(path) as figure:
        panels, sizes = _grid(figure, names, full=True)
        _draw_all(panels, names, result)
        head(figure, _heading(result, names))
        fit(figure, *sizes)
    return np.array(panels, dtype=object)


def _draw_all(panels: "list[Axes]", names: list[str], result: "Reconstruction") -> None:
    *traces, gap, records = panels
    iterations, kept, values = _column(result, "iteration"), _kept_row(result), result.statistics()
    for ax, name in zip(traces, names, strict=True):
        trace = _column(result, name)
        _draw_trace(ax, iterations, trace, _ALONE)
        if kept is not None:
            ax.plot(iterations[kept], trace[kept], "o", ms=6, color=BLUE, zorder=3)
        _frame_trace(ax, _short(name))
        ax.set_title(minus(f"{values[name]:.5g}"), loc="right", fontsize="medium", color=BLUE)
        _set_iterations(ax, iterations)
        finish(ax)
    _draw_gap(gap, result, iterations, kept)
    _draw_records(records, result)


def _heading(result: "Reconstruction", names: list[str]) -> str:
    hidden = (len(result.columns) - _LEADING - len(names)) // 2
    more = f" (traces of {_MOST} fields of {_MOST + hidden})" if hidden else ""
    count = len(result.pseudo.weights)
    about = f"{count} weighted record{'s' * (count != 1)}, {result.method}, {result.objective} objective"
    if result.stopped in ("diverged", "interrupted"):
        about += f", {result.stopped}"
    return f"{label(result.release)}: {about}{more}"


def _panel_names(result: "Reconstruction") -> list[str]:
    """The statistics that get a panel: n, and the mean and variance of the first fields."""
    means, variances = (
        [c for c in result.columns[_LEADING:] if c.startswith(kind)][:_MOST] for kind in ("mean(", "var(")
    )
    return ["n", *means, *variances]


def _column(result: "Reconstruction", name: str) -> np.ndarray:
    """A column of the trace. Numbers that are not finite, or too large to draw, are NaN."""
    values = np.array(result.trace, float).reshape(-1, len(result.columns))[:, result.columns.index(name)]
    return np.where(np.abs(values) < _LARGEST, values, np.nan)


def _kept_row(result: "Reconstruction") -> int | None:
    """The row of the trace that is the result, if any."""
    distance = np.abs(_column(result, "objective") - result.objective_value)
    same = distance <= 1e-9 * max(abs(result.objective_value), abs(result.bound))
    if not same.any():
        return None
    return int(np.argmin(np.where(same, _column(result, "gap"), np.inf)))


def _short(name: str) -> str:
    """A title short enough to leave room for a number beside it."""
    return label(name if len(name) <= _TITLE else f"{name[: _TITLE - 1]}…")


def _grid(
    figure: "Figure", names: list[str], full: bool = False
) -> "tuple[list[Axes], tuple[list[float], list[float]]]":
    """Panels for n and, per field, a column with mean above variance. With `full`, also for the gap and the records.

    Returns:
        The Axes in the order of `names`, gap, records; and the panels' widths and heights, in inches.
    """
    fields = len(names) // 2
    left = int(full)  # the column of n, beside that of the records
    across = min(max(fields, 1), _A_ROW)
    # If one pair of rows is not enough, the next pair begins under n.
    cells = [(0, 1 + i) for i in range(_A_ROW)]
    cells += [(2 + 2 * (i // (1 + _A_ROW)), i % (1 + _A_ROW)) for i in range(max(fields - _A_ROW, 0))]
    rows = 2 + cells[max(fields, 1) - 1][0]
    widths = [PANEL] * left + [_WIDTH] * (1 + across)
    heights = [_HEIGHT] * rows
    grid = figure.add_gridspec(rows, len(widths), width_ratios=widths, height_ratios=heights)
    cells_ = [(0, left)]
    for lower in (0, 1):
        cells_ += [(row + lower, left + column) for row, column in cells[:fields]]
    panels = [figure.add_subplot(grid[place]) for place in cells_]
    if full:
        panels += [figure.add_subplot(grid[1, left]), figure.add_subplot(grid[:2, 0])]
    return panels, (widths, heights)


def _draw_trace(ax: "Axes", x: np.ndarray, y: np.ndarray, style: Style, name: str | None = None) -> None:
    marker = style.marker if np.isfinite(y).sum() <= _FEW else "none"
    ax.plot(x, y, color=style.colour, ls=style.dashes, lw=1.4, marker=marker, ms=2.5, zorder=2, label=name)


def _frame_trace(ax: "Axes", title: str) -> None:
    """Limits around the traces, even if they hardly change. If one diverged, the axis is symmetric-logarithmic."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    lines = [line for shared in ax.get_shared_y_axes().get_siblings(ax) for line in shared.lines]
    values = np.concatenate([np.asarray(line.get_ydata(), float) for line in lines] or [np.zeros(0)])
    values = values[np.isfinite(values)]
    if values.size:
        low, high, usual = values.min(), values.max(), float(np.median(np.abs(values)))
        if usual > 0 and max(-low, high) > 1e4 * usual:
            ax.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(usual)))
        else:
            middle = (low + high) / 2
            half = max(0.55 * (high - low), 1e-3 * abs(middle), 1e-12)
            ax.set_ylim(middle - half, middle + half)
            ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
            ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: minus(f"{value:g}")))
    ax.grid(axis="y", color=GREY, alpha=0.2, lw=0.8)
    ax.set_title(title, loc="left", fontsize="medium")


def _set_iterations(ax: "Axes", x: np.ndarray, name: str = "iteration") -> None:
    """A logarithmic axis if the iterations (or seconds) span more than two decades."""
    from matplotlib.ticker import MaxNLocator

    ax.set_xlabel(name)
    x = x[np.isfinite(x)]
    if not x.size:
        ax.set(xticks=[], yticks=[])
        ax.text(0.5, 0.5, "no iterations", transform=ax.transAxes, ha="center", va="center", color=GREY)
        return
    positive, last = x[x > 0], x.max()
    first = positive.min() if positive.size else 1.0
    if last > 10.0**_DECADES * first:
        low, high = int(np.ceil(np.log10(first))), int(np.floor(np.log10(last)))
        ticks = [10.0**e for e in range(low, high + 1, max(-(-(high - low + 1) // 4), 1))]
        if positive.size < x.size:
            ax.set_xscale("symlog", linthresh=first, linscale=0.5)
            ax.set_xlim(-0.1 * first, 1.3 * last)
            set_ticks(ax.xaxis, [0.0, *ticks])
        else:
            ax.set_xscale("log")
            ax.set_xlim(first / 1.3, 1.3 * last)
            set_ticks(ax.xaxis, ticks)
    else:
        room = 0.04 * (last - x.min()) or 1.0
        ax.set_xlim(x.min() - room, last + room)
        ax.xaxis.set_major_locator(MaxNLocator(nbins=4, integer=name == "iteration"))


def _draw_gap(ax: "Axes", result: "Reconstruction", iterations: np.ndarray, kept: int | None) -> None:
    """The gap to the smallest divergence, the part of it that is certified, and the resolution of the draws."""
    scale = abs(result.bound) or 1.0
    gaps = _column(result, "gap") / scale
    gaps = np.where(gaps > 0, gaps, np.nan)
    heights = list(gaps[np.isfinite(gaps)])
    ax.set_yscale("log")
    signed = result.certificate == "signed measures"
    _draw_trace(ax, iterations, gaps, _ALONE, None if signed or not heights else "to signed measures")
    if kept is not None:
        ax.plot(iterations[kept], gaps[kept], "o", ms=6, color=BLUE, zorder=3)
    if result.gap > 0 and not signed:
        # For positive weights the bound over signed measures is loose, so there is a second, certified bound.
        ax.axhline(result.gap / scale, color=RED, lw=1.2, zorder=1, label="certified")
        heights.append(result.gap / scale)
    if result.gap_in_noise and result.gap > 0:
        noise = result.gap / result.gap_in_noise / scale
        ax.axhline(noise, color=ORANGE, lw=1.2, ls="--", zorder=1, label="noise of the draws")
        heights.append(noise)
    if heights:
        low, high = np.log10(min(heights)), np.log10(max(heights))
        room = max(0.08 * (high - low), 0.15, (1 - (high - low)) / 2)
        ax.set_ylim(10.0 ** (low - room), 10.0 ** (high + room))
        first, last = int(np.ceil(low - room)), int(np.floor(high + room))
        step = max(-(-(last - first + 1) // 4), 1)
        exponents = range(last, first - 1, -step)
        set_ticks(ax.yaxis, [10.0**e for e in exponents], [f"$10^{{{e}}}$" for e in exponents])
    else:
        set_ticks(ax.yaxis, [])
    ax.grid(axis="y", color=GREY, alpha=0.2, lw=0.8)
    ax.set_title("relative gap" if result.bound else "gap", loc="left", fontsize="medium")
    final = result.gap / scale
    ax.set_title(power(float(f"{final:.1g}")), loc="right", fontsize="medium", color=BLUE if signed else RED)
    _set_iterations(ax, iterations)
    finish(ax)


def _draw_records(ax: "Axes", result: "Reconstruction") -> None:
    """The first two fields against each other, or the histogram of a single one."""
    frame = result.to_dataframe()
    free = [c[5:-1] for c in result.columns if c.startswith("mean(")]
    names = [c for c in frame.columns[1:] if c in free]
    known = [c for c in frame.columns[1:] if c not in free]
    names = names[:2] if len(names) > 1 else [*known[:1], *names]
    table = np.column_stack([np.asarray(frame[name], float) for name in ("weight", *names)])
    table = table[(np.abs(table) < _LARGEST).all(axis=1)]
    # Coinciding records get one marker.
    points, index = np.unique(table[:, 1:], axis=0, return_inverse=True)
    weights = np.bincount(index.ravel(), table[:, 0], minlength=len(points))
    negative = weights < 0
    title = "Pseudo-records"
    if len(names) == 1:
        _draw_histogram(ax, points[:, 0], weights)
        ax.set_ylabel("weight")
    else:
        size = min(_INK / max(np.abs(weights).sum(), 1e-300), _LARGEST_MARK / max(np.abs(weights).max(), 1e-300))
        scatter = partial(ax.scatter, alpha=0.55, linewidths=0.5, edgecolors=ax.get_facecolor(), zorder=2)
        for selected, colour in ((~negative, BLUE), (negative, RED)):
            if selected.any():
                scatter(*points[selected].T, s=size * np.abs(weights[selected]), color=colour)
        typical = float(f"{np.abs(weights).max(initial=0.0):.1g}")
        if typical > 0:
            scatter([], [], s=size * typical, color=BLUE, label=f"weight {power(typical)}")
        if negative.any():
            scatter([], [], s=30, color=RED, label=f"negative ({negative.sum()})")
        ax.set_ylabel(label(names[1]))
        title += ", area by weight"
    for column, axis in zip(points.T, (ax.xaxis, ax.yaxis), strict=False):
        values = np.unique(column)
        if len(values) and np.ptp(values) < _LEVELS and (values == np.round(values)).all():
            set_ticks(axis, values.tolist())
    ax.set_xlabel(label(names[0]))
    ax.set_title(title, loc="left", fontsize="medium")
    finish(ax)


def _draw_histogram(ax: "Axes", values: np.ndarray, weights: np.ndarray) -> None:
    if len(values) <= _DISTINCT:
        ax.vlines(values, 0, weights, color=BLUE, lw=3)
        ax.margins(x=0.1)
    else:
        ax.hist(values, bins=int(np.clip(np.sqrt(len(values)) * 1.5, 8, 40)), weights=weights, color=BLUE)
    ax.axhline(0, color=GREY, lw=0.8, zorder=1)
