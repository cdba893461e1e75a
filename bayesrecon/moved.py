"""Names that have another place, or are others, than a version ago."""

import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def now_in(package: str, places: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Where names are that have moved into modules or packages of a package.

    >>> now_in("bayesrecon", {"types": ("Model", "Release")})["Release"]
    'bayesrecon.types.Release'
    """
    return {name: f"{package}.{place}.{name}" for place, names in places.items() for name in names}


def moved(package: str, names: Mapping[str, str], rest: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` that finds such names for one version more, with a warning.

    Args:
        package: that they were in.
        names: where each is now, `package.name`.
        rest: finds what else is looked for.

    >>> import pytest
    >>> find = moved("bayesrecon", {"Model": "bayesrecon.types.Model"})
    >>> with pytest.warns(DeprecationWarning, match="bayesrecon.Model is bayesrecon.types.Model"):
    ...     find("Model").__name__
    'Model'
    """

    def find(name: str) -> Any:
        if name not in names:
            if rest is not None:
                return rest(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place, _, own = names[name].rpartition(".")
        text = f"{package}.{name} is {names[name]}; the next version has that alone"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(place), own)

    return find
