"""Plots of games: the success rate of every adversary."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.plots.style import BLUE, GREY, ORANGE, RED, panel
from bayesrecon.plots.text import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.game import GameResult


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
