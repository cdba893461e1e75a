"""The report as one page of HTML: no network, plots inside, printable, light and dark.

All text that comes from files passes through Jinja's autoescape; plots are drawn by matplotlib without TeX.
"""

import io
import shlex
from datetime import UTC, datetime
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon._version import __version__
from bayesrecon.diagnostics import Z95
from bayesrecon.errors import visible
from bayesrecon.plots.plain import in_plain_words
from bayesrecon.plots.text import numbers
from bayesrecon.results.findings import LEVELS

if TYPE_CHECKING:
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Finding, Item

_ERRORS = ("predicted", "measured")  # remedies with errors to draw
_SHOWN = 8  # records in the page: it must not be a second copy of the data
_MEANINGS = {
    "exact_count": "totals are exact: the number of records, or of those of a category, has a standard error below",
    "record": "a record is recovered: its fields' standard errors, as shares of their spread, are below",
    "vague": "something is learnt about a record: the same, below",
    "share": "a finding about records is high: share of such records from",
    "misfit": "values do not belong to the model: residuals, in units of the noise, above",
    "small_count": "a level, a cell or residual degrees of freedom are small: records below",
}


def audit_page(audit: "Audit", command: str | None = None) -> str:
    """The page of an audit.

    Args:
        command: with which the audit was made, where it was made on the command line.

    >>> import bayesrecon, numpy as np
    >>> page = audit_page(bayesrecon.audit({"x": np.ones((2, 50, 1)) * np.arange(9.0) ** 2}))
    >>> "Do not publish this file as it is." in page
    True
    """
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        finalize=_shown,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "records": _records, "told": _told, "intervals": _intervals}
    template = environment.from_string((files("bayesrecon.plots") / "report.html").read_text(encoding="utf-8"))
    plots = {id(f): [_markup(svg) for svg in _plots(f)] for f in (*audit, *(audit.fixed or ()))}
    return template.render(
        audit=audit,
        document=audit.to_dict(),
        plain=(plain := in_plain_words(audit)),
        again=_again(audit, command) if plain.remove and audit.draws and audit.fixed is None else None,
        plots=lambda finding: plots.get(id(finding), []),
        told={str(n) for n in audit.not_run},
        meanings=_MEANINGS,
        levels=[(level, sum(f.severity == level for f in audit)) for level in reversed(LEVELS)],
        version=__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _again(audit: "Audit", command: str | None) -> str:
    """The command that writes a cleaned copy: the one that was typed, or with the place of the model left open."""
    if command is not None:
        return f"{command} --fix cleaned.nc"
    paths = [str(file.get("path", audit.name)) for file in audit.files] or [audit.name]
    model = " --model MODEL" if audit.model else ""
    return f"bayesrecon audit {' '.join(map(shlex.quote, paths))}{model} --fix cleaned.nc"


def _shown(value: Any) -> Any:
    """Texts without what would turn the direction of the page around."""
    return visible(value) if type(value) is str else value


def _markup(svg: str) -> Any:
    """A drawing of our own, which holds text as outlines only."""
    from markupsafe import Markup

    return Markup(svg)


def _plots(finding: "Finding") -> list[str]:
    from bayesrecon.plots.audit import plot_pointwise, plot_remedies

    drawn = []
    if any(r.status in _ERRORS and r.before for r in finding.remedies):
        drawn.append(_svg(plot_remedies, finding))
    if any(np.asarray(v).ndim == 1 for v in finding.records.values()):
        drawn.append(_svg(plot_pointwise, finding))
    return drawn


def _svg(draw: Any, finding: "Finding") -> str:
    """A figure as inline SVG, beside pyplot and without the XML declaration."""
    import matplotlib as mpl

    from bayesrecon.plots.frame import fit, new_figure

    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "bayesrecon"}):
        figure = new_figure(pyplot=False)
        draw(finding, ax=figure.add_subplot())
        rows = sum(r.status in _ERRORS for r in finding.remedies)
        fit(figure, heights=(max(1.2, 0.24 * rows) if draw.__name__ == "plot_remedies" else 3.2,))
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _number(value: Any, digits: int = 5) -> str:
    if value is None:
        return "–"
    return f"{value:.{digits}g}" if np.isfinite(value) else "∞"


def _told(item: "Item") -> tuple[str, str, str, str]:
    """Value, error, interval and truth, to the digits that the error supports; what there is none of is a dash."""
    value, se, lower, upper, true = (
        np.nan if x is None or not np.isfinite(x) else float(x)
        for x in (item.estimate, item.se, item.lower, item.upper, item.truth)
    )
    scale = se if se > 0 else (upper - lower) / (2 * Z95)
    if not scale > 0:  # nothing says how many digits are right
        shown = [_number(None if np.isnan(x) else x, 9) for x in (value, true)]
        return shown[0], "exact" if se == 0 else "–", "–", shown[1]
    texts = numbers(value, se, scale, lower, upper, true)
    return tuple(text.removeprefix("± ") or "–" for text in texts)  # type: ignore[return-value]


def _intervals(finding: "Finding") -> bool:
    return any(item.lower is not None and item.upper is not None for item in finding.evidence)


def _records(finding: "Finding") -> list[list[str]]:
    """The first records as rows of text: value ± error of every field."""
    columns = []
    for name, values in finding.records.items():
        flat = np.asarray(values, float)[:_SHOWN].reshape(min(len(values), _SHOWN), -1)
        errors = np.asarray(finding.errors[name], float)[:_SHOWN].reshape(flat.shape)
        cells = [
            ", ".join(_with_error(v, e) for v, e in zip(*row, strict=True)) for row in zip(flat, errors, strict=True)
        ]
        columns.append(cells)
    return [list(row) for row in zip(*columns, strict=True)]


def _with_error(value: float, error: float) -> str:
    return f"{value:.7g}" + (f" ± {error:.1g}" if np.isfinite(error) and error > 0 else "")
