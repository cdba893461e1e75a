"""One figure of a whole recovery."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.forest import MOST_ROWS, plot_recovery, table_height
from bayesrecon.plots.saving import check_path, save_figure
from bayesrecon.plots.scatter import draw_scatter, label_points
from bayesrecon.plots.spectrum import plot_spectrum
from bayesrecon.plots.style import PANEL, TITLE_PAD, fit, new_figure
from bayesrecon.plots.text import label
from bayesrecon.results.recovery import Recovery

if TYPE_CHECKING:
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
    for panel in panels:
        axes[panel].set_title(_TITLES[panel], loc="left", pad=TITLE_PAD)
    heading = f"{label(result.release)}: {result.draws} draw{'s' * (result.draws != 1)}, rank {result.rank}"
    figure.suptitle(heading, weight="bold").set_usetex(False)
    fit(figure, [PANEL] * len(mosaic[0]), heights)
    if table is not None:
        label_points(axes["scatter"], table)
    if path is not None:
        save_figure(figure, path)
    return np.array([axes[panel] for panel in panels], dtype=object)
