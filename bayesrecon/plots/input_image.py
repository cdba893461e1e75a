"""An input recovered from the outputs of a model: estimate, error and visibility, as images or field by field."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.style import BLUE, GREY, check_pixels, only, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bayesrecon.results.input_estimate import InputEstimate

_MOST = 40  # largest number of fields in one column
_DRAWS = 4


def plot_input(
    result: "InputEstimate",
    *,
    shape: tuple[int, int] | None = None,
    truth: np.ndarray | None = None,
    path: str | Path | None = None,
    ax: "Axes | None" = None,
) -> np.ndarray:
    """The recovered input: the estimate, its error (half the 95 % interval), and the visibility of every field.

    Images are drawn as images, with some posterior draws if the result has draws. Other records are drawn as intervals
    and visibilities, field by field.

    Args:
        result: result of `bayesrecon.recover` for the outputs of a model.
        shape: (height, width); by default the shape of the record, if it is an image.
        truth: the true record, for comparison.
        path: save the figure there (.png, .pdf or .svg).
        ax: Axes for the estimate alone; by default a new figure of everything.

    Returns:
        The Axes in an array.
    """
    if shape is None and len(result.shape) == 2:
        shape = (result.shape[0], result.shape[1])
    if shape is not None:
        check_pixels(len(result.estimate), shape)
    if ax is not None:
        order = np.argsort(-result.visibility, kind="stable")[:_MOST]
        return only(ax, path, lambda ax: _intervals(ax, result, order, truth))
    title = f"{result.method}: {result.gain:.0%} of the variance recovered"
    with sheet(path) as figure:
        axes = _fields(figure, result, truth) if shape is None else _images(figure, result, shape, truth)
        for one in axes:
            one.title.set_usetex(False)
        figure.suptitle(title, fontsize="medium", usetex=False)
    return axes


def _images(figure: "Figure", result: "InputEstimate", shape: tuple[int, int], truth: np.ndarray | None) -> np.ndarray:
    half = (result.upper - result.lower) / 2
    low, high = float(result.lower.min()), float(result.upper.max())
    panels = [("Input", truth, "gray", (low, high))] if truth is not None else []
    panels += [("Estimate", result.estimate, "gray", (low, high))]
    panels += [(f"Draw {i + 1}", draw, "gray", (low, high)) for i, draw in enumerate(_few(result.draws))]
    panels += [("Error (half of 95 %)", half, "magma", (0, float(half.max()) or 1.0))]
    panels += [("Visibility", result.visibility, "viridis", (0, 1))]
    figure.set_size_inches(2.7 * len(panels), 2.9)
    axes = np.atleast_1d(figure.subplots(1, len(panels)))
    for ax, (title, values, colours, (lowest, highest)) in zip(axes, panels, strict=True):
        picture = np.asarray(values, float).reshape(shape)
        image = ax.imshow(picture, cmap=colours, vmin=lowest, vmax=highest, interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.set_title(title, loc="left", fontsize="medium")
        if colours != "gray":
            figure.colorbar(image, ax=ax, shrink=0.75)
    return axes


def _few(draws: np.ndarray) -> np.ndarray:
    """A few draws, evenly spaced."""
    return draws[np.linspace(0, len(draws) - 1, min(_DRAWS, len(draws))).astype(int)] if len(draws) else draws


def _fields(figure: "Figure", result: "InputEstimate", truth: object) -> np.ndarray:
    order = np.argsort(-result.visibility, kind="stable")[:_MOST]
    figure.set_size_inches(8, max(2.0, 0.28 * len(order) + 1.2))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
    _intervals(left, result, order, truth)
    right.barh(np.arange(len(order)), result.visibility[order], color=BLUE)
    right.set_xlim(0, 1)
    right.set_title("Visibility", loc="left", fontsize="medium")
    return np.array([left, right])


def _intervals(ax: "Axes", result: "InputEstimate", order: np.ndarray, truth: object) -> None:
    rows = np.arange(len(order))
    ax.hlines(rows, result.lower[order], result.upper[order], color=GREY, lw=1.5)
    ax.plot(result.estimate[order], rows, "o", color=BLUE, ms=5)
    if truth is not None:
        ax.plot(np.asarray(truth, float).ravel()[order], rows, "x", color=ax.title.get_color(), ms=6)
    ax.set_yticks(rows, labels=[str(name) for name in result.to_dataframe().index[order]])
    ax.invert_yaxis()
    ax.set_title("Estimate and 95 % interval", loc="left", fontsize="medium")
