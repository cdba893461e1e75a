"""Plots of an audit: the effect of remedies, and recovered records."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.errors import BayesreconError
from bayesrecon.plots.style import BLUE, GREY, ORANGE, RED, panel
from bayesrecon.plots.text import label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Finding, Remedy

_ROW = 0.24  # inches
_MOST_RECORDS = 1500


def plot_audit(audit: "Audit", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """The attacker's error after each remedy, relative to the error with the file as it is.

    The error is predicted, and measured by attacking again.

    Args:
        audit: result of `bayesrecon.audit`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.
    """
    rows = [(f, r) for f in audit.findings for r in f.remedies if _has_errors(r)]
    with panel(ax, path, (max(1.2, _ROW * len(rows)),)) as ax:
        names = [f"{r.action}: {r.statistic}" for _, r in rows]
        # Two findings can have the same remedy for the same statistic.
        labels = [
            f"{name} ({f.kind})" if names.count(name) > 1 else name for name, (f, _) in zip(names, rows, strict=True)
        ]
        _draw(ax, [r for _, r in rows], labels)
        ax.set_title("What remedies would leave", loc="left")
    return ax


def plot_remedies(finding: "Finding", ax: "Axes | None" = None, path: str | Path | None = None) -> "Axes":
    """The attacker's error after each remedy of one finding, as in `plot_audit`.

    Args:
        finding: one of `audit.findings`.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    Raises:
        BayesreconError: the path has another suffix or is in a folder that does not exist.

    >>> from bayesrecon.results.audit import Finding, Remedy
    >>> thinner = Remedy("keep 100 draws", "n", before=3.0, predicted=9.0, measured=9.4)
    >>> finding = Finding("draws", "high", "n is known", ("posterior",), "n to 3 %", remedies=(thinner,))
    >>> [label.get_text() for label in plot_remedies(finding).get_yticklabels()]
    ['keep 100 draws: n']
    """
    rows = [r for r in finding.remedies if _has_errors(r)]
    with panel(ax, path, (max(1.2, _ROW * len(rows)),)) as ax:
        _draw(ax, rows, [f"{r.action}: {r.statistic}" for r in rows])
    return ax


def _draw(ax: "Axes", rows: "list[Remedy]", names: list[str]) -> None:
    if not rows:
        ax.text(0.5, 0.5, "no remedy was tried", transform=ax.transAxes, ha="center", va="center", color=GREY)
        ax.set(xticks=[], yticks=[])
        return
    position = np.arange(len(rows))[::-1]
    before, predicted, measured = (
        np.array([getattr(remedy, name) or np.nan for remedy in rows], float) / [remedy.before for remedy in rows]
        for name in ("before", "predicted", "measured")
    )
    ax.hlines(position, before, np.fmax(np.nan_to_num(measured), np.nan_to_num(predicted)), color=GREY, lw=1, zorder=1)
    ax.plot(before, position, marker="|", ms=9, mew=1.6, ls="none", color=RED, label="now", zorder=2)
    ax.plot(
        predicted, position, marker="D", ms=5, ls="none", mfc="none", mec=ORANGE, mew=1.4, label="predicted", zorder=3
    )
    if np.isfinite(measured).any():
        ax.plot(measured, position, marker="o", ms=6, ls="none", color=BLUE, label="measured", zorder=2)
    ax.set_xscale("log")
    ax.set_yticks(position, [label(name) for name in names])
    ax.set_ylim(-0.7, len(rows) - 0.3)
    ax.set_xlabel("error of an attacker, in units of the error now")
    ax.grid(axis="x", color=GREY, alpha=0.25, lw=0.6)


def _has_errors(remedy: "Remedy") -> bool:
    """Whether a remedy has errors to plot."""
    return remedy.status in ("predicted", "measured") and bool(remedy.before)


def plot_pointwise(
    finding: "Finding",
    truth: Mapping[str, ArrayLike] | None = None,
    ax: "Axes | None" = None,
    path: str | Path | None = None,
) -> "Axes":
    """Recovered records: the first two fields against each other, or a single field with error bars.

    Args:
        finding: a finding with records.
        truth: the private records `{field: (N,)}`, drawn as rings.
        ax: Axes to draw into; by default a new figure.
        path: save the figure there (.png, .pdf or .svg).

    Returns:
        The Axes.

    Raises:
        BayesreconError: the finding has no records or they are arrays, or the path has another suffix or is in a folder
            that does not exist.

    >>> from bayesrecon.results.audit import Finding
    >>> found = {"records": {"y": [3.0, 1.0]}, "errors": {"y": [0.1, 0.2]}}
    >>> finding = Finding("log_lik", "high", "Records come back", ("log_likelihood",), "two records", **found)
    >>> plot_pointwise(finding).get_ylabel()
    'y'
    """
    if not finding.records:
        raise BayesreconError(f"{finding.title}: this finding has no records to plot")
    with panel(ax, path) as ax:
        fields = [f for f, v in finding.records.items() if np.asarray(v).ndim == 1][:2]
        columns = [np.asarray(finding.records[f], float)[:_MOST_RECORDS] for f in fields]
        if not fields:
            raise BayesreconError(f"{finding.title}: its records are arrays, which cannot be plotted")
        if len(fields) == 1:
            order = np.argsort(columns[0])
            se = np.asarray(finding.errors[fields[0]], float)[:_MOST_RECORDS][order]
            se = np.where(np.isfinite(se), se, 0.0)
            ax.errorbar(
                np.arange(len(order)), columns[0][order], 1.96 * se, fmt=".", ms=3, color=BLUE, ecolor=GREY, lw=0.6
            )
            ax.set(xlabel="records, sorted by the field", ylabel=label(fields[0]))
        else:
            if truth is not None:
                ring = [np.asarray(truth[f], float)[:_MOST_RECORDS] for f in fields]
                ax.plot(*ring, "o", ms=7, mfc="none", mec=RED, mew=0.9, label="private records", zorder=1)
            ax.plot(*columns, ".", ms=4, color=BLUE, label="recovered", zorder=2)
            ax.set(xlabel=label(fields[0]), ylabel=label(fields[1]))
    return ax
