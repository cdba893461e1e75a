"""Deprecated names: those that have moved or were renamed since the last version."""

import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def now_in(package: str, places: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Full new names of names that have moved into modules or sub-packages of a package.

    >>> now_in("bayesrecon", {"types": ("Model", "Release")})["Release"]
    'bayesrecon.types.Release'
    """
    return {name: f"{package}.{module}.{name}" for module, names in places.items() for name in names}


def moved(package: str, names: Mapping[str, str], fallback: Callable[[str], Any] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a package that still finds moved names, with a deprecation warning.

    Args:
        package: the package that had the names.
        names: `{old name: full new name}`.
        fallback: function for other names; by default they raise an `AttributeError`.

    >>> import pytest
    >>> find = moved("bayesrecon", {"Model": "bayesrecon.types.Model"})
    >>> with pytest.warns(DeprecationWarning, match="bayesrecon.Model is bayesrecon.types.Model"):
    ...     find("Model").__name__
    'Model'
    """

    def find(name: str) -> Any:
        if name not in names:
            if fallback is not None:
                return fallback(name)
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = names[name].rpartition(".")
        message = f"{package}.{name} is {names[name]}; the next version has that alone"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(module), attribute)

    return find
