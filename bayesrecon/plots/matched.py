"""Plots of records whose gradients match a trained parameter."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.style import BLUE, check_pixels, panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.reconstruction import Matched

_MOST, _ACROSS = 100, 10


def plot_matched(
    result: "Matched",
    ax: "Axes | None" = None,
    *,
    shape: tuple[int, int] | None = None,
    path: str | Path | None = None,
) -> "Axes":
    """Matched records: a scatter of their first two numbers, or images.

    The area of a marker is the record's multiplier. Records that the equations do not determine are hollow.

    Args:
        result: result of `bayesrecon.reconstruct` with `GradientMatching`.
        ax: Axes to draw into; by default a new figure.
        shape: (height, width), if the longest field is an image. Records with the largest multipliers come first.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.
    """
    with panel(ax, path) as ax:
        weights = np.asarray(result.pseudo.weights)
        if shape is not None:
            flat = (np.asarray(v).reshape(len(weights), -1) for v in result.pseudo.records.values())
            pixels = max(flat, key=lambda v: v.shape[1])
            ax.imshow(mosaic(pixels[np.argsort(-weights)][:_MOST], shape), cmap="gray", interpolation="nearest")
            ax.set_xticks([])
            ax.set_yticks([])
        else:
            _scatter(ax, result, weights)
        ax.set_title(f"Matched records, residual {result.residual:.1g}", loc="left")
    return ax


def mosaic(images: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """One large image of n images `(n, p)`, ten in a row, separated by lines of NaN."""
    images = np.asarray(images, float)
    check_pixels(images.shape[1], shape)
    across = min(_ACROSS, len(images))
    down = -(-len(images) // across)
    canvas = np.full((down * (shape[0] + 1) - 1, across * (shape[1] + 1) - 1), np.nan)
    for i, image in enumerate(images):
        top, left = (i // across) * (shape[0] + 1), (i % across) * (shape[1] + 1)
        canvas[top : top + shape[0], left : left + shape[1]] = image.reshape(shape)
    return canvas


def _scatter(ax: "Axes", result: "Matched", weights: np.ndarray) -> None:
    frame = result.to_dataframe().drop(columns=["weight", "determined"])
    names = list(frame.columns)[:2]
    x = frame[names[0]].to_numpy(float)
    y = frame[names[1]].to_numpy(float) if len(names) > 1 else weights
    area = 80 * weights / max(float(weights.max()), 1e-300)
    for determined, label in ((True, "determined"), (False, "not determined")):
        selected = result.determined == determined
        if selected.any():
            fill = BLUE if determined else "none"
            points, count = (x[selected], y[selected], area[selected]), selected.sum()
            ax.scatter(*points, facecolor=fill, edgecolor=BLUE, label=f"{label} ({count})")
    ax.set(xlabel=names[0], ylabel=names[1] if len(names) > 1 else "multiplier")
