"""Models from anything that describes one."""

import inspect
import os
from collections.abc import Mapping
from typing import Any

from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.model import Model
from bayesrecon.models.adapter import from_numpyro
from bayesrecon.models.pymc.program import from_pymc, pymc_model
from bayesrecon.models.registry import load


def is_program(given: Any) -> bool:
    """Whether the argument is the path of a Stan program."""
    return isinstance(given, str | os.PathLike) and os.fspath(given).endswith(".stan")


def model_of(given: Any, sizes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """A `Model` from anything that describes one.

    This can be a `Model`, the name of a shipped model, a PyMC or Bambi model, a NumPyro program, or the path of a Stan
    program (`program.stan`). In a NumPyro program, every argument without a default or with the default None is a field
    with one number per record. Use `from_numpyro` for fields of other shapes and domains. `sizes` are the shapes of the
    draws, for a Stan program.

    Raises:
        BayesreconError: the argument is something else, no shipped model has this name, or the program or model is not
            supported.
        MissingExtraError: it is a PyMC model, and PyMC is not installed.

    >>> model_of("kidscore_momiq").coordinates
    ('beta[1]', 'beta[2]', 'sigma')
    """
    if isinstance(given, Model):
        return given
    if is_program(given):
        from bayesrecon.models.stan import from_stan  # only then: a language takes a fifth of a second to load

        return from_stan(given, sizes=sizes)
    if isinstance(given, str):
        return load(given)
    if pymc_model(given) is not None:
        return from_pymc(given)
    if callable(given) and not isinstance(given, type):
        return from_numpyro(given, dict.fromkeys(program_fields(given), ()))
    raise BayesreconError(
        f"cannot make a model of a {type(given).__name__}: give a Model (models.from_numpyro makes one), the name of a "
        "shipped model, or a PyMC or Bambi model"
    )


def is_model(given: Any) -> bool:
    """Whether the argument is a `Model`, or a PyMC or Bambi model.

    False for functions, which may be programs or return a model.

    >>> is_model(load("kidscore_momiq")), is_model("kidscore_momiq")
    (True, False)
    """
    return isinstance(given, Model) or pymc_model(given) is not None


def program_fields(program: Any, given: Mapping[str, Any] | None = None) -> list[str]:
    """Arguments of a function without a default or with the default None, except for those given.

    >>> program_fields(lambda x, scale=2.0, y=None: None)
    ['x', 'y']
    """
    try:
        found = inspect.signature(program).parameters.values()
    except (TypeError, ValueError, OverflowError) as error:
        raise BayesreconError(f"cannot see the arguments of the program: {first_line(error)}") from None
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [
        p.name
        for p in found
        if p.kind in kinds
        and (p.default is inspect.Parameter.empty or p.default is None)
        and p.name not in (given or {})
    ]
