"""The records in the data of a Stan program."""

import os
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.needs import pruned
from bayesrecon.models.stan.posterior import declarations, machine_of, read_data, transform_data
from bayesrecon.models.stan.program_fields import columns, counts_to_try, sizes_of
from bayesrecon.models.stan.record_term import NeedsAllRecordsError
from bayesrecon.models.stan.source import StanModel, from_stan, read_program


def stan_data(
    source: str | os.PathLike[str],
    data: Mapping[str, npt.ArrayLike],
    *,
    record: str | None = None,
    domain: Mapping[str, object] | None = None,
) -> tuple[StanModel, Records]:
    """The model of a Stan program, and the records in its data. NUTS can be run on them.

    Args:
        source: path of the program, or its text.
        data: the values that the program's data block declares.
        record, domain: as in `from_stan`.

    Returns:
        The model, and the records `{field: (N, *shape)}`.

    Raises:
        BayesreconError: `from_stan` refuses the program, or data are missing or have other sizes.

    >>> text = "data { int N; vector[N] y; } parameters { real b; } model { y ~ normal(b, 1); }"
    >>> model, records = stan_data(text, {"N": 3, "y": [1.0, 2.0, 4.0]})
    >>> records["y"].tolist()
    [1.0, 2.0, 4.0]
    """
    program = read_program(source)
    names = {d.name for d in declarations(program.data)}
    first: BayesreconError | None = None
    for counts in counts_to_try(program, (), record):
        constants = _constants(program, data, names, counts)
        try:
            while True:
                try:
                    model = from_stan(source, constants=constants, record=" and ".join(counts) or "all", domain=domain)
                    break
                except NeedsAllRecordsError as error:
                    if error.name in constants:
                        raise
                    constants[error.name] = _from_all_records(program, data, error.name)
        except BayesreconError as error:
            first = first or error
            continue
        records = records_of(model, program, data)
        beyond = {k: Domain("integer") for k, f in model.fields.items() if _misses(f.domain, records[k])}
        if beyond:
            return stan_data(source, data, record=record, domain={**(domain or {}), **beyond})
        return model, records
    assert first is not None
    raise first


def _misses(domain: Domain, values: np.ndarray) -> bool:
    """Whether a range was presumed that data contradict."""
    return domain.presumed and not domain.contains(values).all()


def _from_all_records(program: tree.Program, data: Mapping[str, npt.ArrayLike], name: str) -> np.ndarray:
    """A number that the transformed data make of all records."""
    machine = machine_of(program)
    return np.asarray(transform_data(machine, read_data(machine, data))[name].a)


def _constants(
    program: tree.Program, data: Mapping[str, npt.ArrayLike], names: set[str], counts: tuple[str, ...]
) -> dict[str, npt.ArrayLike]:
    if not counts:
        used = {n for d in declarations(program.data) for s in sizes_of(d) for n in tree.names_in(s)}
        return {k: v for k, v in data.items() if k in used}
    followers = {k for count in counts for one in (pruned(program), program) for k in columns(one, count) or ()}
    return {k: v for k, v in data.items() if k in names and k not in followers}


def records_of(model: StanModel, program: tree.Program, data: Mapping[str, npt.ArrayLike]) -> Records:
    """The fields of every record, from the program's data."""
    parts = model.parts
    assert parts is not None
    machine = machine_of(pruned(program))
    frame = transform_data(machine, read_data(machine, data))
    batches = []
    for kind in parts.kinds:
        whole = {}
        for name, column in {**kind.columns, **kind.cut}.items():
            values = np.asarray(frame[name].a)
            whole[name] = np.moveaxis(values, column.axis, 0) if column.follows else values[None]
        batches.append(kind.windows(whole))
    return parts.joined(batches)
