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

R = TypeVar("R")


def never(source: object) -> bool:
    """No object is of this kind."""
    return False


@dataclass(frozen=True)
class Format:
    """One kind of source; a module of this package that has `FORMAT` adds it, or a plug-in.

    Attributes:
        name: for display.
        suffixes: suffixes of the files it reads.
        draws: `(source, name=) -> Draws`.
        contents: `(source, name=, progress=) -> Contents`, everything in it; `source` is a path, or what `holds`.
        holds: whether an object that is no path is of this kind.
        rank: objects of several kinds belong to the one of lowest rank.
        directory: its files are directories.
        guarded: both take `trusted=`, which lifts the limits of files from strangers.
        claims: `path -> bool`, whether a file is of this kind, of a suffix that several share, else None.
        several: `contents` takes the list of files that belong together, such as the chains of one fit.
    """

    name: str
    suffixes: tuple[str, ...]
    draws: Callable[..., "Draws"]
    contents: Callable[..., Any]
    holds: Callable[[Any], bool] = never
    rank: int = 50
    directory: bool = False
    several: bool = False
    guarded: bool = False
    claims: Callable[[Path], bool] | None = None

    def options(self, trusted: bool) -> dict[str, bool]:
        """The keywords of `draws` and `contents` that say whether a file is trusted."""
        return {"trusted": trusted} if self.guarded else {}

    def takes(self, paths: Sequence[object]) -> bool:
        """Whether these many files are one source."""
        return self.several or len(paths) == 1


def of_plugin(plugin: Format) -> Format:
    """The format of a plug-in, with two restrictions.

    Without a guarded reader, it only gets trusted files. If its `claims` or `holds` fails, the answer is no.
    """

    def checked_claim(question: Callable[[Any], bool]) -> Callable[[Any], bool]:
        def ask(source: object) -> bool:
            try:
                return bool(question(source))
            except Exception as error:  # foreign code can fail in any way
                warnings.warn(f"the plug-in for {plugin.name} is skipped: {first_line(error)}", stacklevel=2)
                return False

        return ask

    def only_trusted(read: Callable[..., R]) -> Callable[..., R]:
        def trusting(source: object, *, trusted: bool = False, **options: Any) -> R:
            if not trusted and isinstance(source, str | os.PathLike | list):
                raise BayesreconError(
                    f"{source}: the plug-in for {plugin.name} reads files without limits; if you trust it, read it "
                    "with trusted=True (--trusted)"
                )
            return read(source, **options)

        return trusting

    claims = None if plugin.claims is None else checked_claim(plugin.claims)
    plugin = replace(plugin, holds=checked_claim(plugin.holds), claims=claims)
    if plugin.guarded:
        return plugin
    return replace(plugin, draws=only_trusted(plugin.draws), contents=only_trusted(plugin.contents), guarded=True)
