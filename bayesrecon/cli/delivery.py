"""Output of a result: warnings, a file in the format of its suffix, a plot, then JSON or tables."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bayesrecon.results.base import Result

R = TypeVar("R", bound="Result")
FIGURES = (".png", ".pdf", ".svg")


def deliver(
    result: R,
    *,
    out: Path | None,
    plot: Path | None,
    draw: str | None,
    json: bool,
    show: "Callable[[R], Iterable[RenderableType]]",
    notes: Iterable[str] = (),
    say: Callable[[str], str] = lambda message: message,
) -> None:
    """Output a result.

    Args:
        result: the result.
        out, plot: files to write, whose names were checked before; None for none.
        draw: the function of `bayesrecon.plots` that plots the result (`module.function`); None for its own `plot`.
        json: whether to print one JSON object on stdout instead of texts and tables.
        show: function that returns these texts and tables.
        notes: warnings in addition to those of the result.
        say: function from a warning to its words on the command line.
    """
    from bayesrecon.cli import console

    failures = tuple(f"failed: {failure}" for failure in getattr(result, "failures", ()))
    for warning in (*failures, *getattr(result, "warnings", ()), *notes):
        console.warn(say(warning))
    if out is not None:
        result.save(out)
        console.wrote(out)
    if plot is not None:
        if draw is not None:
            result.plotted(draw, path=plot)
        else:
            result.plot(path=plot)
        console.wrote(plot)
    if json:
        console.emit_json(result.to_dict())
        return
    for part in (*_first(result), *show(result)):
        if isinstance(part, str):
            console.out.print(part, highlight=False, markup=False, soft_wrap=True)
        else:
            console.out.print(part)


def _first(result: object) -> list[str]:
    """The lines before the tables: whether a check failed, and the assumption of the numbers."""
    return [line for line in (getattr(result, "notice", ""), getattr(result, "condition", "")) if line]


def check_places(written: Mapping[str, Path], read: Iterable[str]) -> None:
    """Raise an error if a file to write is also read, under any name, or if two files have the same path.

    Args:
        written: `{option: file to write}`.
        read: texts that may be names of files or folders to read.
    """
    names = {name for text in read for name in (text, text.rpartition(":")[0]) if name}  # FILE.py:FUNCTION
    sources = [Path(name) for name in names if os.path.exists(name)]
    for option, path in written.items():
        for source in sources:
            if path.exists() and path.samefile(source):
                raise BayesreconError(f"{option} {path}: this is {source}, which is read; name another file")
            if source.is_dir() and source.suffix and path.resolve().is_relative_to(source.resolve()):
                raise BayesreconError(f"{option} {path}: this is inside {source}, which is read; name another file")
    places: dict[Path, str] = {}
    for option, path in written.items():
        other = places.setdefault(path.resolve(), option)
        if other != option:
            raise BayesreconError(f"{option} {path}: {other} writes to the same file")


def check_suffix(path: Path | None, allowed: tuple[str, ...], option: str) -> None:
    """Check the name of a file to write, before any computation."""
    if path is None:
        return
    if path.suffix not in allowed:
        raise BayesreconError(f"{option} {path}: the name must end in {' or '.join(allowed)}")
    if path.is_dir():
        raise BayesreconError(f"{option} {path}: this is a directory")
    if not path.parent.is_dir():
        raise BayesreconError(f"{option} {path}: the folder {path.parent} does not exist")
