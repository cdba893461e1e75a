"""Saved models as the same fits in Python would be read: by their numbers, without their library.

A module of `bayesrecon.posteriors.fits.saved` that has `SAVED` reads some classes of one library.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import SavedFit
from bayesrecon.releases import Release

Values = Callable[[str, list[str]], Json]
"""Attributes of the object at a place, by their paths: `SavedFile.values`."""

MOST = 4
"""Fits of one file that are attacked: an ensemble has hundreds of alike ones."""


@dataclass(frozen=True)
class SavedReader:
    """A reader of some classes of a library.

    Attributes:
        library: the first part of their modules' names.
        names: names of the classes.
        read: `(place, name of the class, values)`; its release, None of an object that was never fitted. It raises a
            `BayesreconError` for what is not read.
    """

    library: str
    names: frozenset[str]
    read: Callable[[str, str, Values], Release | None]


def fits_of(objects: Iterable[tuple[str, str]], values: Values) -> tuple[SavedFit, ...]:
    """The fitted models among the objects of a file, with what their numbers say, or why those are not read.

    Args:
        objects: places and classes.
    """
    readers: list[SavedReader] = discover("bayesrecon.posteriors.fits.saved", "SAVED")
    result: list[SavedFit] = []
    for where, of in objects:
        library, name = of.partition(".")[0], of.rpartition(".")[2]
        reader = next((r for r in readers if r.library == library and name in r.names), None)
        if reader is None:
            continue
        if len(result) >= MOST:
            result.append(_not_read(where, of, f"only the first {MOST} fits of a file are attacked"))
            continue
        try:
            release = reader.read(where, name, values)
        except BayesreconError as problem:
            result.append(_not_read(where, of, str(problem)))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as problem:
            # A file from a stranger can hold anything in place of a number.
            reason = f"its numbers are not those of a {name} ({' '.join(str(problem).split())[:80]})"
            result.append(_not_read(where, of, reason))
        else:
            if release is not None:
                result.append(SavedFit(where, of, release, ""))
    return tuple(result)


def _not_read(where: str, of: str, reason: str) -> SavedFit:
    return SavedFit(where, of, None, reason)
