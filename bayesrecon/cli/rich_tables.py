"""Rich tables of results."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table
from rich.text import Text

from bayesrecon.results.base import number as number

if TYPE_CHECKING:
    from bayesrecon.results.recovery import Recovery

STYLE = {"determined": "green", "partly": "yellow", "undetermined": "dim"}


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    title: str = "",
    caption: str | None = None,
    words: int = 1,
    most: int | None = None,
    fold: bool = False,
) -> Table:
    """A table whose first `words` columns are text; the others are numbers.

    Of more than `most` rows the first are shown. With `fold`, long cells are folded.
    """
    shown = Table(title=escape(title) or None, title_justify="left", caption=caption)
    for k, heading in enumerate(head):
        justify = "left" if k < words else "right"
        shown.add_column(escape(heading), justify=justify, no_wrap=not fold, overflow="fold" if fold else "ellipsis")
    listed = list(rows)
    for row in listed[:most]:
        shown.add_row(*(escape(cell) if isinstance(cell, str) else cell for cell in row))
    if most is not None and len(listed) > most:
        shown.add_row(f"and {len(listed) - most} more: see --json or --out")
    return shown


def verdict(word: str) -> Text:
    """A verdict in its colour."""
    return Text(word, STYLE[word])


def share(value: float) -> str:
    """A share in [0, 1]. Shares below one are never rounded to one."""
    return f"{min(value, 0.9999) if value < 1 - 5e-5 else 1.0:.4f}"


def recovery_table(result: "Recovery", truth: Mapping[str, float] | None = None, details: bool = False) -> Table:
    """The rows of a recovery. With `truth` also z scores, with `details` also floor and visibility."""
    title = f"{result.release}: what {result.draws} draws reveal about the data"
    if not result.temperature:
        title = f"{result.release}: what a trained parameter reveals about the data"
    head = ["statistic", "recovered", "std. error", "95 % interval", *(["floor", "visibility"] if details else [])]
    rows: list[list[str | Text]] = []
    for row in result:
        bounds = [number(x) if x is not None else "" for x in (row.lower, row.upper)]
        interval = " … ".join(bounds) if any(bounds) else "–"
        cells: list[str | Text] = [row.name, number(row.estimate), number(row.se, 3), interval]
        cells += [number(row.floor, 3), share(row.visibility)] if details else []
        if truth:
            true = truth.get(row.name)
            known = true is not None and row.estimate is not None and row.se
            z = f"{(row.estimate - true) / row.se:+.2f}" if known else "–"  # type: ignore[operator]
            cells += [number(true), z]
        rows.append([*cells, verdict(row.verdict)])
    shown = table([*head, *(["true", "z"] if truth else []), "verdict"], rows, title=title)
    shown.caption, shown.caption_justify = escape(_caption(result, details)), "left"
    return shown


def _caption(result: "Recovery", details: bool) -> str:
    exact = sum(row.verdict == "determined" for row in result)
    if result.failures:
        kind = "a check of draws and model failed"
    elif not result.rank and exact:  # printed digits with whole numbers of records, no equations that are solved
        kind = f"{exact} of {len(result)} statistics are determined"
    elif result.gap:
        kind = f"exactly {result.rank} independent sums over the records are determined"
    else:
        kind = f"about {result.rank} independent sums over the records exceed the noise"
    how = f"metric {result.metric}, {result.coordinates} coordinates" if details else "more with --details"
    return f"{kind} · {how} · {result.seconds:.1f} s"
