"""The precision that each form of a release would leave: fewer draws, fewer digits, or summaries."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.plots.style import GREY, panel, styles
from bayesrecon.plots.text import label
from bayesrecon.results.plan import EXACT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.plan import Outlook, Plan

_MOST = 7  # largest number of statistics: as many as there are distinct colours and markers
_LINE, _LEAST = 0.3, 3.0  # inches: height of a line, and smallest height of the panel
_WITHIN = 0.64  # share of a line's height that its markers are spread over
_EXACTLY = 1e-9  # relative half widths below this are rounding: the statistic is exact
_BEYOND = 3.0  # factor from the smallest or largest number to the edge where exact or missing ones are drawn


def plot_plan(plan: "Plan", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """Half the width of each statistic's interval, relative to its estimate, for each form of the release.

    For draws, and for their mean and covariance, it is the 95 % interval. For a mode with its covariance and for
    variational fits it is the range that rounding leaves. Exact statistics are at the left edge. Statistics that are
    not determined are at the right edge, which does not prove that no attack determines them.

    Args:
        plan: result of `bayesrecon.plan`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    Raises:
        BayesreconError: the path has another suffix or is in a folder that does not exist.

    >>> from bayesrecon.results.plan import Outlook, Plan
    >>> outlook = Outlook("n", 100.0, se={100: 12.0, 1000: 4.0}, shift={2: 0.5}, moments={100: 11.0}, mode={3: 1.5})
    >>> ax = plot_plan(Plan("survey", 1000, (outlook,)))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['100 draws', '1,000 draws', '1,000 draws, 2 digits', 'mean, covariance of 100 draws', 'mode, covariance: 3 digits']
    """
    outlooks = plan.outlooks[:_MOST]
    forms = list(_forms(outlooks[0])) if outlooks else []
    with panel(ax, path, heights=(plan_height(plan),)) as ax:
        values = np.array(
            [[_relative(outlook_, value) for _, value in _forms(outlook_)] for outlook_ in outlooks], float
        )
        values[values < _EXACTLY] = 0.0
        finite = values[np.isfinite(values) & (values > 0)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.1, 1.0)
        left, right = low / _BEYOND, high * _BEYOND
        drawn = np.where(np.isnan(values), right, np.maximum(values, left))
        step = _WITHIN / max(len(outlooks) - 1, 3)
        for i, (outlook, style) in enumerate(zip(outlooks, styles(len(outlooks)), strict=True)):
            y = np.arange(len(forms)) + step * (i - (len(outlooks) - 1) / 2)
            ax.plot(drawn[i], y, style.marker, ms=5, color=style.colour, label=label(outlook.name), clip_on=False)
        kinds = [_kind(name) for name, _ in forms]
        for line in (i for i in range(1, len(kinds)) if kinds[i] != kinds[i - 1]):
            ax.axhline(line - 0.5, color=GREY, linewidth=0.6)
        ax.set_xscale("log")
        ax.set_xlim(left, right)
        ax.set_yticks(np.arange(len(forms)), labels=[name for name, _ in forms])
        ax.set_ylim(len(forms) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0, pad=8)
        ax.grid(axis="x", color=GREY, alpha=0.3, linewidth=0.6)
        if (values == 0).any():
            _edge(ax, 0.0, "left", "exact")
        if np.isnan(values).any():
            _edge(ax, 1.0, "right", "not determined")
        ax.set_xlabel("half width of the interval, relative to the estimate")
        more = f" (first {_MOST} of {len(plan.outlooks)})" if len(plan.outlooks) > _MOST else ""
        ax.set_title(f"What each release would leave{more}", loc="left", pad=20)
    return ax


def plan_height(plan: "Plan") -> float:
    """Height of the panel, in inches."""
    return max(_LEAST, _LINE * sum(1 for o in plan.outlooks[:1] for _ in _forms(o)))


def _forms(outlook: "Outlook") -> Iterator[tuple[str, float | None]]:
    """Names of the forms of the release, and half the width of the interval that each leaves."""
    for draws, se in outlook.se.items():
        yield f"{draws:,} draws", Z95 * se
    most = max(outlook.se, default=0)
    for digits in outlook.shift if most else ():
        yield f"{most:,} draws, {digits} digits", Z95 * outlook.error(most, digits)
    for draws, error in outlook.moments.items():
        yield f"mean, covariance of {draws:,} draws", None if error is None else Z95 * error
    for digits, half in outlook.mode.items():
        yield f"mode, covariance: {'all' if digits == EXACT else digits} digits", half
    for kind, half_widths in ("full-rank", outlook.variational), ("mean-field", outlook.mean_field):
        for digits, half in half_widths.items():
            yield f"{kind} fit: {'all' if digits == EXACT else digits} digits", half
    for worth, error in outlook.sanitised.items():
        yield f"sanitised, worth {worth:,} draws", None if error is None else Z95 * error


def _kind(name: str) -> str:
    """The group of lines that a form of the release belongs to."""
    return next((k for k in ("mean, cov", "mode", "full-rank", "mean-field", "digits", "sanitised") if k in name), "")


def _relative(outlook: "Outlook", value: float | None) -> float:
    return np.nan if value is None else abs(value) / max(abs(outlook.estimate), 1e-300)


def _edge(ax: "Axes", x: float, side: str, text: str) -> None:
    ax.annotate(
        text,
        (x, 1),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        ha=side,
        fontsize="small",
        color=GREY,
    )
