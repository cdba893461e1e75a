"""Where output goes: results to stdout, everything else to stderr."""

import json
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from bayesrecon.errors import Note, visible
from bayesrecon.json_types import plain

# Tables written to a file or a pipe must not be squeezed into 80 columns.
_WIDTH = None if sys.stdout.isatty() else 160
_INTERVAL = 30.0  # seconds between lines if stderr is not a terminal


class _Console(Console):
    """A console that prints control characters visibly, since texts may come from untrusted files."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


out = _Console(width=_WIDTH)
err = _Console(stderr=True)


@contextmanager
def progress_bar() -> Generator[Callable[[str, float], None]]:
    """Progress on stderr; yields `update(label, fraction)`.

    On terminals a bar with the time left, elsewhere a line every 30 seconds.
    """
    if not err.is_terminal:
        with _lines() as line:
            yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("getting ready", total=None)

        def update(label: str, fraction: float) -> None:
            bar.update(task, description=escape(label), total=1.0, completed=fraction)

        yield update


@contextmanager
def _lines(interval: float = _INTERVAL) -> Generator[Callable[[str, float], None]]:
    """Progress as a line on stderr every `interval` seconds, even if nothing new was reported."""
    began, over = time.monotonic(), threading.Event()
    last = ["getting ready"]

    def update(label: str, fraction: float) -> None:
        last[0] = f"{label}, {fraction:.0%}"

    def tell() -> None:
        while not over.wait(interval):
            say(f"after {time.monotonic() - began:.0f} s: {last[0]}")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield update
    finally:
        over.set()
        thread.join()


def say(message: str) -> None:
    """Print a line on stderr."""
    err.print(escape(message), highlight=False)


def wrote(path: Path) -> None:
    """Print the name of a file that was written, on stderr."""
    err.print(f"wrote {escape(str(path))}", highlight=False, soft_wrap=True)


def warn(message: str) -> None:
    """Print a warning or a note on stderr."""
    kind = "[cyan]note:[/]" if isinstance(message, Note) else "[yellow]warning:[/]"
    err.print(f"{kind} {escape(message)}", highlight=False, soft_wrap=True)


def emit_json(document: object) -> None:
    """Print one JSON object on stdout. NaN and infinity become null."""
    print(json.dumps(plain(document), allow_nan=False))  # noqa: T201
