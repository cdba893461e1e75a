"""Description of a format of draws."""

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bayesrecon.errors import BayesreconError, first_line

if TYPE_CHECKING:
    from bayesrecon.posteriors.draws import Draws

S = TypeVar("S")
R = TypeVar("R")


def never(source: object) -> bool:
    """No object is of this kind."""
    return False


@dataclass(frozen=True)
class Format:
    """A kind of source. A module of this package that defines `FORMAT` adds one, and so does a plug-in.

    Attributes:
        name: for display.
        suffixes: suffixes of its files, in lower case with the dot.
        draws: `(source, name=) -> Draws`.
        contents: `(source, name=, progress=) -> Contents`, everything in the source: a path, or an object that `holds`
            accepts.
        holds: whether an object other than a path is of this kind.
        rank: an object of several kinds belongs to the one of lowest rank.
        directory: its files are directories.
        several: `contents` takes the list of files that belong together, such as the chains of one fit.
        guarded: `draws` and `contents` take `trusted=`, which lifts the limits on untrusted files.
        claims: whether a file is of this kind, for suffixes that several formats share. None if none is shared.
    """

    name: str
    suffixes: tuple[str, ...]
    draws: Callable[..., "Draws"]
    contents: Callable[..., Any]
    holds: Callable[[object], bool] = never
    rank: int = 50
    directory: bool = False
    several: bool = False
    guarded: bool = False
    claims: Callable[[Path], bool] | None = None

    def options(self, trusted: bool) -> dict[str, bool]:
        """The keywords of `draws` and `contents` that say whether a file is trusted."""
        return {"trusted": trusted} if self.guarded else {}

    def takes(self, paths: Sequence[object]) -> bool:
        """Whether this many files can be one source."""
        return self.several or len(paths) == 1


def of_plugin(plugin: Format) -> Format:
    """The format of a plug-in, with two restrictions.

    Without a guarded reader, it only gets trusted files. If its `claims` or `holds` fails, the answer is no.
    """

    def checked(question: Callable[[S], bool]) -> Callable[[S], bool]:
        def ask(source: S) -> bool:
            try:
                return bool(question(source))
            except Exception as error:  # foreign code can fail in any way
                warnings.warn(f"the plug-in for {plugin.name} is skipped: {first_line(error)}", stacklevel=2)
                return False

        return ask

    def only_trusted(read: Callable[..., R]) -> Callable[..., R]:
        def trusting(source: object, *, trusted: bool = False, **options: object) -> R:
            if not trusted and isinstance(source, str | os.PathLike | list):
                raise BayesreconError(
                    f"{source}: the plug-in for {plugin.name} reads files without limits; if you trust it, read it "
                    "with trusted=True (--trusted)"
                )
            return read(source, **options)

        return trusting

    claims = None if plugin.claims is None else checked(plugin.claims)
    plugin = replace(plugin, holds=checked(plugin.holds), claims=claims)
    if plugin.guarded:
        return plugin
    return replace(plugin, draws=only_trusted(plugin.draws), contents=only_trusted(plugin.contents), guarded=True)
