"""Models of the posteriors of posteriordb: the shipped model if there is one, else the posterior's Stan program."""

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.errors import BayesreconError, MissingExtraError, reading
from bayesrecon.model import Model, Records
from bayesrecon.models.entry import Shipped
from bayesrecon.models.registry import load, shipped
from bayesrecon.posteriors.fitting.database import check_name, is_inside, is_present, posterior_info, read_data
from bayesrecon.stated_domains import Stated, domains_of

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


@dataclass(frozen=True)
class _Columns:
    """What is known of the columns of a data set of posteriordb beside the programs.

    Attributes:
        design: those that the attacker is assumed to know.
        domain: their domains, as codebooks state them.
        record: the count of the records in the program, where it is not the first possible one.
    """

    design: tuple[str, ...] = ()
    domain: Mapping[str, Stated] = field(default_factory=dict)
    record: str | None = None


_KNOWN: Mapping[str, _Columns] = {
    **dict.fromkeys(("low_dim_gauss_mix", "low_dim_gauss_mix_collapse", "normal_2", "normal_5"), _Columns()),
    **dict.fromkeys((f"{k}_data" for k in ("M0", "Mb", "Mh", "Mt", "Mth", "Mtbh")), _Columns()),
    **dict.fromkeys(("diamonds", "radon_mod"), _Columns()),
    "dugongs_data": _Columns(("x",), {"x": "positive"}),
    "election88": _Columns(domain={"black": "binary", "female": "binary", "v_prev_full": "unit"}),
    "GLM_Binomial_data": _Columns(("year", "N")),
    "GLM_Poisson_Data": _Columns(("year",)),
    "GLMM_data": _Columns(("obssite", "obsyear")),
    "GLMM_Poisson_data": _Columns(("year",)),
    "loss_curves": _Columns(("cohort_id", "t_idx"), {"loss": "positive"}),
    "nes_logit_data": _Columns(domain={"income": [1, 2, 3, 4, 5]}),
    "pilots": _Columns(("group_id", "scenario_id"), {"y": "unit"}),
    "radon_mn": _Columns(domain={"floor_measure": "binary"}),
    "radon_all": _Columns(domain={"floor_measure": list(range(10))}),
    "rats_data": _Columns(("rat", "x"), {"rat": list(range(1, 31)), "x": "positive", "y": "positive"}),
    "seeds_data": _Columns(("x1", "x2", "N"), {"x1": "binary", "x2": "binary"}),
    "sesame_data": _Columns(domain={"encouraged": "binary", "watched": "binary"}),
    "state_wide_presidential_votes": _Columns(("state_ind", "year_ind", "region_ind")),
    "surgical_data": _Columns(("n",)),
    "traffic_accident_nyc": _Columns(("E",), record="N"),
    "wells_data": _Columns(domain={"dist": "positive", "arsenic": "positive", "assoc": "binary", "educ": "count"}),
}


class OwnProgram(Served):
    """A posterior with the model of its own Stan program. Its draws may hold computed quantities besides parameters."""


def entry_of(name: str) -> Shipped | None:
    """The shipped model of a posterior, None if there is none."""
    return next((entry for entry in shipped().values() if name in entry.posteriors), None)


def is_readable(name: str) -> bool:
    """Whether a posterior's model is known to be available without trying: it is shipped, or read off its program.

    >>> is_readable("wells_data-wells_dist")
    True
    """
    return entry_of(name) is not None or name.partition("-")[0] in _KNOWN


def served_by(database: "Database", name: str, *, program: bool = False) -> Served:
    """The model of a posterior and its records. A Stan program takes seconds to read, a shipped model does not.

    Args:
        database: from `open_database`.
        name: the posterior's name.
        program: whether to use the Stan program even if a model is shipped.
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
    known = _KNOWN.get(name.partition("-")[0], _Columns())
    domain = domains_of({k: v for k, v in known.domain.items() if k in model.fields}, model.fields)
    fields = {k: replace(f, domain=domain.get(k, f.domain)) for k, f in model.fields.items()}
    unit = model.parts.unit if model.parts is not None else None
    design = (unit, *known.design) if unit else known.design
    return OwnProgram(name, replace(model, fields=fields), lambda: records, design)


def own_program(database: "Database", name: str) -> tuple["StanModel", Records]:
    """The model of a posterior's Stan program with the constants of its data, and the records in the data.

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
    record = _KNOWN.get(name.partition("-")[0], _Columns()).record
    return stan_data(path, read_data(database, name), record=record)
