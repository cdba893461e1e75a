"""The spectrum of the score kernel."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.saving import check_path, save_figure
from bayesrecon.plots.style import BLUE, GREY, axes_of, finish, fit, set_ticks
from bayesrecon.results.recovery import Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SMALLEST = 1e-18  # below what rounding leaves of zero


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

    check_path(path)
    ax, figure = axes_of(ax, pyplot=path is None)
    values = np.nan_to_num(np.asarray(result.spectrum, float), nan=0.0, posinf=1.0)
    values = np.maximum(values / (values.max(initial=0.0) or 1.0), _SMALLEST)
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
    finish(ax)
    if figure is not None:
        fit(figure)
    if path is not None:
        save_figure(ax.figure.figure, path)
    return ax
