"""Rows of many data sets, one each: measured by workers, kept as they come, gone on with where another run ended."""

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from bayesrecon.running.engine import swept
from benchmarks import workers
from benchmarks.study import Study

Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    workers.add_arguments(parser)
    parser.add_argument("--minutes", type=float, help="after which no other data set is begun")
    parser.add_argument("--anew", action="store_true", help="measure again, or replace, the rows that there are")
    parser.add_argument("--into", type=Path, metavar="FILE", help="rows, a line each, here and not on the page")
    parser.add_argument("--add", type=Path, nargs="+", metavar="FILE", help="take rows of such files, and end")


class Rows:
    """Rows of a study, a data set each.

    Args:
        study: whose rows they are.
        place: of a data set on the page, from what a row says of it.
        given: what `add_arguments` reads.
    """

    def __init__(self, study: Study, place: Callable[[Row], Any], given: argparse.Namespace) -> None:
        self._study, self._place, self._into = study, place, given.into
        before = [] if given.anew else study.kept()
        if given.add:
            self._keep([*before, *(row for path in given.add for row in _lines(path))])
            raise SystemExit
        if self._into is not None and self._into.exists():
            rows = _lines(self._into)
            self._into.write_text("".join(map(_line, rows)))  # without what was cut off
            before = [*before, *rows]
        elif self._into is None and given.anew:
            self._keep([])
        self._done = {place(row): row for row in before}

    def left(self, items: Iterable[Row]) -> list[Row]:
        """Data sets of which there is no row that says the same of them."""
        return [one for one in items if not one.items() <= self._done.get(self._place(one), {}).items()]

    def add(self, row: Row) -> None:
        """Keep a row at once, instead of one of the same data set."""
        if self._into is None:
            self._keep([*self._study.kept(), row])
        else:
            with self._into.open("a") as lines:
                lines.write(_line(row))

    def _keep(self, rows: Iterable[Row]) -> None:
        placed = {self._place(row): row for row in rows}
        self._study.keep([placed[k] for k in sorted(placed)])


def measured(
    work: Callable[[Any, Row], Row], shared: Any, items: Iterable[Row], given: argparse.Namespace
) -> Iterator[Row]:
    """`work(shared, item)` of the items in their order, by the workers asked for, as long as there is time."""
    end = time.monotonic() + 60 * given.minutes if given.minutes is not None else float("inf")
    with workers.engine(given):
        yield from swept(work, shared, takewhile(lambda _: time.monotonic() < end, items))


def _lines(path: Path) -> list[Row]:
    """Rows of a file, the last of which may have been cut off."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _line(row: Row) -> str:
    return json.dumps(row, default=float) + "\n"
