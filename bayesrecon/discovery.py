"""What belongs to a kind is found, not listed: a new model, format, audit channel or attack is one new file."""

import importlib
import pkgutil
from typing import Any


def discover(package: str, name: str) -> list[Any]:
    """The values of `name` in all modules of a package and of the folders in it, by the modules' names.

    >>> families = discover("bayesrecon.models", "MODELS")
    >>> "kidscore_momiq" in {model.name for family in families for model in family}
    True
    """
    found = []
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        full = f"{package}.{info.name}"
        if info.ispkg:
            found += discover(full, name)
            continue
        module = importlib.import_module(full)
        if hasattr(module, name) and getattr(module, name) is not None:
            found.append(getattr(module, name))
    return found
