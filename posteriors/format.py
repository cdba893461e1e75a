"""What a kind of source of draws says of itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayesrecon.posteriors.contents import Contents
from bayesrecon.posteriors.draws import Draws


def never(source: Any) -> bool:
    """No object is of this kind."""
    return False


@dataclass(frozen=True)
class Format:
    """One kind of source; a module of this package that has `FORMAT` adds it.

    Attributes:
        name: for display.
        suffixes: of the files it reads.
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
    draws: Callable[..., Draws]
    contents: Callable[..., Contents]
    holds: Callable[[Any], bool] = never
    rank: int = 50
    directory: bool = False
    several: bool = False
    guarded: bool = False
    claims: Callable[[Path], bool] | None = None

    def options(self, trusted: bool) -> dict[str, bool]:
        """The keywords of `draws` and `contents` that say whether a file is trusted."""
        return {"trusted": trusted} if self.guarded else {}

    def takes(self, paths: Sequence[Any]) -> bool:
        """Whether these many files are one source."""
        return self.several or len(paths) == 1
