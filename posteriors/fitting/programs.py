"""Models of the posteriors of posteriordb: the shipped model if there is one, else the posterior's Stan program."""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.errors import BayesreconError, MissingExtraError, reading
from bayesrecon.model import Model, Records
from bayesrecon.models.entry import Shipped
from bayesrecon.models.registry import load, shipped
from bayesrecon.posteriors.fitting.database import check_name, is_inside, is_present, posterior_info, read_data

if TYPE_CHECKING:
    from bayesrecon.models.stan import StanModel
    from bayesrecon.posteriors.fitting.database import Database


@dataclass(frozen=True, eq=False)
class Served:
    """A posterior with its model.

    Attributes:
        posterior: name of the posterior.
        model: shipped, or from the Stan program.
        records: function that reads the private records `{field: (N, *shape)}`, for sampling and for comparisons with
            the truth.
        design: fields that the attacker is assumed to know, the unit of a record first.
    """

    posterior: str
    model: Model
    records: Callable[[], Records]
    design: tuple[str, ...] = ()


class OwnProgram(Served):
    """A posterior with the model of its own Stan program. Its draws may hold computed quantities besides parameters."""


def entry_of(name: str) -> Shipped | None:
    """The shipped model of a posterior, None if there is none.

    >>> entry_of("kidiq-kidscore_momiq").name
    'kidscore_momiq'
    """
    return next((entry for entry in shipped().values() if name in entry.posteriors), None)


def served_by(database: "Database", name: str, *, program: bool = False) -> Served:
    """The model of a posterior and its records. A Stan program takes seconds to read, a shipped model does not.

    Args:
        database: from `open_database`.
        name: the posterior's name.
        program: whether to use the Stan program even if a model is shipped.

    Raises:
        BayesreconError: there is no such posterior; or no model is shipped, and the program or its data are not in this
            copy, or `models.stan_data` refuses the program.

    >>> from bayesrecon.posteriors.fitting.database import open_database
    >>> served_by(open_database(), "kidiq-kidscore_momiq").model.coordinates
    ('beta[1]', 'beta[2]', 'sigma')
    """
    posterior_info(database, name)
    entry = None if program else entry_of(name)
    if entry is None:
        return _of_own_program(database, name, program)
    constants, records = entry.constants, entry.records
    if records is None:
        raise BayesreconError(f"{name}: model {entry.name} does not define how its data become records")
    model = load(entry.name, **(constants(read_data(database, name)) if constants else {}))
    return Served(name, model, lambda: records(read_data(database, name)), entry.design)


def _of_own_program(database: "Database", name: str, program: bool) -> OwnProgram:
    try:
        model, records = own_program(database, name)
    except MissingExtraError:
        raise
    except BayesreconError as error:
        if program:
            raise
        raise BayesreconError(
            f"posterior {name}: its model is not shipped, and its own program cannot be used: {error}; "
            "pass model= or --model file.py:function"
        ) from None
    unit = model.parts.unit if model.parts is not None else None
    return OwnProgram(name, model, lambda: records, (unit,) if unit else ())


def own_program(database: "Database", name: str) -> tuple["StanModel", Records]:
    """The model of a posterior's Stan program with the constants of its data, and the records in the data.

    Raises:
        BayesreconError: the program or the data are not in this copy, or `models.stan_data` refuses them.

    >>> from bayesrecon.posteriors.fitting.database import open_database
    >>> model, records = own_program(open_database(), "kidiq-kidscore_momiq")
    >>> model.coordinates, len(records["kid_score"])
    (('beta[1]', 'beta[2]', 'sigma'), 434)
    """
    from bayesrecon.models.stan import stan_data  # this import takes a while

    program = posterior_info(database, name).get("model_name")
    check_name(program)
    with reading(f"the description of the program {program}", "JSON"), contextlib.redirect_stdout(sys.stderr):
        path = Path(database.get_model_code_path(program, "stan"))
        inside = is_inside(database, path)
    if not inside or not is_present(database, path):
        raise BayesreconError(f"the program {program} is not in this copy of posteriordb")
    return stan_data(path, read_data(database, name))
