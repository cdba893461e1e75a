"""A study: rows that a program measures and that the next run goes on with, and the page that is made of them."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bayesrecon._version import __version__
from bayesrecon.evaluate import clopper_pearson

HERE = Path(__file__).resolve().parent
"""Where rows, pages and figures lie."""


class Study:
    """What one program measures.

    Args:
        file: of the program. Its name is that of the rows (`name.json`) and of the page (`NAME.md`).
        page: of all rows; without one pages quote them (`quoted.py`).
        empty: rows before the first run.
        name: another one.
        place: another name of the page.
    """

    def __init__(
        self,
        file: str,
        page: Callable[[Any], str] | None = None,
        *,
        empty: Callable[[], Any] = dict,
        name: str = "",
        place: str = "",
    ) -> None:
        path = Path(file)
        self.name, self.program = name or path.stem, f"benchmarks.{path.parent.name}.{path.stem}"
        self.rows, self.place = HERE / f"{self.name}.json", HERE / f"{place or self.name.upper()}.md"
        self._page, self._empty = page, empty

    @property
    def folder(self) -> Path:
        """Where rows, page and figures of this run lie."""
        return self.rows.parent

    @property
    def _versions(self) -> Path:
        return self.folder / "versions.json"

    def kept(self) -> Any:
        """The rows that there are."""
        return json.loads(self.rows.read_text()) if self.rows.exists() else self._empty()

    def keep(self, rows: Any) -> None:
        """Write rows instead of those that there were, and the page."""
        _whole(self.rows, form(rows))
        versions = json.loads(self._versions.read_text()) if self._versions.exists() else {}
        if versions.get(self.name) != __version__:
            _whole(self._versions, form(dict(sorted({**versions, self.name: __version__}.items()))))
        self.write()

    def add(self, **measured: Any) -> None:
        """Parts of the rows replace those of the same name."""
        self.keep(self.kept() | measured)

    def page(self) -> str:
        """The page of the rows that there are, with the version that measured the last of them, where it is known."""
        assert self._page is not None
        versions = json.loads(self._versions.read_text()) if self._versions.exists() else {}
        told = f"\nMeasured with bayesrecon {versions[self.name]}.\n" if self.name in versions else ""
        return self._page(self.kept()) + told

    def write(self) -> None:
        """Write the page of the rows that there are."""
        if self._page is not None:
            _whole(self.place, self.page())

    def parser(self, document: str | None, **numbers: float) -> argparse.ArgumentParser:
        """Options of the program, the first line of whose document says what it does, and numbers with defaults."""
        parser = argparse.ArgumentParser(prog=f"python -m {self.program}", description=(document or "").split("\n")[0])
        if self._page is not None:
            parser.add_argument("--page", action="store_true", help="write the page from the kept rows, and end")
        parser.add_argument("--to", type=Path, metavar="DIR", help="where rows, page and figures go in place of these")
        for name, value in numbers.items():
            parser.add_argument(f"--{name}", type=type(value), default=value)
        return parser

    def given(self, parser: argparse.ArgumentParser) -> argparse.Namespace:
        """What the caller asks for. Where that is the page alone, it is written, and the program ends."""
        if self._page is not None and "--page" in sys.argv[1:]:  # whatever else a run needs
            self.write()
            raise SystemExit
        given = parser.parse_args()
        if given.to is not None:
            given.to.mkdir(parents=True, exist_ok=True)
            self.rows, self.place = given.to / self.rows.name, given.to / self.place.name
        return given


def form(rows: Any) -> str:
    """Rows as they are kept: long lists of them one a line."""
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        return "[\n" + ",\n".join(json.dumps(row, default=float) for row in rows) + "\n]\n"
    return json.dumps(rows, indent=1, default=float) + "\n"


def share(hits: Sequence[bool]) -> tuple[str, str, str]:
    """How many there are, the share that is true, and its 95 % Clopper-Pearson interval, in words."""
    if not len(hits):
        return "0", "", ""
    range_ = clopper_pearson(sum(hits), len(hits))
    return f"{len(hits)}", f"{sum(hits) / len(hits):.1%}", f"{range_.lower:.1%} to {range_.upper:.1%}"


def table(head: Sequence[object], rows: Sequence[Sequence[object]], words: int = 1, gap: str = " ") -> str:
    """A Markdown table: the first columns are words, the others are numbers."""
    ruler = "|" + f"{gap}---{gap}|" * words + f"{gap}---:{gap}|" * (len(head) - words)
    lines = ["| " + " | ".join(map(str, head)) + " |", ruler]
    return "\n".join([*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows)])


def _whole(path: Path, text: str) -> None:
    """At once: another run may read it."""
    beside = path.with_suffix(f".{os.getpid()}.tmp")
    beside.write_text(text)
    beside.replace(path)
