"""A shipped model is its NumPyro program: its arguments are the fields, those by keyword alone the constants.

Which of the fields are observed, and where they lie, is read from the program as it is built.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Model
from bayesrecon.models.adapter import adapt
from bayesrecon.models.entry import Shipped

OfConstants = Mapping[str, Any] | Callable[..., Mapping[str, Any]]
"""A value, or a function of the constants that its arguments name."""


@dataclass(frozen=True, eq=False)
class Written:
    """Builds the model of a program; it is called with constants by name.

    Attributes:
        program: `(fields, *, constants)`.
        name: name of the model.
        fields: where the program takes them as `**record`, or only some of them.
        shapes: shapes of fields that are no single numbers.
        domain, prepare, identities, forward: as in `from_numpyro`.
        simulate: as in `Model`, where the program alone does not tell; it and `prepare` are given the constants that
            their own keyword-only arguments name.
    """

    program: Callable[..., None]
    name: str
    fields: tuple[str, ...] | Callable[..., tuple[str, ...]] = ()
    shapes: OfConstants = field(default_factory=dict)
    domain: OfConstants = field(default_factory=dict)
    prepare: Callable[..., dict[str, np.ndarray]] | None = None
    identities: OfConstants = field(default_factory=dict)
    simulate: Callable[..., dict[str, Any]] | None = None
    forward: bool = False

    @property
    def __signature__(self) -> inspect.Signature:
        """The constants, with what they are unless stated."""
        return inspect.Signature(list(_constants(self.program)))

    def __call__(self, **stated: Any) -> Model:
        constants = {p.name: _plain(stated.get(p.name, p.default)) for p in _constants(self.program)}
        names = _given(self.fields, constants) or _fields(self.program)
        model = adapt(
            self.program,
            dict.fromkeys(names, ()) | dict(_given(self.shapes, constants)),
            domain=_given(self.domain, constants),
            constants=constants,
            name=self.name,
            prepare=_with_constants(self.prepare, constants),
            settings=constants,
            identities=_given(self.identities, constants),
            forward=self.forward,
        )
        return model if self.simulate is None else replace(model, simulate=_with_constants(self.simulate, constants))


def written(
    program: Callable[..., None],
    summary: str,
    *,
    name: str = "",
    posteriors: tuple[str, ...] = (),
    records: Callable[[Mapping[str, Any]], Any] | None = None,
    constants: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None,
    design: tuple[str, ...] = (),
    response: str | None = None,
    **more: Any,
) -> Shipped:
    """The entry of a program.

    Args:
        program, more: as in `Written`.
        name: default the program's.
        summary, posteriors, records, constants, design, response: as in `Shipped`.
    """
    build = Written(program, name or program.__name__, **more)
    return Shipped(build.name, build, summary, records, posteriors, constants, design, response)


def _constants(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    every = inspect.signature(function).parameters.values()
    return tuple(p for p in every if p.kind is inspect.Parameter.KEYWORD_ONLY)


def _with_constants(
    function: Callable[..., Any] | None, constants: Mapping[str, float | tuple[float, ...]]
) -> Callable[..., Any] | None:
    """A function with the constants that its keyword-only arguments name."""
    wanted = [p.name for p in _constants(function)] if function is not None else []
    return partial(function, **{name: constants[name] for name in wanted}) if function and wanted else function


def _fields(program: Callable[..., Any]) -> tuple[str, ...]:
    every = inspect.signature(program).parameters.values()
    return tuple(p.name for p in every if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _given(option: Any, constants: Mapping[str, float | tuple[float, ...]]) -> Any:
    if not callable(option):
        return option
    return option(**{name: constants[name] for name in inspect.signature(option).parameters})


def _plain(value: Array) -> Any:
    """Arrays and lists as tuples: settings are compared, and kept as JSON."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
