"""Releases of saved fits, from their numbers, without the library that made them.

A module of `bayesrecon.posteriors.fits.saved` that defines `SAVED` reads some classes of a library.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import SavedFit

if TYPE_CHECKING:
    from bayesrecon.releases import Release

Values = Callable[[str, list[str]], Json]
"""A function of a place and paths of attributes, which returns their values by path: `SavedFile.values`."""

MOST = 4
"""Largest number of fits of a file that are attacked: an ensemble has hundreds of similar ones."""


@dataclass(frozen=True)
class SavedReader:
    """A reader of some classes of a library.

    Attributes:
        library: name of the library's top-level package.
        names: names of the classes, without the module.
        read: function `(place, name of the class, values)`. It returns the release, or None if the object is not
            fitted, and raises a `BayesreconError` if the fit is not supported.
    """

    library: str
    names: frozenset[str]
    read: Callable[[str, str, Values], "Release | None"]


def fits_of(objects: Iterable[tuple[str, str]], values: Values) -> tuple[SavedFit, ...]:
    """The fits among the objects of a file, each with its release or the reason why there is none.

    Args:
        objects: place and class of each object.
        values: reads attributes of an object.
    """
    readers: list[SavedReader] = discover("bayesrecon.posteriors.fits.saved", "SAVED")
    result: list[SavedFit] = []
    for where, class_name in objects:
        library, name = class_name.partition(".")[0], class_name.rpartition(".")[2]
        reader = next((r for r in readers if r.library == library and name in r.names), None)
        if reader is None:
            continue
        if len(result) >= MOST:
            result.append(_not_read(where, class_name, f"only the first {MOST} fits of a file are attacked"))
            continue
        try:
            release = reader.read(where, name, values)
        except BayesreconError as problem:
            result.append(_not_read(where, class_name, str(problem)))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as problem:
            # An untrusted file can have anything in place of a number.
            reason = f"its numbers are not those of a {name} ({' '.join(str(problem).split())[:80]})"
            result.append(_not_read(where, class_name, reason))
        else:
            if release is not None:
                result.append(SavedFit(where, class_name, release, ""))
    return tuple(result)


def _not_read(where: str, class_name: str, reason: str) -> SavedFit:
    return SavedFit(where, class_name, None, reason)
