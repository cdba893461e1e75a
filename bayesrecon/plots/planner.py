"""What thinner releases would leave of every statistic."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.frame import BLUE, GREY, panel
from bayesrecon.plots.text import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.plan import Plan

_MOST = 8


def plot_plan(plan: "Plan", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Predicted relative standard error of each statistic against the number of published draws.

    Args:
        ax: where to draw.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    Raises:
        BayesreconError: a path with another suffix or in a folder that does not exist.

    >>> from bayesrecon.results.plan import Outlook, Plan
    >>> outlook = Outlook("n", 100.0, se={100: 12.0, 1000: 4.0}, shift={2: 0.5})
    >>> ax = plot_plan(Plan("survey", 1000, (outlook,)))
    >>> ax.lines[0].get_label(), ax.lines[0].get_ydata().tolist()
    ('n', [0.12, 0.04])
    """
    with panel(ax, path) as ax:
        shown = plan.outlooks[:_MOST]
        for i, outlook in enumerate(shown):
            draws = np.array(list(outlook.se), float)
            errors = np.array(list(outlook.se.values())) / max(abs(outlook.estimate), 1e-300)
            shade = i / max(len(shown) - 1, 1)
            ax.plot(draws, errors, marker="o", color=BLUE, alpha=1 - 0.75 * shade, label=label(outlook.name))
        ax.axhline(1, color=GREY, linewidth=0.8)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("published draws")
        ax.set_ylabel("standard error, relative to the estimate")
        more = f" (first {_MOST} of {len(plan.outlooks)})" if len(plan.outlooks) > _MOST else ""
        ax.set_title(f"What fewer draws would leave{more}", loc="left")
        ax.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    return ax
