"""The model of the Stan program that lies beside draws, under the names that the draws have."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.contents import SavedProgram
from bayesrecon.posteriors.draws import Draws, assembled
from bayesrecon.precision import in_float64

Arrays = dict[str, np.ndarray]
Centres = Callable[[Callable[[str, dict[str, float]], Any]], dict[str, Any]]

_EFFECT = re.compile(r"r_(\d+(?:_\w+)?_\d+)\[\d+\]")
"""Of brms, effects of a group by its number, the number of what they multiply, and a parameter of the law between."""


@in_float64
def model_of_program(program: SavedProgram, draws: Draws, centres: Centres | None = None) -> Model:
    """The model of a program, whose draws may have other names and leave out what is computed of others.

    Args:
        program: as a file holds it.
        draws: as the file holds them, whose names and sizes count.
        centres: gives transformed data by name that tell how what draws leave out follows from what they hold; of a
            function of a name and of values for some parameters, which is what the program computes at the draws.

    Raises:
        BayesreconError: what `models.from_stan` refuses, or draws that do not determine every parameter.
    """
    from bayesrecon.models.stan import from_stan, knowing  # only then: a language takes a while to load

    if program.refused:
        raise BayesreconError(program.refused)
    some = _named({name: values[:, :2] for name, values in draws.values.items()}, program)
    sizes = {**{name: values.shape[2:] for name, values in some.items()}, **program.sizes}
    domain = {name: [1.0] for name in _ones(program)}
    model = from_stan(program.text, constants=program.constants, sizes=sizes, domain=domain, name=draws.name)
    every = _named(draws.values, program)
    if centres is not None and model.left_out is not None and any(name not in some for name in model_names(model)):
        every = model.left_out.completed(every, {})
        known = {}
        with suppress(BayesreconError):  # the program computes what its draws do not determine
            known = centres(partial(_computed, model.left_out, every))
        model = knowing(model, known) if known else model
    prepare, left_out = model.prepare, model.left_out
    assert prepare is not None
    assert left_out is not None
    found = left_out.completed(every, {})
    lacking = [name for name in model_names(model) if name not in found]
    if lacking:
        raise BayesreconError(
            f"the draws lack {lacking[0]}, and what they hold does not determine it; save all parameters "
            "(brms: save_pars(all = TRUE))"
        )
    computed = sorted(name for name in model_names(model) if name in found and name not in some)
    notes = (f"the draws lack {', '.join(computed)}, which what they hold determines",) if computed else ()
    return replace(model, prepare=_under(program, prepare), notes=(*model.notes, *notes))


@in_float64
def _computed(left_out: Any, draws: Arrays, name: str, at: dict[str, float]) -> Any:
    shape = next(iter(draws.values())).shape[:2]
    return left_out.computed(name, {**draws, **{k: np.full(shape, value) for k, value in at.items()}})


def _ones(program: SavedProgram) -> set[str]:
    """Data that are one of every record: of brms, what multiplies a group's effect on the intercept, by its name."""
    found = set()
    for shown, own in program.names.items():
        match = _EFFECT.fullmatch(own)
        if match is not None and shown.endswith(",Intercept]"):
            found.add(f"Z_{match[1]}")
    return {name for name in found if re.search(rf"\b{name}\b", program.text)}


def model_names(model: Any) -> list[str]:
    """Names of the program's own parameters."""
    return [place.name for place in model.parts.coordinates.places]


def _under(program: SavedProgram, prepare: Callable[[Arrays], Arrays]) -> Callable[[Arrays], Arrays]:
    return lambda draws: prepare(_named(draws, program))


def _named(draws: Mapping[str, np.ndarray], program: SavedProgram) -> Arrays:
    """Draws under the names of the program, with what follows from them."""
    found = renamed(draws, program.names)
    return found if program.adds is None else {**found, **program.adds(found)}


def renamed(draws: Mapping[str, np.ndarray], names: Mapping[str, str]) -> Arrays:
    """Draws under the names of the program.

    >>> one = np.ones((1, 3))
    >>> {k: v.shape for k, v in renamed({"b_age": one, "b_bmi": one}, {"b_age": "b[1]", "b_bmi": "b[2]"}).items()}
    {'b': (1, 3, 2)}
    """
    if not names:
        return dict(draws)
    kept: Arrays = {}
    columns: Arrays = {}
    for name, values in draws.items():
        entries = {_entry(name, index): values[(..., *index)] for index in np.ndindex(values.shape[2:])}
        if names.keys() & entries.keys():
            columns |= {names.get(entry, entry): column for entry, column in entries.items()}
        else:
            kept[name] = values
    return {**kept, **assembled(columns)}


def _entry(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name
