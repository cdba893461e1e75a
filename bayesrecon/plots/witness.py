"""The witness over one or two fields."""

from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.frame import BLUE, finish, new_figure
from bayesrecon.plots.text import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.landscape import Witness


def plot_witness(witness: "Witness", ax: "Axes | None" = None) -> "Axes":
    """Where the private data lie as far as the release can tell.

    One field gives a curve with a 95 % band, two fields a map with the zero line; blue is towards the data.

    Args:
        ax: where to draw.

    Returns:
        The Axes.

    >>> ax = plot_witness(witness)  # doctest: +SKIP
    """
    ax = new_figure().add_subplot() if ax is None else ax
    names = [label(name) for name in witness.fields]
    if len(names) == 1:
        (grid,) = witness.grids
        half = 1.959964 * witness.se
        ax.fill_between(grid, witness.values - half, witness.values + half, color=BLUE, alpha=0.25, linewidth=0)
        ax.plot(grid, witness.values, color=BLUE, marker="o" if len(grid) < 12 else None)
        ax.axhline(0, color="0.5", linewidth=0.8)
        ax.set_ylabel("witness (cosine with the data's score)")
    else:
        most = float(np.abs(witness.values).max()) or 1.0
        drawn = ax.pcolormesh(
            *witness.grids, witness.values.T, cmap="RdBu", vmin=-most, vmax=most, shading="nearest", rasterized=True
        )
        if witness.values.min() < 0 < witness.values.max() and min(witness.values.shape) > 1:
            ax.contour(*witness.grids, witness.values.T, levels=[0.0], colors="0.3", linewidths=0.8)
        ax.figure.colorbar(drawn, ax=ax, label="witness (cosine with the data's score)")
        ax.set_ylabel(names[1])
    ax.set_xlabel(names[0])
    ax.set_title(label(f"Where the data of {witness.release} lie"), loc="left")
    finish(ax)
    return ax
