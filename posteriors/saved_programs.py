"""The model of the Stan program that lies beside draws, under the names that the draws have."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.contents import SavedProgram
from bayesrecon.posteriors.draws import Draws, assembled

Arrays = dict[str, np.ndarray]


def model_of_program(program: SavedProgram, draws: Draws, known: Mapping[str, Any] | None = None) -> Model:
    """The model of a program, whose draws may have other names and leave out what is computed of others.

    Args:
        program: as a file holds it.
        draws: as the file holds them, whose names and sizes count.
        known: transformed data, by name, that tell how what draws leave out follows from what they hold.

    Raises:
        BayesreconError: what `models.from_stan` refuses, or draws that do not determine every parameter.
    """
    from bayesrecon.models.stan.source import from_stan, knowing  # only then: a language takes a while to load

    some = renamed({name: values[:, :2] for name, values in draws.values.items()}, program.names)
    sizes = {**{name: values.shape[2:] for name, values in some.items()}, **program.sizes}
    model = from_stan(program.text, constants=program.constants, sizes=sizes, name=draws.name)
    if known:
        model = knowing(model, known)
    prepare = model.prepare
    assert prepare is not None
    expected = {p.name for p in model.parameters}
    found = prepare(some)
    lacking = sorted(expected - found.keys())
    if lacking:
        raise BayesreconError(
            f"the draws lack {lacking[0]}, and what they hold does not determine it; save all parameters "
            "(brms: save_pars(all = TRUE))"
        )
    computed = sorted(name for name in model_names(model) if name in found and name not in some)
    notes = (f"the draws lack {', '.join(computed)}, which what they hold determines",) if computed else ()
    names = program.names
    return replace(model, prepare=_under(names, prepare), notes=(*model.notes, *notes))


def model_names(model: Any) -> list[str]:
    """Names of the program's own parameters."""
    return [place.name for place in model.parts.coordinates.places]


def _under(names: Mapping[str, str], prepare: Callable[[Arrays], Arrays]) -> Callable[[Arrays], Arrays]:
    return lambda draws: prepare(renamed(draws, names))


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
