"""What is installed beside the package: versions, and libraries of extras, which are refused where they do not fit."""

import importlib
import re
from functools import cache
from importlib import metadata
from typing import Any

from bayesrecon.errors import BayesreconError, MissingExtraError, first_line


def version(name: str) -> tuple[int, int]:
    """The first two numbers of a distribution's version; zeros where it is not installed.

    >>> version("jax") >= (0, 7)
    True
    """
    found = re.match(r"(\d+)\.(\d+)", _text(name))
    return (int(found[1]), int(found[2])) if found else (0, 0)


@cache
def _text(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "of no known version"


def library(name: str, feature: str, extra: str, *, least: tuple[int, int] = (0, 0)) -> Any:
    """A module of an optional dependency.

    Args:
        name: of the module; its first part names the distribution.
        feature: what needs it.
        extra: what installs it.
        least: the version from which on it is supported.

    Raises:
        MissingExtraError: it is not installed.
        BayesreconError: it is too old, or does not import beside what else is installed.
    """
    whole = name.partition(".")[0]
    if (0, 0) < version(whole) < least:
        raise BayesreconError(
            f"{feature} needs {whole} {least[0]}.{least[1]} or newer, and {_text(whole)} is installed: "
            f"pip install --upgrade 'bayesrecon[{extra}]'"
        )
    try:
        return importlib.import_module(name)
    except Exception as error:  # libraries that do not belong together fail in many ways when they are imported
        if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] == whole:
            raise MissingExtraError(feature, extra) from error
        raise BayesreconError(
            f"{feature}: {whole} {_text(whole)} is installed but does not import ({first_line(error)}): "
            f"versions that do not belong together? pip install --upgrade 'bayesrecon[{extra}]'"
        ) from error
