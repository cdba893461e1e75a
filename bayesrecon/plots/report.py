"""The audit report as one HTML page. It needs no network, contains its plots, prints, and has a light and a dark style.

All text from files passes through Jinja's autoescape. Matplotlib draws the plots without TeX.
"""

import io
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Protocol

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.diagnostics import Z95
from bayesrecon.errors import visible
from bayesrecon.plots.text import numbers
from bayesrecon.results.audit import CONFIDENTIAL
from bayesrecon.results.findings import LEVELS

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes

    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Finding, Item

_ERRORS = ("predicted", "measured")  # statuses of remedies whose errors are plotted
_SHOWN = 8  # largest number of records on the page, which must not be a second copy of the data
_MEANINGS = {
    "exact_count": "a count is exact if its standard error is below this number of records",
    "record": "a record is recovered if its fields' standard errors, relative to the fields' spread, are below",
    "vague": "something is learnt about a record if the same standard errors are below",
    "share": "a finding about records is high if the share of recovered records is at least",
    "misfit": "values do not belong to the model if their residuals, in units of the noise, are above",
    "small_count": "a level, a cell or the residual degrees of freedom are small if below this number of records",
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
    from bayesrecon.plots.audit import plot_pointwise, plot_remedies

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
    people = [_PEOPLE[audit.severity], *(_needs(f) for f in audit.findings[:3])]
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


def _needs(finding: "Finding") -> str:
    return f"{_sentence(finding)}. To see it takes {finding.needs}."


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
