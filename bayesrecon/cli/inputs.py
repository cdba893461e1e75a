"""Releases, models and tables of data from command-line arguments."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Required, TypedDict, cast

from bayesrecon.cli.estimate_tables import correlations_of, is_table
from bayesrecon.cli.option_values import parse_domains, parse_factors, parse_settings
from bayesrecon.cli.own_files import load_object
from bayesrecon.domains import records_in
from bayesrecon.errors import BayesreconError, first_line
from bayesrecon.json_types import Json
from bayesrecon.knowledge import Knows
from bayesrecon.posteriors.tables import read_table

if TYPE_CHECKING:
    from bayesrecon.cli.command import Arguments
    from bayesrecon.model import Model, Records
    from bayesrecon.releases import Release


@dataclass(frozen=True)
class ReleaseOptions:
    """What is said about a release beside its source."""

    model: str | None = None
    settings: str | None = None
    draws: int | None = None
    download: bool = False
    trusted: bool = False
    power: float | None = None
    correlations: Sequence[str] | None = None
    constants: str | None = None
    formula: str | None = None
    weights: str | None = None
    column: Sequence[str] | None = None


def _stated(args: "Arguments") -> ReleaseOptions:
    return ReleaseOptions(**{f.name: args.values[f.name] for f in fields(ReleaseOptions)})


class StatedTableOptions(TypedDict, total=False):
    """Options of `posteriors.from_table` that `--model` and `--settings` state."""

    model: Required["Model | str"]
    response: str


def load_model(spec: str, settings: Json | None = None, sources: Sequence[str] = ()) -> "Model":
    """A shipped model's name, or `file.py:name` of a model, or of a function that returns one, or a Stan program.
    Without `:name`, the only model of the file.

    A Python file is the user's own program and is executed. A model is what `models.model_of` takes: a `Model`, a PyMC
    or Bambi model, a NumPyro program. A Stan program is only read; draws, the `sources`, tell its sizes. The settings
    of a shipped model are those in a source that `bayesrecon fit` wrote with this model, unless others are given.
    """
    if spec.endswith(".stan"):
        return load_stan(spec, settings or {}, sources)
    if ":" not in spec and not spec.endswith(".py"):
        from bayesrecon.models import load

        return load(spec, **(settings or _stored_settings(spec, sources)))
    from bayesrecon.models.conversion import is_model

    what = "the model or the function that returns it"
    return _model(load_object(spec, what, wanted=is_model), spec, settings)


def _stored_settings(name: str, sources: Sequence[str]) -> Json:
    from bayesrecon.models import find

    if not inspect.signature(find(name).build).parameters:
        return {}  # no file has to be read twice
    from bayesrecon.posteriors.conversion import is_file
    from bayesrecon.posteriors.formats import read_draws
    from bayesrecon.posteriors.sources import stored_model

    files = [s for s in sources if Path(s).suffix.lower() in (".nc", ".npz") and is_file(s)]
    try:
        draws = read_draws(files[0]) if files else None
    except BayesreconError:  # whoever reads the file says what is wrong with it
        return {}
    if draws is None or draws.attributes.get("bayesrecon_model") != name:
        return {}
    return dict(stored_model(draws).settings)


def load_stan(spec: str, settings: Json, sources: Sequence[str]) -> "Model":
    """The model of a Stan program, with sizes from the draws."""
    from bayesrecon.models import from_stan
    from bayesrecon.posteriors.conversion import is_file
    from bayesrecon.posteriors.formats import read_draws

    unknown = settings.keys() - {"constants", "record", "domain"}
    if unknown:
        raise BayesreconError(
            f"the --settings of a Stan program are record and domain, not {', '.join(sorted(unknown))}"
        )
    files = [s for s in sources if is_file(s)]
    return from_stan(spec, sizes=read_draws(files[0]).shapes if files else {}, **settings)


def with_constants(settings: Json, constants: str | None, model: str | None) -> Json:
    """Settings with the constants of a Stan program, from a JSON file."""
    if constants is None:
        return dict(settings)
    if model is None or not model.endswith(".stan"):
        raise BayesreconError("--constants needs a Stan program: name it with --model program.stan")
    return {**settings, "constants": read_table(constants)}


def _model(loaded: object, spec: str, settings: Json | None) -> "Model":
    from bayesrecon.models.conversion import model_of
    from bayesrecon.models.descriptions import program_fields

    model, name = loaded, spec.rpartition(":")[2] if ":" in spec else getattr(loaded, "__name__", spec)
    if inspect.isroutine(loaded) and not program_fields(loaded, settings):
        try:
            model = loaded(**(settings or {}))
        except BayesreconError:
            raise
        except (Exception, SystemExit) as error:
            raise BayesreconError(f"--model {spec}: {name}() failed: {first_line(error)}") from None
        if inspect.isroutine(model):
            model = None
    elif settings:
        raise BayesreconError(f"--settings needs a function that returns a model, and {name} is not one")
    try:
        return model_of(model)
    except BayesreconError as error:
        raise BayesreconError(f"--model {spec}: {error}") from None


def open_release(sources: Sequence[str], given: ReleaseOptions = ReleaseOptions()) -> "Release":
    """A release from a posteriordb name, from files of draws, or from a table of estimates."""
    if any(map(is_table, sources)) or given.correlations:
        correlations = correlations_of(sources, given.correlations)
        if len(sources) > 1:
            raise BayesreconError("give one table of estimates at a time")
        if given.power is not None or given.draws is not None or given.weights is not None:
            raise BayesreconError(
                "--power, --draws and --weights do not apply to a table of estimates; state with --fit-weights how its "
                "fit weighted the records"
            )
        return _open_table(sources[0], given, correlations[0])
    for option in ("formula", "column"):
        if getattr(given, option):
            raise BayesreconError(f"--{option} needs a table of estimates with standard errors")
    return _opened(sources, given, with_constants(parse_settings(given.settings), given.constants, given.model))


def at_power(model: "Model", power: float | None) -> "Model":
    """The model with the likelihood at this power; None leaves the model unchanged."""
    from bayesrecon.models.power import tempered

    return model if power is None else tempered(model, power)


def _opened(sources: Sequence[str], given: ReleaseOptions, values: Json) -> "Release":
    if values and given.model is None:
        raise BayesreconError("--settings needs a model: name it with --model")
    from bayesrecon.posteriors.conversion import is_file, release_of

    loaded_model = load_model(given.model, values, sources) if given.model else None
    if len(sources) == 1 and not is_file(sources[0]):
        from bayesrecon.cli.console import say
        from bayesrecon.posteriors.fitting.fitted import from_posteriordb

        if given.weights is not None:
            raise BayesreconError("--weights needs a file of draws; draws from posteriordb have no weights")
        release = from_posteriordb(sources[0], draws=given.draws, download=given.download, model=loaded_model, say=say)
        return replace(release, model=at_power(release.model, given.power))
    source = sources[0] if len(sources) == 1 else list(sources)
    weight_column: str | bool = True if given.weights is None else given.weights != "none" and given.weights
    return release_of(
        source, loaded_model, power=given.power, draws=given.draws, trusted=given.trusted, weights=weight_column
    )


def table_of(file: str, model: str | None, settings: str | None) -> StatedTableOptions:
    """Options for reading a table: `model`, and for a regression `response`."""
    from bayesrecon.models import shipped
    from bayesrecon.models.estimators import ESTIMATORS

    if model is None:
        raise BayesreconError(f"{file} is a table of estimates: name its model, --model {' or '.join(ESTIMATORS)}")
    values = parse_settings(settings)
    user_model = ":" in model or model.endswith((".py", ".stan"))
    if model not in ESTIMATORS and not user_model and model not in shipped():
        raise BayesreconError(f"{file} is a table of estimates: --model {model} is not one of {', '.join(ESTIMATORS)}")
    if model not in ESTIMATORS:
        return {"model": load_model(model, values)}
    if set(values) - {"response"}:
        raise BayesreconError("the lines of the table are the covariates; --settings accepts only 'response'")
    return {"model": model, "response": values["response"]} if values else {"model": model}


def _open_table(file: str, given: ReleaseOptions, correlations: str | None) -> "Release":
    """The release of a regression's table."""
    from bayesrecon.posteriors.printed.summaries import from_table

    table_options = table_of(file, given.model, given.settings)
    if not isinstance(table_options["model"], str):
        raise BayesreconError(
            f"{file}: for a model other than a regression, state in Python what the estimates are "
            "(posteriors.from_table)"
        )
    if given.column and len(given.column) > 1:
        raise BayesreconError("only recover and audit accept several --column")
    column = given.column[0] if given.column else None
    return from_table(file, correlations=correlations, formula=given.formula, column=column, **table_options)


def open_release_of(args: "Arguments") -> "Release":
    """The release of the shared options."""
    return open_release(args.release, _stated(args))


def open_releases_of(args: "Arguments") -> "list[Release]":
    """The releases of the shared options, which have the same data."""
    return open_releases(args.release, _stated(args))


def knowledge_of(args: "Arguments", model: "Model | None") -> Knows:
    """The attacker's knowledge in the shared options, as keywords of a verb."""
    unit = tuple(args.unit.split(",")) if args.unit else None
    knowledge = {
        "known": None if model is None else known_fields(args.known, model),
        "unit": unit[0] if unit and len(unit) == 1 else unit,
        "total": args.total,
        "domain": parse_domains(args.domain or ()) or None,
        "factors": parse_factors(args.values.get("factors") or ()) or None,
        "fit_weights": args.values.get("fit_weights"),
        "offset": args.values.get("offset"),
    }
    return cast(Knows, {name: value for name, value in knowledge.items() if value is not None})


def open_releases(sources: Sequence[str], given: ReleaseOptions = ReleaseOptions()) -> "list[Release]":
    """Releases of one data set: one for each posteriordb name, file or table, and one for all CmdStan files."""
    from bayesrecon.posteriors.conversion import is_file

    columns = given.column or ()
    if len(sources) == 1 and len(columns) > 1 and is_table(sources[0]):
        if given.correlations:
            raise BayesreconError("--correlations needs one model: give only one --column")
        return [open_release(sources, replace(given, column=[column])) for column in columns]
    if len(sources) > 1 and all(map(is_table, sources)):
        files = (None if file is None else [file] for file in correlations_of(sources, given.correlations))
        return [open_release([one], replace(given, correlations=f)) for one, f in zip(sources, files, strict=True)]
    if any(map(is_file, sources)) and any(Path(source).suffix.lower() == ".csv" for source in sources):
        return [open_release(sources, given)]
    for i, source in enumerate(sources):
        if source in sources[:i]:
            raise BayesreconError(f"{source} is given twice; pooling needs independent releases")
    return [open_release([source], given) for source in sources]


def known_fields(path: str | None, model: "Model") -> "Records | None":
    """The columns of a design file that are fields of the model's record."""
    if path is None:
        return None
    table = read_table(path)
    known = records_in(model.fields, table)
    if not known:
        raise BayesreconError(
            f"--known {path}: none of its columns ({', '.join(table)}) is a field of {model.name} "
            f"({', '.join(model.fields)}); name the columns like the fields"
        )
    return known


def open_data(
    model_name: str,
    data: str,
    *,
    response: str | None = None,
    covariates: str | None = None,
    settings: str | None = None,
) -> "tuple[Model, Records]":
    """A model and the records to fit it to, from a data file or a posteriordb data name."""
    from bayesrecon.models import find

    if Path(data).suffix.lower() in (".csv", ".json", ".npz") or Path(data).exists():
        table = read_table(data)
    else:
        from bayesrecon.posteriors.fitting.database import open_database, read_data

        table = read_data(open_database(), data)
    values = parse_settings(settings)
    if model_name.endswith(".stan"):
        from bayesrecon.models import stan_data

        return stan_data(model_name, table, **values)
    if ":" in model_name or model_name.endswith(".py"):
        model = load_model(model_name, values)
        return model, records_in(model.fields, table)
    entry = find(model_name)
    if entry.records is not None and (response or covariates):
        raise BayesreconError(f"--response and --covariates are for generic regressions; {model_name} has fixed fields")
    if entry.records is None:
        names = covariates.split(",") if covariates else [c for c in table if c != (response or "y")]
        values = {"covariates": names, "response": response or "y", **values}
        for column in (values["response"], *values["covariates"]):
            if column not in table:
                raise BayesreconError(
                    f"{data} has no column {column!r} (it has {', '.join(table)}); "
                    "name the response with --response and the covariates with --covariates a,b"
                )
    try:
        if entry.constants is not None:
            values = {**entry.constants(table), **values}
        model = load_model(model_name, values)
        if entry.records is None or all(f in table for f in model.fields):
            return model, {f: table[f] for f in model.fields}
        return model, entry.records(table)
    except KeyError as error:
        raise BayesreconError(f"{data} lacks {error.args[0]!r}, which model {model_name} needs") from None
