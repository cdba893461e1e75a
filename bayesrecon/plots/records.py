"""Plots of recovered records: estimates with errors and probabilities, compared with the truth if it is known."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.diagnostics import calibration_table
from bayesrecon.plots.style import BLUE, GREY, ORANGE, RED, finish, fit, label, only, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.records import Column, RecordTable

_MOST_BARS = 60  # largest number of records with an error bar each
_MOST_NAMED = 30  # largest number of units that are named on the axis
_LETTERS = 40  # with more letters in all names together, the names are rotated
_SHOWN_UNITS = 15
_BINS = [i / 20 for i in range(21)]


def plot_records(
    table: "RecordTable",
    *,
    truth: Mapping[str, ArrayLike] | None = None,
    path: str | Path | None = None,
    ax: "Axes | None" = None,
) -> np.ndarray:
    """Two panels per field: the estimates, and the stated probabilities (or the most exposed units).

    Up to thirty units are named on the horizontal axis of the first panel. With `truth`, that panel also shows the true
    values: beside the estimates, or on the horizontal axis if there are more units. The second panel is then the
    calibration of the probabilities: how often values that are stated with probability p are right.

    Args:
        table: result of `bayesrecon.reconstruct` for individual records.
        truth: true values `{field: (units,)}`.
        path: save the figure there (.png, .pdf or .svg).
        ax: Axes for the estimates of the first field alone; by default a new figure of everything.

    Returns:
        The Axes, `(fields, 2)`.
    """
    names = list(table)
    true_values = {name: np.asarray(v, float) for name, v in (truth or {}).items()}
    if ax is not None:
        return only(ax, path, lambda ax: _estimates(ax, table, names[0], true_values.get(names[0])))
    with sheet(path) as figure:
        axes = np.asarray(figure.subplots(len(names), 2, squeeze=False))
        for (left, right), name in zip(axes, names, strict=True):
            column = table[name]
            true = true_values.get(name)
            _estimates(left, table, name, true)
            if column.probability is None:
                _exposure(right, table)
            elif true is None:
                _probabilities(right, column)
            else:
                _calibration(right, column, true)
            finish(left)
            finish(right)
        figure.suptitle(f"{table.release}: {len(table)} records", parse_math=False)
        fit(figure, widths=(4.2, 3.6), heights=(3.6,) * len(names))
    return axes


def _estimates(ax: "Axes", table: "RecordTable", name: str, true: np.ndarray | None) -> None:
    column = table[name]
    determined = np.isfinite(column.estimate)
    if len(table) <= _MOST_NAMED:
        order, x = np.arange(determined.sum()), np.flatnonzero(determined).astype(float)
        _name_units(ax, table)
        if true is not None:
            ax.plot(np.arange(len(true)), true, "D", ms=6, mfc="none", mec=RED, mew=1.4, zorder=4, label="true")
    elif true is None:
        order = np.argsort(column.estimate[determined])
        x = np.arange(determined.sum(), dtype=float)
        ax.set_xlabel("records, by estimate")
    else:
        order = np.arange(determined.sum())
        spread = 0.0 if len(np.unique(true)) > 12 else 0.3  # markers at a few distinct values are moved apart
        apart = spread * (np.ptp(true) or 1) / len(np.unique(true))
        x = true[determined] + apart * np.linspace(-1, 1, int(determined.sum()))
        range_ = [true.min(), true.max()]
        ax.plot(range_, range_, color=GREY, lw=1, zorder=1)
        ax.set_xlabel(f"true {name}", parse_math=False)
    y, se = column.estimate[determined][order], column.se[determined][order]
    few = len(y) <= _MOST_BARS
    size, width, alpha = (5, 1.2, 1.0) if few else (2, 0.3, 0.5)
    bars = ax.errorbar(x, y, 1.96 * se, fmt="o", ms=size, elinewidth=width, color=BLUE, alpha=alpha, zorder=3)
    bars.set_label("recovered, 95 %")
    if column.naive is not None:
        naive = np.asarray(column.naive, float)[determined][order]
        ax.plot(x, naive, "x", ms=5 if few else 2, color=ORANGE, zorder=2, label="the model's own guess")
    ax.set_ylabel(f"recovered {name}", parse_math=False)


def _name_units(ax: "Axes", table: "RecordTable") -> None:
    """A tick for each unit, with its name."""
    rows = zip(*(np.asarray(table.known[field]).tolist() for field in table.unit), strict=True)
    names = [
        label(", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in row)) for row in rows
    ]
    rotation = 90 if sum(map(len, names)) > _LETTERS else 0
    ax.set_xticks(np.arange(len(names)), labels=names, rotation=rotation)
    ax.set_xlim(-0.6, len(names) - 0.4)
    ax.set_xlabel(", ".join(table.unit), parse_math=False)


def _probabilities(ax: "Axes", column: "Column") -> None:
    assert column.probability is not None
    ax.hist(column.probability, bins=_BINS, color=BLUE, label="with the release")
    if column.prior is not None:
        ax.hist(column.prior, bins=_BINS, histtype="step", color=ORANGE, label="model alone")
    ax.set(xlabel="probability of the stated value", ylabel="records")


def _calibration(ax: "Axes", column: "Column", true: np.ndarray) -> None:
    assert column.probability is not None
    assert column.value is not None
    rows = calibration_table(column.probability, np.asarray(column.value, float) == true)
    stated, correct, count = (np.array(x, float) for x in zip(*rows, strict=True))
    ax.plot([0, 1], [0, 1], color=GREY, lw=1)
    error = np.sqrt(np.maximum(stated * (1 - stated), 1e-12) / count)
    ax.errorbar(stated, correct, 1.96 * error, fmt="o", color=BLUE, label="values so stated")
    for x, y, n in zip(stated, correct, count, strict=True):
        ax.annotate(f"{int(n)}", (x, y), (4, -10), textcoords="offset points", fontsize="x-small")
    ax.set(xlabel="stated probability", ylabel="share correct", xlim=(0, 1.05), ylim=(0, 1.05))


def _exposure(ax: "Axes", table: "RecordTable") -> None:
    exposure = table.exposure().head(_SHOWN_UNITS)[::-1]
    labels = [str(unit) if not isinstance(unit, tuple) else ", ".join(map(str, unit)) for unit in exposure.index]
    ax.barh(np.arange(len(exposure)), exposure["bits"], color=RED)
    ax.set_yticks(np.arange(len(exposure)), labels=labels, fontsize="x-small")
    ax.set(xlabel="bits", ylabel=", ".join(table.unit), title="most exposed")
