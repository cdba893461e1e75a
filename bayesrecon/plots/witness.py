"""Plots of a witness: the estimated density of the private records over one or two fields."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.plots.style import BLUE, GREY, axes_of, check_path, finish, fit, label, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.diagnosis import Witness

_SEEN = 0.5  # share of a value that is determined, from which on it has a band
_MAP = (5.4, 4.4)  # inches, including the colour bar


def plot_witness(witness: "Witness", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """The estimated density of the private records over one or two fields.

    For one field it is a curve, or bars if the field has few values. It has a 95 % band where most of it is determined,
    and is dashed elsewhere. For two fields it is a map. The
    part that the release does not determine is replaced by a smooth density with the recovered moments. The title
    states its share.

    Args:
        witness: result of `bayesrecon.witness`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    >>> import bayesrecon, numpy as np
    >>> rng, model = np.random.default_rng(0), bayesrecon.models.load("linear_predictor")
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, model)  # 100 records with y = 1 + 2 x + noise
    >>> ax = plot_witness(bayesrecon.witness(release, "y"))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('y', 'density of the records')
    """
    check_path(path)
    ax, figure = axes_of(ax, pyplot=path is None)
    names = [label(name) for name in witness.fields]
    determined = (
        f"{np.average(witness.visibility, weights=np.maximum(witness.values, 0) + 1e-300):.0%} of it determined"
    )
    if len(names) == 1:
        (grid,) = witness.grids
        half = Z95 * witness.se
        if len(grid) < 12:
            ax.errorbar(grid, witness.values, yerr=half, color=BLUE, marker="o", linestyle="none", capsize=3)
            ax.set_ylabel("share of the records")
        else:
            low, high = witness.values - half, witness.values + half
            seen = np.asarray(witness.visibility) >= _SEEN
            ax.fill_between(grid, low, high, where=seen, color=BLUE, alpha=0.25, linewidth=0)
            ax.plot(grid, witness.values, color=GREY, ls="--", label=None if seen.all() else "smooth guess")
            ax.plot(
                grid, np.where(seen, witness.values, np.nan), color=BLUE, label="determined" if seen.any() else None
            )
            ax.set_ylabel("density of the records")
        ax.set_ylim(bottom=min(0.0, float((witness.values - half).min())))
    else:
        largest = float(witness.values.max())
        mesh = ax.pcolormesh(*witness.grids, witness.values.T, cmap="Blues", vmin=0, vmax=largest, shading="nearest")
        mesh.set_rasterized(True)
        ax.figure.colorbar(mesh, ax=ax, label="density of the records")
        ax.set_ylabel(names[1])
    ax.set_xlabel(names[0])
    ax.set_title(f"Density of the private records\n({determined})", loc="left")
    finish(ax)
    if figure is not None and len(names) == 1:
        fit(figure)
    elif figure is not None:
        figure.set_size_inches(*_MAP)
    if path is not None:
        save_figure(ax.figure.figure, path)
    return ax
