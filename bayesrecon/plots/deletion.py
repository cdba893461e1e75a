"""Plots of deletions: the reconstructed record, the candidates' probabilities, images of records, similarities."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.errors import BayesreconError
from bayesrecon.plots.style import BLUE, GREY, ORANGE, RED, check_pixels, label, panel, sheet, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.deletion import DeletedRecord, DeletionInference
    from bayesrecon.results.game import GameResult


_MOST = 60


def plot_deleted(
    result: "DeletedRecord",
    ax: "Axes | None" = None,
    *,
    shape: tuple[int, int] | None = None,
    path: str | Path | None = None,
) -> "Axes":
    """The reconstructed record, entry by entry with 95 % intervals, or as an image.

    Args:
        result: result of a deletion attack.
        ax: Axes to draw into; by default a new figure.
        shape: (height, width), if the longest field is an image.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.
    """
    with panel(ax, path) as ax:
        label = next((f", label {np.asarray(v)}" for k, v in result.record.items() if np.ndim(v) == 0 and k == "y"), "")
        if shape is not None and result.record:
            pixels = max((np.asarray(v).ravel() for v in result.record.values()), key=len)
            _image(ax, pixels, shape)
        else:
            frame = result.to_dataframe()
            frame = (frame.drop(index="y") if label and len(frame) > 1 else frame).iloc[:_MOST]
            position = np.arange(len(frame))
            error = 1.96 * np.nan_to_num(frame["se"].to_numpy())
            # A record in doubt is drawn hollow, beside the one that explains the change as well.
            filled = "none" if result.doubts else BLUE
            ax.errorbar(frame["estimate"], position, xerr=error, fmt="o", color=BLUE, mfc=filled, ms=5, lw=1.2)
            if "other" in frame:
                ax.plot(frame["other"], position, "x", color=GREY, ms=5, label="the other label or sign")
                ax.legend()
            ax.set_yticks(position, labels=[str(n) for n in frame.index])
            ax.invert_yaxis()
            ax.set_xlabel("value")
        ax.set_title(f"{result.title[:1].upper()}{result.title[1:]}, {result.method}{label}", loc="left")
    return ax


def plot_inference(result: "DeletionInference", ax: "Axes | None" = None, *, path: str | Path | None = None) -> "Axes":
    """Probabilities of the twenty most likely candidates.

    Args:
        result: result of `bayesrecon.infer_deletion`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    Raises:
        BayesreconError: the path has another suffix or is in a folder that does not exist.

    >>> import numpy as np
    >>> from bayesrecon.results.deletion import DeletionInference
    >>> share = np.array([0.1, 0.7, 0.2])
    >>> result = DeletionInference(share, np.log(share), "ratio", 800.0, "before", "after", "linear_predictor")
    >>> [label.get_text() for label in plot_inference(result).get_yticklabels()]
    ['1', '2', '0']
    """
    with panel(ax, path) as ax:
        frame = result.to_dataframe().head(20)
        ax.barh(np.arange(len(frame)), frame["probability"], color=BLUE)
        ax.axvline(1 / len(result.probability), color=GREY, ls="--", lw=1, label="chance")
        ax.set_yticks(np.arange(len(frame)), labels=[str(i) for i in frame.index])
        ax.invert_yaxis()
        ax.set(xlim=(0, 1), xlabel="probability that this record was deleted", ylabel="candidate")
        ax.set_title("Which record was deleted?", loc="left")
    return ax


def plot_similarity(
    scores: Mapping[str, ArrayLike], ax: "Axes | None" = None, *, level: float = 0.95, path: str | Path | None = None
) -> "Axes":
    """Empirical distribution functions of cosine similarities, with simultaneous confidence bands.

    The half width of a band is `sqrt(log(2 / (1 - level)) / (2 N))` (Dvoretzky, Kiefer and Wolfowitz 1956).

    Args:
        scores: `{label: (N,)}`, one similarity per deletion.
        ax: Axes to draw into; by default a new figure.
        level: confidence level of each band.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    Raises:
        BayesreconError: there are no similarities, or the path has another suffix or is in a folder that does not
            exist.

    >>> ax = plot_similarity({"HRec": [0.9, 0.95, 0.99], "mean record": [0.5, 0.6, 0.7]})
    >>> ax.get_legend().get_texts()[0].get_text()
    'HRec (median 0.950)'
    """
    if not scores:
        raise BayesreconError("there are no similarities to plot")
    with panel(ax, path) as ax:
        low = 1.0
        for (name, values), style in zip(scores.items(), styles(len(scores)), strict=True):
            x = np.asarray(values, float)
            x = np.sort(x[np.isfinite(x)])
            if not x.size:
                raise BayesreconError(f"{name}: there are no similarities to plot")
            colour, dashes = style.colour, style.dashes
            share = np.arange(1, x.size + 1) / x.size
            half = np.sqrt(np.log(2 / (1 - level)) / (2 * x.size))
            ax.fill_between(
                x, np.maximum(share - half, 0), np.minimum(share + half, 1), step="post", color=colour, alpha=0.12
            )
            ax.step(
                x, share, where="post", color=colour, ls=dashes, lw=1.6, label=f"{name} (median {np.median(x):.3f})"
            )
            low = min(low, float(np.quantile(x, 0.02)))
        ax.set(xlim=(max(low, -1.0), 1.0), ylim=(0, 1), xlabel="cosine similarity", ylabel="share of deletions below")
        ax.set_title("Similarity of deleted and reconstructed records", loc="left")
    return ax


def plot_images(
    rows: Mapping[str, np.ndarray],
    shape: tuple[int, int],
    *,
    captions: Sequence[str] = (),
    path: str | Path | None = None,
) -> np.ndarray:
    """A grid of images, one row per label, e.g. true and reconstructed records.

    Args:
        rows: `{label: (n, p)}`, all with the same n.
        shape: (height, width), whose product is p.
        captions: captions of the columns.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes, `(labels, n)`.

    Raises:
        BayesreconError: the rows differ in length or there are none, the images do not have this shape, or the path has
            another suffix or is in a folder that does not exist.

    >>> import numpy as np
    >>> plot_images({"true": np.eye(4), "reconstructed": np.ones((4, 4))}, (2, 2)).shape
    (2, 4)
    """
    tables = {k: np.asarray(v, float).reshape(len(v), -1) for k, v in rows.items()}
    if not tables or len({len(v) for v in tables.values()}) != 1:
        raise BayesreconError("all rows must have the same number of images, at least one")
    count = len(next(iter(tables.values())))
    with sheet(path) as figure:
        axes = figure.subplots(len(tables), count, squeeze=False)
        for line, (name, images) in zip(axes, tables.items(), strict=True):
            for j, (ax, pixels) in enumerate(zip(line, images, strict=True)):
                _image(ax, pixels, shape)
                if line is axes[0] and j < len(captions):
                    ax.set_title(captions[j], fontsize="small")
            line[0].set_ylabel(name)
        figure.set_size_inches(0.9 * count + 1, 0.95 * len(tables) + 0.6)
    return axes


def _image(ax: "Axes", pixels: np.ndarray, shape: tuple[int, int]) -> None:
    check_pixels(pixels.size, shape)
    ax.imshow(pixels.reshape(shape), cmap="gray", interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])


# Plots of games: the success rate of every adversary.


def plot_game(result: "GameResult", ax: "Axes | None" = None, *, path: str | Path | None = None) -> "Axes":
    """Success rates of all adversaries with 95 % intervals.

    Ties are decided by a coin. If there are ties, a second marker counts them as wins.

    Args:
        result: result of `bayesrecon.games.play`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    >>> from bayesrecon.games import LossChange, Game, OutputChange, Law, LeastSquares, LinearLaw, play
    >>> result = play(Game(Law("linear", LinearLaw(), size=30), LeastSquares(), (LossChange(), OutputChange())), n=20)
    >>> [text.get_text() for text in plot_game(result).get_yticklabels()]
    ['Del-Inf-Exm', 'Del-Inf-Ins']
    """
    with panel(ax, path) as ax:
        position = np.arange(len(result.rows))
        kinds = [("ties decided by a coin", "success", BLUE, "o", 0.0)]
        if any(row.ties for row in result.rows):
            kinds.append(("ties counted as wins", "success_with_ties", ORANGE, "s", 0.18))
        for legend, kind, colour, marker, shift in kinds:
            rates = [getattr(row, kind) for row in result.rows]
            x = np.array([rate.estimate for rate in rates])
            errors = np.array([[r.estimate - r.lower, r.upper - r.estimate] for r in rates]).T
            ax.errorbar(
                x, position + shift, xerr=errors, fmt=marker, color=colour, ms=5, lw=1.2, capsize=2, label=legend
            )
        ax.axvline(0.5, color=GREY, ls="--", lw=1, label="guessing")
        if result.bound is not None:
            ax.axvline(result.bound, color=RED, lw=1, label=f"bound of epsilon {result.claimed_epsilon:g}")
        ax.set_yticks(position, labels=[label(row.adversary) for row in result.rows])
        ax.set_ylim(len(position) - 0.5, -0.5)
        ax.set(xlim=(0, 1.02), xlabel="probability of naming the deleted record")
        ax.set_title(label(f"{result.game}, {len(result.numbers)} rounds"), loc="left")
    return ax
