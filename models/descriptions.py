"""Descriptions of models: the path of a Stan program, a PyMC model, or a function with its arguments."""

import inspect
import os
from collections.abc import Mapping
from typing import Any, TypeGuard

from bayesrecon.errors import BayesreconError, first_line


def is_program(source: object) -> "TypeGuard[str | os.PathLike[str]]":
    """Whether the argument is the path of a Stan program."""
    return isinstance(source, str | os.PathLike) and os.fspath(source).endswith(".stan")


def pymc_model(model: object) -> Any:
    """The PyMC model itself or inside a Bambi model; None for anything else."""
    wrapped = getattr(getattr(model, "backend", None), "model", None)
    program = model if wrapped is None else wrapped
    if not any(c.__name__ == "Model" and c.__module__.startswith("pymc.") for c in type(program).__mro__):
        return None
    return program


def program_fields(program: Any, excluded: Mapping[str, object] | None = None) -> list[str]:
    """Arguments of a function without a default or with the default None, except for `excluded`.

    >>> program_fields(lambda x, scale=2.0, y=None: None)
    ['x', 'y']
    """
    try:
        parameters = inspect.signature(program).parameters.values()
    except (TypeError, ValueError, OverflowError) as error:
        raise BayesreconError(f"cannot inspect the arguments of the program: {first_line(error)}") from None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        p.name
        for p in parameters
        if p.kind in kinds
        and (p.default is inspect.Parameter.empty or p.default is None)
        and p.name not in (excluded or {})
    ]
