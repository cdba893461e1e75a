"""Models from NumPyro programs whose positional arguments are fields and whose keyword-only ones are constants.

Which fields are observed, and their domains, are read from the program when the model is built.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from bayesrecon.arrays import Array
from bayesrecon.model import Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import Constant, Data, Draws, constant
from bayesrecon.models.entry import Shipped

Option = Mapping[str, object] | Callable[..., Mapping[str, object]]
"""A value, or a function of the constants that its arguments name."""

T = TypeVar("T")
R = TypeVar("R")


def from_program(
    program: Callable[..., None],
    summary: str,
    *,
    name: str = "",
    posteriors: tuple[str, ...] = (),
    records: Callable[[Data], Records] | None = None,
    constants: Callable[[Data], dict[str, object]] | None = None,
    design: tuple[str, ...] = (),
    fields: tuple[str, ...] | Callable[..., tuple[str, ...]] = (),
    shapes: Mapping[str, tuple[int, ...]] | Callable[..., Mapping[str, tuple[int, ...]]] = MappingProxyType({}),
    domain: Option = MappingProxyType({}),
    prepare: Callable[..., Draws] | None = None,
    identities: Option = MappingProxyType({}),
    simulate: Callable[..., dict[str, Array]] | None = None,
    forward: bool = False,
) -> Shipped:
    """The entry of a program.

    Args:
        program: `(fields, *, constants)`. The model is built with constants by name.
        name: name of the model; by default the program's.
        summary, posteriors, records, constants, design: as in `Shipped`.
        fields: names of the fields, if the program takes them as `**record`, or takes only some of its arguments.
        shapes: shapes of the fields that are not one number per record.
        domain, prepare, identities, forward: as in `from_numpyro`.
        simulate: as in `Model`, if simulation from the program itself is not possible.

    Functions among the last six get the constants that their arguments name, `prepare` and `simulate` those of their
    keyword-only arguments.
    """
    name = name or program.__name__

    def build(**settings: object) -> Model:
        stated = {p.name: constant(settings.get(p.name, p.default)) for p in _constants(program)}
        names = _evaluated(fields, stated) or _fields(program)
        model = adapt(
            program,
            dict.fromkeys(names, ()) | dict(_evaluated(shapes, stated)),
            domain=_evaluated(domain, stated),
            constants=stated,
            name=name,
            prepare=_with_constants(prepare, stated),
            settings=stated,
            identities=_evaluated(identities, stated),
            forward=forward,
        )
        return model if simulate is None else replace(model, simulate=_with_constants(simulate, stated))

    build.__signature__ = inspect.Signature(list(_constants(program)))  # type: ignore[attr-defined]
    return Shipped(name, build, summary, records, posteriors, constants, design)


def _constants(function: Callable[..., object]) -> tuple[inspect.Parameter, ...]:
    parameters = inspect.signature(function).parameters.values()
    return tuple(p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


def _with_constants(function: Callable[..., R] | None, constants: Mapping[str, Constant]) -> Callable[..., R] | None:
    """A function with the constants that its keyword-only arguments name."""
    if function is None:
        return None
    names = [p.name for p in _constants(function)]
    return partial(function, **{name: constants[name] for name in names}) if names else function


def _fields(program: Callable[..., object]) -> tuple[str, ...]:
    parameters = inspect.signature(program).parameters.values()
    return tuple(p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _evaluated(option: T | Callable[..., T], constants: Mapping[str, Constant]) -> T:
    """The value of an option for these constants."""
    if not callable(option):
        return option
    value: Any = option(**{name: constants[name] for name in inspect.signature(option).parameters})
    return value
