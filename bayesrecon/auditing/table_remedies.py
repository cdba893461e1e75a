"""A printed table of estimates as a fit to audit, with remedies that change the table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bayesrecon.auditing.look import Fit
from bayesrecon.errors import BayesreconError
from bayesrecon.estimation.kinds.kind import kind_of
from bayesrecon.inexact import NO_CORRELATIONS
from bayesrecon.json_types import Json
from bayesrecon.model import Model
from bayesrecon.posteriors.contents import Contents, stamp
from bayesrecon.posteriors.printed.coarser import estimates_alone
from bayesrecon.posteriors.printed.footers import cell, without_footer
from bayesrecon.posteriors.printed.headers import SIGMA
from bayesrecon.posteriors.printed.reading import Printed, as_printed
from bayesrecon.posteriors.printed.summaries import from_table, read_frame, titled
from bayesrecon.releases import Derived, Release
from bayesrecon.results.findings import NotRun

if TYPE_CHECKING:
    from pandas import DataFrame

    Correlations = str | Path | DataFrame | Sequence[Sequence[str]]

Alternatives = dict[str, Callable[[], Release]]
_DIGITS = (4, 3, 2)  # numbers of digits that are tried


def table_to_audit(
    table: "str | Path | DataFrame", model: Model | str, *, correlations: "Correlations | None" = None, **options: Any
) -> tuple[Fit, Contents, Model | None]:
    """A table as a fit, the name and the file that it has, and its model.

    Args:
        table: the path of a CSV file, or a DataFrame.
        model, correlations, options: as in `posteriors.from_table`.

    Raises:
        BayesreconError: the table cannot be read, or belongs to another model.

    >>> _ = Path("fit.csv").write_text("name,coef,se\\nconst,25.80,5.917\\nage,0.6100,0.05852\\nsigma,18.27,\\n")
    >>> fit, contents, _ = table_to_audit("fit.csv", "ols")
    >>> contents.name, fit.untried[0].reason
    ('fit.csv', 'the correlations of the estimates were not given')
    """
    form = as_printed(table, column=options.get("column"))
    name = titled(table, form.model) or "table"
    files = (stamp(Path(table)),) if isinstance(table, str | Path) else ()
    contents = Contents(name, "table of estimates", files)
    how = "pass the correlations (--correlations FILE)"
    untried = NotRun("table", NO_CORRELATIONS, how, (name,))
    fit = Fit(None, "table", untried=(untried,), n=_records_of(form))
    if correlations is None and form.correlations is None and not isinstance(model, str):
        return fit, contents, model  # for the user's own model, a table needs correlations
    release = from_table(table, model, correlations=correlations, **options)
    if not kind_of(release).states:
        fit = replace(fit, untried=())
    elif form.correlations is not None:
        fit = replace(fit, untried=(replace(untried, reason=f"{NO_CORRELATIONS} with enough digits"),))
    alternatives = _alternatives(form, model, correlations, options, release)
    return replace(fit, release=release, alternatives=alternatives), contents, release.about


def _records_of(form: Printed) -> float | None:
    """The number of records in the footer of a table."""
    lines, footer = without_footer(form.frame)
    counted = footer.records(sum(str(label).strip().lower() not in SIGMA for label in lines.index))
    return counted[0] if counted is not None and counted[0] == counted[1] else None


def _alternatives(
    form: Printed, model: Model | str, correlations: "Correlations | None", options: Json, release: Release
) -> Alternatives:
    options = {k: v for k, v in options.items() if k != "column"}

    def printed(digits: int) -> Release:
        given = correlations, form.correlations
        matrix, below = (None if one is None else reprinted_correlations(one, digits) for one in given)
        fewer = replace(form, frame=reprinted(form, digits), correlations=below)
        return from_table(fewer, model, correlations=matrix, **options)

    alternatives: Alternatives = {f"print {k} digits": partial(printed, k) for k in _DIGITS}
    if correlations is not None or form.correlations is not None:
        without = replace(form, correlations=None)
        alternatives["leave the correlations out"] = partial(from_table, without, model, **options)
    # For releases of other kinds it raises an error when it is tried.
    alternatives["publish the estimates alone"] = partial(estimates_alone, cast(Derived, release))
    return alternatives


def reprinted(table: object, digits: int) -> "DataFrame":
    """The table as a DataFrame of text, with at most `digits` significant digits in every cell.

    Raises:
        BayesreconError: no cell has more digits.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"estimate": ["25.801", "0.61"], "se": ["5.917", ""]}, index=["const", "age"])
    >>> reprinted(frame, 3)["estimate"].tolist()
    ['25.8', '0.61']
    """
    frame = as_printed(table).frame

    def cut(number: Decimal, text: str) -> str:
        return text if len(number.as_tuple().digits) <= digits else cell(float(number), digits)

    changed = _changed(frame, cut)
    if (changed == frame.astype(object)).all(axis=None):
        raise BayesreconError("the table has no more digits")
    return changed


def reprinted_correlations(correlations: "Correlations", decimals: int) -> "DataFrame":
    """The correlations, rounded to `decimals` decimals.

    >>> reprinted_correlations([["1", "-0.98892"], ["-0.98892", "1"]], 3).to_numpy().tolist()
    [['1', '-0.989'], ['-0.989', '1']]
    """
    import pandas as pd

    square = isinstance(correlations, str) or hasattr(correlations, "columns") or hasattr(correlations, "suffix")
    frame = read_frame(correlations, "the correlations") if square else pd.DataFrame(correlations)
    step = Decimal(1).scaleb(-decimals)

    def cut(number: Decimal, text: str) -> str:
        return text if -int(number.as_tuple().exponent) <= decimals else format(number.quantize(step), "f")

    return _changed(frame, cut)


def _changed(frame: "DataFrame", change: Callable[[Decimal, str], str]) -> "DataFrame":
    def changed_cell(value: str | float | None) -> str:
        text = (
            value.strip() if isinstance(value, str) else "" if value is None or value != value else repr(float(value))
        )
        try:
            number = Decimal(text.replace("\u2212", "-"))
        except ArithmeticError:
            return text
        return change(number, text) if number.is_finite() else text

    return frame.astype(object).map(changed_cell)
