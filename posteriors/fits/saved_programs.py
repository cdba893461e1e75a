"""Models of Stan programs that are stored in the same file as their draws, perhaps under other names."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.errors import BayesreconError, Note
from bayesrecon.model import Model, entry
from bayesrecon.posteriors.contents import SavedProgram
from bayesrecon.posteriors.draws import Draws, assembled
from bayesrecon.precision import in_float64

if TYPE_CHECKING:
    from bayesrecon.models.stan import StanModel

Arrays = dict[str, np.ndarray]
Centres = Callable[[Callable[[str, dict[str, float]], np.ndarray]], Mapping[str, np.ndarray]]

_EFFECT = re.compile(r"r_(\d+(?:_\w+)?_\d+)\[\d+\]")
"""Group effects of brms: number of the group, perhaps a parameter of the distribution, and number of the term."""


@in_float64
def model_of_program(program: SavedProgram, draws: Draws, centres: Centres | None = None) -> Model:
    """The model of a program. Draws may have other names, and lack parameters that follow from others.

    Args:
        program: the program in the file.
        draws: the draws in the file, with the names and sizes that they have there.
        centres: returns transformed data by name, from which parameters that are not in the draws can be computed. Its
            argument is a function of the name of a variable and the values of some parameters, which computes the
            variable at the draws.
    """
    from bayesrecon.models.stan import from_stan, knowing  # this import takes a while

    if program.refused:
        raise BayesreconError(program.refused)
    first_draws = _named({name: values[:, :2] for name, values in draws.values.items()}, program)
    sizes = {**{name: values.shape[2:] for name, values in first_draws.items()}, **program.sizes}
    domain = {name: [1.0] for name in _ones(program)}
    model = from_stan(program.text, constants=program.constants, sizes=sizes, domain=domain, name=draws.name)
    named = _named(draws.values, program)
    solved = named
    if (
        centres is not None
        and model.left_out is not None
        and any(name not in first_draws for name in _parameter_names(model))
    ):
        before = model
        solved = model.left_out.completed(named, {})
        known = {}
        with suppress(BayesreconError):  # the program computes variables that the draws do not determine
            known = centres(partial(_computed, before, solved))
        if known:
            model = knowing(model, known)
            solved = _without_better(named, solved, before, model)
    prepare, left_out = model.prepare, model.left_out
    assert prepare is not None
    assert left_out is not None
    completed = left_out.completed(solved, {})
    missing = [name for name in _parameter_names(model) if name not in completed]
    if missing:
        raise BayesreconError(
            f"the draws lack {missing[0]}, which the saved parameters do not determine; save all parameters "
            "(brms: save_pars(all = TRUE))"
        )
    computed = sorted(name for name in _parameter_names(model) if name in completed and name not in first_draws)
    notes = (Note(f"the draws lack {', '.join(computed)}: computed from the other variables"),) if computed else ()
    return replace(model, prepare=partial(_prepared, program, prepare, completed), notes=(*model.notes, *notes))


def _without_better(named: Arrays, solved: Arrays, before: "StanModel", after: "StanModel") -> Arrays:
    """The solved parameters, except those that can now be computed from the draws in a better way."""
    assert before.left_out is not None
    assert after.left_out is not None
    old, new = (left_out.equations(named) for left_out in (before.left_out, after.left_out))
    recomputed = frozenset[str]().union(*(needs for name, needs in new.items() if name not in old))
    return {name: values for name, values in solved.items() if name in named or name not in recomputed}


@in_float64
def _computed(model: "StanModel", draws: Arrays, name: str, at: dict[str, float]) -> np.ndarray:
    """A variable of the program at the draws, with the values `at` for some parameters."""
    assert model.left_out is not None
    shape = next(iter(draws.values())).shape[:2]
    return model.left_out.computed(name, {**draws, **{k: np.full(shape, value) for k, value in at.items()}})


def _ones(program: SavedProgram) -> set[str]:
    """Names of data that are one for every record: in brms, the factors of a group's effects on the intercept."""
    names = set()
    for draw_name, program_name in program.names.items():
        match = _EFFECT.fullmatch(program_name)
        if match is not None and draw_name.endswith(",Intercept]"):
            names.add(f"Z_{match[1]}")
    return {name for name in names if re.search(rf"\b{name}\b", program.text)}


def _parameter_names(model: "StanModel") -> list[str]:
    """Names of the parameters of the program."""
    assert model.parts is not None
    return [place.name for place in model.parts.coordinates.places]


def _prepared(
    program: SavedProgram, prepare: Callable[[Arrays], Arrays], solved: Arrays, draws: Mapping[str, np.ndarray]
) -> Arrays:
    """Draws of the model. The solution for parameters that are not in the file, which takes a while, is reused."""
    named = _named(draws, program)
    same = all(name in solved and np.array_equal(values, solved[name], True) for name, values in named.items())
    return prepare({**solved, **named} if same else named)


def _named(draws: Mapping[str, np.ndarray], program: SavedProgram) -> Arrays:
    """Draws under the names of the program, with the variables that `program.adds` computes from them."""
    columns = renamed(draws, program.names)
    return columns if program.adds is None else {**columns, **program.adds(columns)}


def renamed(draws: Mapping[str, np.ndarray], names: Mapping[str, str]) -> Arrays:
    """Draws under the names of the program.

    >>> draws = np.ones((1, 3))
    >>> {k: v.shape for k, v in renamed({"b_age": draws, "b_bmi": draws}, {"b_age": "b[1]", "b_bmi": "b[2]"}).items()}
    {'b': (1, 3, 2)}
    """
    if not names:
        return dict(draws)
    unchanged: Arrays = {}
    columns: Arrays = {}
    for name, values in draws.items():
        entries = {entry(name, index): values[(..., *index)] for index in np.ndindex(values.shape[2:])}
        if names.keys() & entries.keys():
            columns |= {names.get(label, label): column for label, column in entries.items()}
        else:
            unchanged[name] = values
    return {**unchanged, **assembled(columns)}
