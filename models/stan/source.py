"""Stan programs as `Model`."""

import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.core import Tracer

from bayesrecon.domains import Domain, RecordKind
from bayesrecon.errors import BayesreconError, Note, near
from bayesrecon.model import Field, GaussianPredictor, Model, Params, Records
from bayesrecon.models.inspection import density_program
from bayesrecon.models.recognition import gaussian_predictor
from bayesrecon.models.stan import tree
from bayesrecon.models.stan.acceptance import check
from bayesrecon.models.stan.coordinates import Coordinates
from bayesrecon.models.stan.data_priors import priors_of_data, with_names
from bayesrecon.models.stan.density_visitor import DensityVisitor
from bayesrecon.models.stan.frame import Frame, Run
from bayesrecon.models.stan.left_out import LeftOut
from bayesrecon.models.stan.machine import StanMachine
from bayesrecon.models.stan.named_densities import linear_predictor
from bayesrecon.models.stan.needs import declared_in, flattened, pruned, record_part, tainted_names, without_aliases
from bayesrecon.models.stan.parsing import parse, with_includes
from bayesrecon.models.stan.posterior import ParameterDeclaration, declarations, machine_of, places, value_of
from bayesrecon.models.stan.program_fields import (
    MissingConstantsError,
    RecordField,
    columns,
    constants_of,
    counted_numbers,
    counts_to_try,
    domain_of,
    implied_sizes,
    indexing,
    record_parameters,
    sizes_of,
)
from bayesrecon.models.stan.ranges import presumed_notes, with_ranges
from bayesrecon.models.stan.record_term import (
    NeedsAllRecordsError,
    Parts,
    RecordsOf,
    Start,
    coupled_column,
    identities_of,
    pointwise_notes,
    windowed,
)
from bayesrecon.models.stan.simulation import simulation
from bayesrecon.models.stan.values import Elements, StanError
from bayesrecon.models.windows import CoupledError
from bayesrecon.precision import in_float64
from bayesrecon.stated_domains import domains_of

LARGEST_FILE = 1_000_000
"""Bytes of a program file."""


@dataclass(frozen=True, eq=False, repr=False)
class StanModel(Model):
    """A model of a Stan program.

    Args:
        parts: the program cut into records.
        left_out: what computes parameters that draws leave out.
        data_priors: priors whose constants are made of data, with their lines.
    """

    parts: Parts | None = None
    left_out: LeftOut | None = None
    data_priors: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The program."""
        return self.parts.machine.program.source if self.parts is not None else ""


@in_float64
def from_stan(
    source: str | os.PathLike[str],
    *,
    constants: Mapping[str, npt.ArrayLike] | None = None,
    record: str | None = None,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    domain: Mapping[str, object] | None = None,
    name: str | None = None,
) -> StanModel:
    """A `Model` from a Stan program.

    The program is parsed and evaluated with JAX; Stan does not compile anything. Data whose size is the number of
    records are fields of the record, and other data are constants. The likelihood term of a record is its contribution
    to the target. The terms must sum to the target, which is tested before the model is returned. Parameters with a
    centred prior (`theta ~ normal(mu, tau)`) are reparametrised as non-centred, and draws are mapped accordingly;
    `notes` says so.

    Args:
        source: path of the program, or its text.
        constants: `{name: value}` of data that are not fields, and of transformed data that are computed from all
            records.
        record: name of the variable that holds the number of records, if there are several counts. "all" treats all
            data as one record.
        sizes: `{parameter: shape}`, for sizes that do not follow from `constants`. Readers of draws take them from the
            draws.
        domain: `{field: domain}` instead of the declared bounds, as in `from_numpyro`.
        name: name in tables. Defaults to the name of the file.

    Raises:
        BayesreconError: there is no such program, a function does not exist, constants are missing, or records depend
            on each other. The message gives line and column.
        MissingExtraError: `lark` is not installed.

    >>> text = "data { int N; vector[N] x; vector[N] y; } parameters { real b; } model { y ~ normal(b * x, 1); }"
    >>> model = from_stan(text)
    >>> model.coordinates, tuple(model.fields)
    (('b',), ('x', 'y'))
    """
    program = read_program(source, name)
    stated = dict(constants or {})
    for k in stated:
        known = [d.name for d in (*declarations(program.data), *declarations(program.transformed_data))]
        if k not in known:
            raise BayesreconError(f"constants: {k!r} is not in the data of {program.name}{near(k, known)}")
    return _model_of_count(program, stated, record, _declared_sizes(program, sizes or {}), domain)


@in_float64
def knowing(model: StanModel, known: Mapping[str, npt.ArrayLike]) -> StanModel:
    """The model with some transformed data stated. Records do not change.

    The values are used to compute parameters that the draws omit.
    """
    parts, left_out = model.parts, model.left_out
    assert parts is not None
    assert left_out is not None
    frame = dict(left_out.frame)
    declared = {d.name: d for d in declarations(left_out.program.transformed_data)}
    for k, value in known.items():
        if k not in declared:
            raise BayesreconError(f"{k!r} is not in the transformed data of {model.name}{near(k, declared)}")
        frame[k] = value_of(declared[k], value, left_out.machine.shape_of(declared[k].type, frame, Run()))
    completed = LeftOut(left_out.program, left_out.places.values(), frame)
    return replace(model, left_out=completed, prepare=_prepare(parts.coordinates, completed))


def _prepare(coordinates: Coordinates, left_out: LeftOut) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Convert draws of a program, which may omit some parameters, to draws of the model."""
    free = {r.place.name: r.name for r in coordinates.rules}

    @in_float64
    def prepare(draws: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return coordinates.prepare(left_out.completed(draws, free))

    return prepare


def _left_out(program: tree.Program, parts: Parts, stated: Mapping[str, npt.ArrayLike]) -> LeftOut:
    """Reconstruction of omitted parameters from the whole program and the data of its generated quantities."""
    machine, constants = machine_of(program), dict(parts.coordinates.frame)
    for d in declarations(program.data):
        if d.name in stated and d.name not in constants:
            with suppress(StanError):  # its size is not known, and nobody asked for it
                constants[d.name] = value_of(d, stated[d.name], machine.shape_of(d.type, constants, Run()))
    sources = {d.name for d in declarations(program.data)} - constants.keys()
    frame = _untainted(machine, constants, tainted_names(program, sources))
    return LeftOut(program, parts.coordinates.places, frame)


def _declared_sizes(program: tree.Program, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Shapes by the names of the program's parameters, which draws of a model hold as free ones, too."""
    result = {k: tuple(v) for k, v in sizes.items()}
    for d in declarations(program.parameters):
        for free in (f"{d.name}_raw", f"{d.name}_free"):
            if d.name not in result and free in result:
                result[d.name] = result[free]
    return result


def read_program(source: str | os.PathLike[str], name: str | None = None) -> tree.Program:
    """The syntax tree of a program, from its file or its text."""
    if isinstance(source, str) and ("{" in source or "\n" in source):
        text = with_includes(source, name or "program", None, LARGEST_FILE)
        return with_names(without_aliases(parse(text, name or "program")))
    path = Path(source)
    if not path.is_file():
        raise BayesreconError(f"{path}: no such file")
    if path.stat().st_size > LARGEST_FILE:
        raise BayesreconError(
            f"{path}: {path.stat().st_size} bytes, more than {LARGEST_FILE}; this is not a Stan program"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BayesreconError(f"{path} is not text") from None
    text = with_includes(text, name or path.name, path.parent, LARGEST_FILE)
    return with_names(without_aliases(parse(text, name or path.name)))


def _model_of_count(
    program: tree.Program,
    stated: dict[str, npt.ArrayLike],
    record: str | None,
    sizes: dict[str, tuple[int, ...]],
    domain: Mapping[str, object] | None,
) -> StanModel:
    """The model over the counts that were named, or over the first for which the likelihood is a product."""
    error: BayesreconError | None = None
    tried = counts_to_try(program, stated, record)
    for counts in tried:
        try:
            cut, whole = _cut(program, counts, stated, sizes, domain)
            return _model(program, replace(cut, whole=whole if cut.cut else None), stated, sizes)
        except BayesreconError as refused:
            error = error or refused
    for counts in tried:
        if len(counts) == 1 and (parts := _series(program, counts, stated, sizes, domain)) is not None:
            with suppress(CoupledError):
                return _model(program, parts, stated, sizes)
    assert error is not None
    if isinstance(error, MissingConstantsError | NeedsAllRecordsError):
        raise error
    if isinstance(error, CoupledError) or _runs_as_one(program, tried, stated, sizes):
        raise CoupledError(f"{error}; {ALL_ONE}") from None
    raise error


def _runs_as_one(
    program: tree.Program, tried: tuple[tuple[str, ...], ...], stated: dict[str, npt.ArrayLike],
    sizes: dict[str, tuple[int, ...]],
) -> bool:  # fmt: skip
    """Whether a program that cannot be cut into records runs on all data as one."""
    counts = {count: _SEVERAL for names in tried for count in names}
    try:
        parts = _parts(program, (), {**counts, **implied_sizes(program, sizes), **stated}, sizes, None, {})
        params = {p.name: p.transform(jnp.zeros(p.free_shape)) for p in parts.coordinates.parameters}
        parts.run_joint(params, parts.blank(1, 0))
    except BayesreconError:
        return False
    return bool(counts)


_SEVERAL = 12
"""Values of each count of a program that is tried on all data as one record."""


ALL_ONE = (
    'the likelihood has to be a product over records, or over windows of a series; record="all" (--settings '
    """'{"record": "all"}') takes all data as one record, of which each value is a field"""
)


def _cut(
    program: tree.Program, counts: tuple[str, ...], stated: dict[str, npt.ArrayLike], sizes: dict[str, tuple[int, ...]],
    domain: Mapping[str, object] | None,
) -> tuple[Parts, Parts]:  # fmt: skip
    """The program cut into records, and the same with all transformed data computed."""
    cut: dict[str, RecordField] = {}
    whole = parts = _parts(program, counts, stated, sizes, domain, cut)
    while (column := coupled_column(parts)) is not None:
        cut[column.node.name] = column
        parts = _parts(program, counts, stated, sizes, domain, cut)
    return parts, whole


def _series(
    program: tree.Program, counts: tuple[str, ...], stated: dict[str, npt.ArrayLike], sizes: dict[str, tuple[int, ...]],
    domain: Mapping[str, object] | None,
) -> Parts | None:  # fmt: skip
    """The program cut into windows of a series; None if it is no product over these."""
    try:
        try:
            parts, whole = _cut(program, counts, stated, sizes, domain)
        except NeedsAllRecordsError:
            parts = whole = _parts(program, counts, stated, sizes, domain, {})
        windows = windowed(replace(parts, whole=whole if parts.cut else None))
    except BayesreconError:
        return None
    return windows


def _model(
    program: tree.Program, parts: Parts, stated: dict[str, npt.ArrayLike], sizes: dict[str, tuple[int, ...]]
) -> StanModel:
    left_out = _left_out(program, parts, {**implied_sizes(program, sizes), **stated})
    model = StanModel(
        name=program.name.removesuffix(".stan"),
        parameters=parts.coordinates.parameters,
        fields=parts.fields,
        log_lik_at=parts.log_lik,
        log_prior_at=parts.log_prior,
        prepare=_prepare(parts.coordinates, left_out),
        identities=identities_of(parts),
        parts=parts,
        left_out=left_out,
        data_priors=priors_of_data(program, set(parts.columns) | {k.count for k in parts.kinds if k.count}),
        notes=(*_record_notes(parts), *presumed_notes(parts.machine.program, parts.fields), *parts.coordinates.notes),
    )
    if not model.parameters:
        raise BayesreconError(f"{program.name} has no parameters, so it has no posterior")
    check(parts, model)
    model = replace(model, notes=(*model.notes, *pointwise_notes(program, parts, model)))
    simulate = simulation(parts, model.constrain(np.zeros(model.dimension)))
    gaussian = linear_form(parts, model) if parts.unit is None and parts.tag is None else None
    return replace(
        model, program=density_program(model, partial(_log_density, parts, model)), simulate=simulate, gaussian=gaussian
    )


def _parts(
    program: tree.Program, counts: tuple[str, ...], stated: dict[str, npt.ArrayLike], sizes: dict[str, tuple[int, ...]],
    domain: Mapping[str, object] | None, cut: Mapping[str, RecordField],
) -> Parts:  # fmt: skip
    known_sizes = implied_sizes(program, sizes)
    declared = {d.name: d for d in declarations(program.transformed_data)}
    stated = {**_numbers_of_sizes(program, counts, {**known_sizes, **stated}), **stated}
    frozen = frozenset(cut) | (stated.keys() & declared.keys())
    small = pruned(program, frozen)
    machine = machine_of(small)
    fields = [_all_data(small, stated)] if not counts else [_columns(small, count, cut) for count in counts]
    own = [_record_parameters(small, count) for count in counts] or [{}]
    every = {name: column for columns in fields for name, column in columns.items()}
    unsized = [count for count, per_record in zip(counts, own, strict=False) if not per_record]
    constants = constants_of(machine, every, unsized, stated, known_sizes)
    sources = set(every) | set(cut) | set(unsized)
    tainted = tainted_names(small, sources)
    if stated.keys() & declared.keys():
        sized = _untainted(machine, constants, tainted)
        for name in stated.keys() & declared.keys():
            constants[name] = value_of(
                declared[name], stated[name], machine.shape_of(declared[name].type, sized, Run())
            )
    base = _untainted(machine, constants, tainted)
    parameters = places(machine, base, {k: tuple(v) for k, v in sizes.items()} if any(own) or not sizes else None)
    _check_sizes(program, parameters, sizes)
    described = _described(machine, base, {**every, **cut}, indexing(small))
    described = with_ranges(small, every, described)
    tag = _unused_name(small, "kind") if len(counts) > 1 else None
    result = {} if tag is None else {tag: Field((), _numbered(len(counts)))}
    kinds: list[RecordsOf] = []
    for count, columns_of, per_record in zip(counts or (None,), fields, own, strict=True):
        inside = {n: c for n, c in cut.items() if count in tree.names_in(sizes_of(c.node))}
        units = int(np.asarray(constants.pop(str(count)).a)) if per_record else 0
        unit = _unused_name(small, "unit", result) if per_record else None
        kind = None if tag is None else RecordKind(tag, float(len(kinds) + 1), str(count))
        result |= {unit: Field((), _numbered(units), kind)} if unit else {}
        names = (*columns_of, *inside)
        result |= {name: replace(described[name], kind=kind) for name in names}
        one = machine_of(record_part(small, tainted_names(small, {*names, *((count,) if count in unsized else ())})))
        at = {name: (name, 0) for name in names}
        kinds.append(RecordsOf(count, columns_of, inside, one, unit, units, per_record, described, at))
    for k, field_domain in domains_of(domain, result).items():
        result[k] = replace(result[k], domain=field_domain)
    if not result:
        raise BayesreconError(
            f"{program.name}: the density uses no data, so there is nothing to recover; declare data in the data block"
        )
    coordinates = Coordinates(machine, base, parameters, tainted)
    kinds = [replace(one, domains={name: result[name] for name in one.places}) for one in kinds]
    return Parts(machine, constants, tuple(kinds), result, tag, coordinates)


def _numbered(count: int) -> Domain:
    return Domain("levels", levels=tuple(map(float, range(1, count + 1))))


def _numbers_of_sizes(
    program: tree.Program, counts: tuple[str, ...], known: Mapping[str, npt.ArrayLike]
) -> dict[str, npt.ArrayLike]:
    """Real numbers of the transformed data that follow from sizes which are known, such as the logarithm of a count."""
    given = {d: known[d.name] for d in declarations(program.data) if d.name in known and not sizes_of(d)}
    of_counts = counted_numbers(program, set(counts))
    wanted = [d for d in declarations(program.transformed_data) if d.name in of_counts and d.type.base == "real"]
    if not wanted or not set(counts) <= {d.name for d in given}:
        return {}
    machine = machine_of(program)
    frame = {d.name: value_of(d, value, ()) for d, value in given.items()}
    unknown = {d.name for d in declarations(program.data)} - frame.keys()
    frame = _untainted(machine, frame, tainted_names(program, unknown))
    return {d.name: np.asarray(frame[d.name].a) for d in wanted if d.name in frame}


def _columns(program: tree.Program, count: str, cut: Mapping[str, RecordField]) -> dict[str, RecordField]:
    fields = columns(program, count)
    if fields is None:
        raise BayesreconError(
            f"{program.name}: sizes of data depend on {count} in more than one way; choose another count with record="
        )
    if not fields and not cut:
        raise BayesreconError(f"{program.name}: no data have the size {count}")
    return fields


def _all_data(program: tree.Program, stated: Mapping[str, npt.ArrayLike]) -> dict[str, RecordField]:
    """All data but sizes and constants, as one record."""
    used = {n for d in declarations(program.data) for s in sizes_of(d) for n in tree.names_in(s)}
    used |= {n for d in declarations(program.parameters) for s in sizes_of(d) for n in tree.names_in(s)}
    return {
        d.name: RecordField(d, 0, False)
        for d in declarations(program.data)
        if d.name not in used and d.name not in stated
    }


def _record_parameters(program: tree.Program, count: str) -> dict[str, int]:
    """Parameters that have an entry for each record, with the axis of records."""
    uses = [d for d in declarations(program.parameters) if count in tree.names_in(tuple(sizes_of(d)))]
    result = record_parameters(tuple(uses), count)
    if result is None:
        raise BayesreconError(
            f"{program.name}, line {uses[0].position[0]}: {uses[0].name} must have exactly one axis of the "
            "number of records"
        )
    return result


def _unused_name(program: tree.Program, name: str, taken: Collection[str] = ()) -> str:
    declared = {n.name for n in tree.walk((program.data, program.parameters)) if isinstance(n, tree.Declare)}
    while name in declared or name in taken:
        name += "_"
    return name


def _untainted(machine: StanMachine, constants: Frame, tainted: set[str]) -> Frame:
    """Constants and the transformed data that no record enters."""
    frame = dict(constants)
    run = Run(frozen=frozenset(frame))
    with np.errstate(all="ignore"):
        for s in flattened(machine.program.transformed_data):
            names = tree.names_in(s) | tree.assigned_in(s) | declared_in(s)
            if (isinstance(s, tree.Declare) and s.name not in tainted and not names & tainted) or (
                not isinstance(s, tree.Declare) and not names & tainted
            ):
                machine.block((s,), frame, run)
    return frame


def _described(
    machine: StanMachine, base: Frame, fields: Mapping[str, RecordField], indexes: Mapping[str, list[tree.Expression]]
) -> dict[str, Field]:
    result: dict[str, Field] = {}
    for name, column in fields.items():
        sizes = list(sizes_of(column.node))
        if column.node.type.base in ("cov_matrix", "corr_matrix", "cholesky_factor_corr"):
            sizes.append(sizes[-1])
        try:
            shape = tuple(
                int(machine.value(s, base, Run()).a)
                for k, s in enumerate(sizes)
                if not (column.follows and k == column.axis)
            )
        except StanError as error:
            raise machine.placed(error, column.node) from None
        result[name] = Field(shape, domain_of(machine, column.node, base, indexes.get(name)))
    return result


def _check_sizes(
    program: tree.Program, parameters: tuple[ParameterDeclaration, ...], sizes: Mapping[str, tuple[int, ...]]
) -> None:
    for p in parameters:
        if p.name in sizes and tuple(sizes[p.name]) != p.shape and int(np.prod(sizes[p.name])) != int(np.prod(p.shape)):
            raise BayesreconError(
                f"{program.name}: {p.name} has shape {p.shape}, but its draws have {tuple(sizes[p.name])}; "
                "do they belong to this program?"
            )


def _record_notes(parts: Parts) -> tuple[str, ...]:
    """Notes on what is used as a record."""
    if parts.count is None:
        return (Note(f"{parts.name}: all data together are one record"),)
    notes = []
    for kind in parts.kinds:
        rows = f"windows of a series of {kind.count} values" if kind.lag else f"{kind.count} records"
        rows = f"the first values of a series of {kind.count}" if isinstance(kind, Start) else rows
        notes.append(Note(f"{parts.name}: the data are {rows} with the fields {', '.join(kind.names)}"))
        if kind.unit:
            notes.append(
                Note(f"{', '.join(kind.per_record)} have one entry per record; the field {kind.unit} is its number")
            )
    for name in parts.cut:
        notes.append(Note(f"{name} is computed from all records: the field is {name} itself, not its inputs"))
    return tuple(notes)


# Which Stan programs are Gaussian linear regressions.
#
# Location and scale of the one normal term of a record are recorded when the model block reaches it; their
# dependence on the parameters is read from their operations (`bayesrecon.models.recognition`).

_RECORDS = 3  # on which a program is looked at


class _Reading(DensityVisitor):
    """Keeps normal terms of the record in place of adding them."""

    def __init__(self, record: StanMachine):
        super().__init__(record)
        self.terms: list[tuple[Elements, Elements, Elements]] = []

    def visit_density(
        self, name: str, variate: tree.Expression, args: tuple[tree.Expression, ...], frame: Frame, run: Run
    ) -> bool:
        if name not in ("normal", "normal_id_glm"):
            return False
        y, *values = (self.value(a, frame, run) for a in (variate, *args))
        if not y.tainted:
            return False
        location = values[0].a if name == "normal" else linear_predictor(*values[:3]).a
        self.terms.append((location, values[-1].a, y.a))
        return True


def linear_form(parts: Parts, model: Model) -> GaussianPredictor | None:
    """The linear form of a program that is a Gaussian linear regression; None for other programs."""

    def record_response(params: Params, record: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        machine = _Reading(parts.kinds[0].record)
        _, run = parts.run_record(params, record, 0, machine, Run(selects=False))
        if len(machine.terms) != 1 or any(tainted for *_, tainted in run.terms):
            raise StanError("a record has terms other than one normal density")
        if any(np.size(a) != 1 for a in machine.terms[0]):
            raise StanError("a record has several responses")
        location, scale, value = (jnp.reshape(jnp.asarray(a, float), ()) for a in machine.terms[0])
        return location, scale, value

    def response(params: Params, records: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        return jax.vmap(record_response, (None, 0))(params, {k: jnp.asarray(v) for k, v in records.items()})

    try:
        at = model.constrain(np.zeros(model.dimension))
        return gaussian_predictor(model, response, at, parts.blank(_RECORDS, 0)[0])
    except (StanError, TypeError, ValueError):
        return None


def _log_density(parts: Parts, model: Model, params: Params, batch: Records) -> jax.Array:
    """The log density of all records, by one run of the program if records are known and have no units."""
    known = not any(isinstance(v, Tracer) for v in batch.values())
    if known and parts.count is not None and not any(kind.unit or kind.lag for kind in parts.kinds):
        run = parts.run_joint(params, parts.batches({k: np.asarray(v) for k, v in batch.items()}))
        return run.total() + parts.coordinates.values(params)[1]
    terms = jax.vmap(model.log_lik_at, in_axes=(None, 0))(params, batch)
    return jnp.sum(terms) + model.log_prior_at(params)
