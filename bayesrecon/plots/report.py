"""The audit report as one HTML page. It needs no network, contains its plots, prints, and has a light and a dark style.

All text from files passes through Jinja's autoescape. Matplotlib draws the plots without TeX.
"""

import io
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike

from bayesrecon._version import __version__
from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError, visible
from bayesrecon.plots.style import BLUE, GREY, ORANGE, RED, label, numbers, panel
from bayesrecon.results.audit import CONFIDENTIAL
from bayesrecon.results.findings import LEVELS

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Finding, Item, Remedy


_ERRORS = ("predicted", "measured")  # statuses of remedies whose errors are plotted
_SHOWN = 8  # largest number of records on the page, which must not be a second copy of the data
_MEANINGS = {
    "exact_count": "a count is exact if its standard error is below this number of records",
    "record": "a record is recovered if its fields' standard errors, relative to the fields' spread, are below",
    "vague": "something is learnt about a record if the same standard errors are below",
    "share": "a finding about records is high if the share of recovered records is at least",
    "misfit": "values do not belong to the model if their residuals, in units of the noise, are above",
    "small_count": "a level or a cell is small if below this number of records",
    "freedom": "residual degrees of freedom are few if below",
    "zeros": "cells without records are small",
    "largest": "a sum is dominated if the largest records, so many, are more than a share of it",
    "largest_share": "which is this share",
    "p_ratio": "a sum is dominated if all but its two largest records are less than this share of the largest",
    "digits": "numbers have too many digits if they have more than so many significant ones (0: any number)",
}


class _Draw(Protocol):
    def __call__(self, finding: "Finding", *, ax: "Axes") -> "Axes": ...


def audit_page(audit: "Audit", command: str | None = None) -> str:
    """The HTML page of an audit.

    Args:
        audit: result of `bayesrecon.audit`.
        command: the command line that made the audit, if any.
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        finalize=_without_controls,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.from_string((files("bayesrecon.plots") / "report.html").read_text(encoding="utf-8"))
    plots = {id(f): [_markup(svg) for svg in _plots(f)] for f in (*audit, *(audit.fixed or ()))}
    return template.render(
        number=_number,
        records=_records,
        cells=_cells,
        intervals=_intervals,
        audit=audit,
        confidential=CONFIDENTIAL,
        document=audit.to_dict(),
        plain=(plain := in_plain_words(audit)),
        again=_fix_command(audit, command) if plain.remove and audit.draws and audit.fixed is None else None,
        plots=lambda finding: plots.get(id(finding), []),
        listed={str(n) for n in audit.not_run},
        meanings=_MEANINGS,
        levels=[(level, sum(f.severity == level for f in audit)) for level in reversed(LEVELS)],
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _fix_command(audit: "Audit", command: str | None) -> str:
    """The command that writes a cleaned copy: the typed one with `--fix`, or one with a placeholder for the model.

    Without a model, it names the arrays that may be parameters.
    """
    drawn = [where for f in audit if f.kind == "draws" and audit.model is None for where in f.where]
    keep = "".join(f" --keep {shlex.quote(where.removeprefix('posterior/'))}" for where in drawn)
    if command is not None:
        return f"{command}{'' if '--keep' in command else keep} --fix cleaned.nc"
    paths = [str(file.get("path", audit.name)) for file in audit.files] or [audit.name]
    model = " --model MODEL" if audit.model else ""
    return f"bayesrecon audit {' '.join(map(shlex.quote, paths))}{model}{keep} --fix cleaned.nc"


def _without_controls(value: object) -> object:
    """Strings without the characters that would reverse the direction of text on the page."""
    return visible(value) if type(value) is str else value


def _markup(svg: str) -> "Markup":
    """A plot of ours as markup. It contains text only as outlines."""
    from markupsafe import Markup

    return Markup(svg)


def _plots(finding: "Finding") -> list[str]:

    drawn = []
    if any(r.status in _ERRORS and r.before for r in finding.remedies):
        rows = sum(r.status in _ERRORS for r in finding.remedies)
        drawn.append(_svg(plot_remedies, finding, max(1.2, 0.24 * rows)))
    if any(np.asarray(v).ndim == 1 for v in finding.records.values()):
        drawn.append(_svg(plot_pointwise, finding, 3.2))
    return drawn


def _svg(draw: _Draw, finding: "Finding", height: float) -> str:
    """A figure as inline SVG, without pyplot and without the XML declaration."""
    import matplotlib as mpl

    from bayesrecon.plots.style import fit, new_figure

    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "bayesrecon"}):
        figure = new_figure(pyplot=False)
        draw(finding, ax=figure.add_subplot())
        fit(figure, heights=(height,))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _number(value: float | None, digits: int = 5) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}g}" if np.isfinite(value) else "∞"


def _cells(item: "Item") -> tuple[str, str, str, str]:
    """Value, error, interval and truth, to the digits that the error supports. Missing ones are dashes."""
    value, se, lower, upper, true = (
        np.nan if x is None or not np.isfinite(x) else float(x)
        for x in (item.estimate, item.se, item.lower, item.upper, item.truth)
    )
    scale = se if se > 0 else (upper - lower) / (2 * Z95)
    if not scale > 0:  # without an error, the number of correct digits is unknown
        estimate, truth = (_number(None if np.isnan(x) else x, 9) for x in (value, true))
        return estimate, "exact" if se == 0 else "–", "–", truth
    estimate, error, interval, truth = numbers(value, se, scale, lower, upper, true)
    return estimate or "–", error.removeprefix("± ") or "–", interval or "–", truth or "–"


def _intervals(finding: "Finding") -> bool:
    return any(item.lower is not None and item.upper is not None for item in finding.evidence)


def _records(finding: "Finding") -> list[list[str]]:
    """The first records as rows of text, with value ± error for every field."""
    columns = []
    for name, values in finding.records.items():
        flat = np.asarray(values, float)[:_SHOWN].reshape(min(len(values), _SHOWN), -1)
        errors = np.asarray(finding.errors[name], float)[:_SHOWN].reshape(flat.shape)
        cells = [
            ", ".join(_with_error(value, error) for value, error in zip(*row, strict=True))
            for row in zip(flat, errors, strict=True)
        ]
        columns.append(cells)
    return [list(row) for row in zip(*columns, strict=True)]


def _with_error(value: float, error: float) -> str:
    return f"{value:.7g}" + (f" ± {error:.1g}" if np.isfinite(error) and error > 0 else "")


# An audit for readers without statistics: what a stranger can learn about a person, what to remove, what stays.

_PEOPLE = {
    "high": "A stranger can recover values of individual people, or the data themselves.",
    "medium": "A stranger can learn something exactly: totals over all people, labels, or something about individuals.",
    "low": "The attacks that were tried give a stranger numbers about all people together, each with an error.",
    "info": "The attacks that were tried give a stranger nothing.",
}
_NOT_TRIED = "Some attacks could not be tried, so a stranger may learn more than this."
_MOST = 6  # largest number of items named in a sentence


@dataclass(frozen=True)
class PlainWords:
    """Three answers, each in a few sentences.

    Attributes:
        people: what a stranger can learn about a person.
        remove: what to remove before publishing; may be empty.
        stays: what a stranger can still learn after that, and what was not attacked.
    """

    people: tuple[str, ...]
    remove: tuple[str, ...]
    stays: tuple[str, ...]


def in_plain_words(audit: "Audit") -> PlainWords:
    """The summary at the top of the report."""
    people = [_PEOPLE[audit.severity], *(f"{_sentence(f)}. To see it takes {f.needs}." for f in audit.findings[:3])]
    dropped = tuple(dict.fromkeys(where for f in audit for where in f.drop))
    drop = {where.lstrip("@") for where in dropped}  # attributes are marked with @
    staying = [f for f in audit if not (f.drop and set(f.where) <= drop)]
    stays = [f"{_sentence(f)}." for f in staying[:_MOST]]
    if not stays:
        stays = ["Nothing of what was found stays once this is removed." if drop else "No findings."]
    if audit.not_run:
        people.append(_NOT_TRIED)
        names = list(dict.fromkeys(n.attack for n in audit.not_run))
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        stays.append(f"Not attacked, so it is not known what they reveal: {', '.join(names[:_MOST])}{more}.")
    return PlainWords(tuple(people), dropped, tuple(stays))


def _sentence(finding: "Finding") -> str:
    """The title as a sentence whose subject is not a path.

    >>> from types import SimpleNamespace
    >>> _sentence(SimpleNamespace(title="posterior/x is the same in every draw", where=("posterior/x",)))
    'An item of the file is the same in every draw (posterior/x)'
    """
    place = next((where for where in finding.where if finding.title.startswith(f"{where} ")), None)
    if place is None:
        return finding.title[:1].upper() + finding.title[1:]
    return f"An item of the file{finding.title[len(place) :]} ({place})"


# Plots of an audit: the effect of remedies, and recovered records.


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
