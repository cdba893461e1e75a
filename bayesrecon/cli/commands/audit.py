"""`bayesrecon audit`: may this file be published?"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesrecon.cli.audits import (
    Announced,
    check_writable,
    finish,
    ledger_apart,
    members_of,
    public_names,
    so_far,
    with_warnings,
)
from bayesrecon.cli.command import ENDING, KNOWS, MODEL, RELEASE, Arguments, command, only
from bayesrecon.cli.delivery import check_suffix
from bayesrecon.cli.estimate_tables import correlations_of, is_table
from bayesrecon.cli.policy import read_policy
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bayesrecon.auditing.look import Released
    from bayesrecon.json_types import Json
    from bayesrecon.model import Model
    from bayesrecon.posteriors.draws import Draws
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.findings import Thresholds as Limits

Files = Annotated[
    list[str],
    typer.Argument(
        help="Files of a fit (.nc, .zarr, .npz, .json.zip, CmdStan .csv: one per chain), saved models (.pickle, "
        ".joblib, .pt, .skops, .onnx), or a posteriordb name."
    ),
]


@command(MODEL, only(RELEASE, "download"), KNOWS, ENDING, written=(".json", ".csv"), folders=True)
def audit(
    args: Arguments,
    files: Files,
    data: Annotated[
        str | None, typer.Option(help="The private data (.csv, .json, .npz): findings are scored against them.")
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="Exit with 1 on a finding of at least this severity: low, medium or high. With --fix, findings in the "
            "copy count."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report to this .html file.")] = None,
    fix: Annotated[
        Path | None, typer.Option(help="Write a cleaned copy to this .nc or .npz file, and audit the copy.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="With --fix: name of an array that the copy keeps, with wildcards. Repeatable. A model's parameters "
            "are kept without it."
        ),
    ] = None,
    rows: Annotated[
        bool | None,
        typer.Option("--draws/--records", help="What each row of the file is, if nothing in it says so."),
    ] = None,
    keep_draws: Annotated[int | None, typer.Option(help="With --fix: number of draws to keep.")] = None,
    digits: Annotated[int | None, typer.Option(help="With --fix: round the draws to this number of digits.")] = None,
    remedies: Annotated[
        bool,
        typer.Option("--remedies/--no-remedies", help="Report an attacker's errors after thinning and rounding."),
    ] = True,
    public: Annotated[
        list[str] | None,
        typer.Option(
            help="Name or place of an item that may stay, with wildcards; @FILE for a file of names. Repeatable."
        ),
    ] = None,
    threshold: Annotated[
        int,
        typer.Option(
            min=0,
            help="Report levels and cells with fewer records, and fewer residual degrees of freedom, as small counts.",
        ),
    ] = 10,
    show_values: Annotated[
        bool, typer.Option("--show-values", help="Show values of records in reports, which are then copies of data.")
    ] = False,
    effort: Annotated[
        str, typer.Option(help="quick: about a minute, some remedies are only predicted; full: measure all remedies.")
    ] = "quick",
    membership: Annotated[
        Path | None,
        typer.Option(
            help="Which of several files contains whom: a .csv file with a line WHOLE,PART for each disjoint part, "
            "where both are files or names of groups. Groups that follow from combinations are reported."
        ),
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="Compare with all that was published before, by this ledger (`bayesrecon ledger`)."),
    ] = None,
    account: Annotated[
        str | None, typer.Option(help="With a ledger: the account; by default of the usual ledger.")
    ] = None,
    part: Annotated[str | None, typer.Option(help="The part of the account.")] = None,
    statement: Annotated[
        Path | None, typer.Option(help="Write an in-toto statement of the audit to this .json file (`verify`).")
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option(help="Write kinds and severities, without names and values, to this .sarif file.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="Let this .yaml or .json file decide the exit code (0 allowed, 1 refused, 3 incomplete): fail_on, "
            "allowed_kinds, allow_incomplete, digits, worth, epsilon, and ACRO's keys such as safe_threshold."
        ),
    ] = None,
) -> None:
    """Report what publishing a file would reveal: copies of data, side channels, and the draws themselves.

    Exit codes: 0 done; 1 a finding at --fail-on or above; 2 bad input; 3 incomplete, because an attack was not run (for
    example without --model), the file was not read, or it is open whether its rows are draws; 130 interrupted.

    A table of estimates with standard errors (.csv, .md, .html, .txt) is audited with --model ols, logit, poisson or a
    model of your own. results.json of ACRO needs no model.

    Several CmdStan .csv files are the chains of one fit. Other files, and those of a folder, are audited one by one and
    together: records that are in one and not in others are reported. Saved models are parsed, never loaded.
    """
    check_suffix(html, (".html", ".htm"), "--html")
    check_suffix(fix, (".nc", ".npz"), "--fix")
    check_suffix(statement, (".json",), "--statement")
    check_suffix(sarif, (".sarif", ".json"), "--sarif")
    check_writable(html, fix, statement, sarif, args.out)
    allowed = public_names(public or ())
    if fail_on not in (None, "low", "medium", "high"):
        raise BayesreconError(f"--fail-on {fail_on}: expected low, medium or high")
    if fix is None and (keep or keep_draws is not None or digits is not None):
        raise BayesreconError("--keep, --keep-draws and --digits need --fix FILE")
    if policy is not None and fail_on is not None:
        raise BayesreconError("--policy and --fail-on both decide the exit code; name one of them")
    rules = None if policy is None else read_policy(policy)
    parts_of = members_of(membership)
    row = "" if rows is None else "draws" if rows else "records"

    from bayesrecon.auditing.audit import audit as run
    from bayesrecon.auditing.effort import effort_of
    from bayesrecon.auditing.fix import clean, named_to_keep, write_audited
    from bayesrecon.auditing.input import stored_model_of
    from bayesrecon.cli import console, inputs, option_values
    from bayesrecon.posteriors.contents import decided
    from bayesrecon.posteriors.leaves import read_leaves
    from bayesrecon.posteriors.tables import read_table
    from bayesrecon.results.findings import Thresholds

    thresholds = Thresholds(small_count=threshold) if rules is None else rules.thresholds
    earlier, state, spent = _published(ledger, account, part, files)
    if rules is not None and rules.budgets and spent is None:
        raise BayesreconError(f"--policy {policy}: a budget of {' and '.join(rules.budgets)} needs a ledger (--ledger)")
    for line in () if rules is None else rules.notes():
        console.say(line)
    decides = None if rules is None else (rules, spent or {})
    if statement is not None:
        from bayesrecon.posteriors.folders import is_archive

        for file in files:
            if not Path(file).exists() or is_archive(file):
                raise BayesreconError(
                    f"--statement is about files that are there; {file} is none, or has to be unpacked"
                )
    published = {"statement": statement, "sarif": sarif}
    how_to_end: Json = {"show_values": show_values, "policy": decides, "published": published}
    end = partial(finish, args, html=html, fail_on=fail_on, **how_to_end)
    entered = partial(_as_entered, [one.name for one in earlier])
    members = {entered(whole): list(map(entered, parts)) for whole, parts in parts_of.items()}
    together: Json = {"membership": members, "earlier": earlier}
    if rows is None and all(is_table(file) for file in files):
        unused = {"--fix": fix, "--data": data, "--unit": args.unit, "--known": args.known, "--power": args.power}
        for option, value in unused.items():
            if value is not None:
                raise BayesreconError(f"{option} does not apply to a table of estimates")
        options = {**together, "remedies": remedies and effort_of(effort)}
        result = _table(args, files, thresholds, options)
        return end(result=with_warnings(result, state))
    if args.column:
        raise BayesreconError("--column needs a table of estimates with standard errors")
    if args.correlations:
        raise BayesreconError("--correlations needs a table of estimates with standard errors")
    settings = inputs.with_constants(option_values.parse_settings(args.settings), args.constants, args.model)
    if settings and args.model is None:
        raise BayesreconError("--settings needs a model: name it with --model")
    chosen: Model | str | None = args.model
    if args.model is not None and (settings or not _is_of_tables(args.model)):
        chosen = inputs.load_model(args.model, settings, files)
    sources, default = _sources(files, args.download)
    if fix is not None and len(sources) > 1:
        raise BayesreconError("--fix takes one file, or the chains of one fit")
    chosen = chosen or default
    if args.power is not None:
        if chosen is None or isinstance(chosen, str):
            raise BayesreconError("--power needs a model: name it with --model")
        chosen = inputs.at_power(chosen, args.power)
    own = None if isinstance(chosen, str) else chosen
    knows = inputs.knowledge_of(args, own)
    if args.known is not None and chosen is None:  # fits in saved objects know their fields
        knows["known"] = read_table(args.known)
    interrupted, used, named = False, own, (set[str](), set[str]())
    with args.working() as how:
        run_audit = partial(
            run,
            data=data,
            **knows,
            remedies=remedies and effort_of(effort),
            public=allowed,
            rows=row,
            thresholds=thresholds,
            key=how["key"],
        )
        announced, result = Announced(how["progress"]), None
        try:
            if fix is None:
                read = [read_leaves(s, trusted=True) if args.trusted and not _is_many(s) else s for s in sources]
                one = read[0] if len(read) == 1 else read
                result = run_audit(one, chosen, progress=announced, **together)
            else:
                (source,) = sources
                if _is_many(source):
                    raise BayesreconError("--fix needs a file of draws, and this is not one")
                contents = read_leaves(source, progress=how["progress"], trusted=args.trusted)
                contents = contents if chosen is not None else decided(contents, row)
                used = own or stored_model_of(contents)[0]
                named = named_to_keep(contents, used, (*(keep or ()), *allowed))
                result = run_audit(contents, chosen, progress=announced)
                draws = clean(contents, result, named, draws=keep_draws, digits=digits)
                console.say("auditing the cleaned copy before it is written")
                audit_copy = partial(run_audit, model=used, progress=announced, rows="draws")
                result = result.with_fixed(write_audited(draws, fix, audit_copy))
                console.wrote(fix)
        except KeyboardInterrupt as stop:
            result, interrupted = so_far(result, stop), True
    end(result=with_warnings(result, state), interrupted=interrupted)


COMMAND = audit


def _as_entered(earlier: "Sequence[str]", name: str) -> str:
    """The name of a file, or of the only entry of the ledger whose file has this name."""
    entered = [one for one in earlier if one.startswith(f"{name} of ")]
    return entered[0] if len(entered) == 1 else name


def _is_of_tables(model: str) -> bool:
    """Whether this names the model of the tables among several files."""
    from bayesrecon.models.estimators import ESTIMATORS

    return model in ESTIMATORS


def _is_many(source: object) -> bool:
    """Whether a source is not one file of draws: a folder, an archive, outputs of ACRO or a distribution of CmdStan."""
    from bayesrecon.posteriors.folders import is_archive, is_folder
    from bayesrecon.posteriors.printed.acro import is_acro
    from bayesrecon.posteriors.recognition import is_cmdstan_approximation

    several = isinstance(source, str) and (is_folder(source) or is_archive(source))
    return several or is_cmdstan_approximation(source) or is_acro(source)


def _published(
    ledger: "Path | None", account: "str | None", part: "str | None", files: "Sequence[str]"
) -> "tuple[list[Released], list[str], dict[str, float] | None]":
    """What the ledger says was published before, of anybody who may be in these files; the account in sentences; and
    its worth and epsilon that are spent, None without a ledger."""
    if ledger is None and account is None and part is None:
        return [], [], None
    from bayesrecon.auditing.published import published_before
    from bayesrecon.disclosure.sanitising.ledger import EVERYBODY, Whose, opened_ledger
    from bayesrecon.posteriors.contents import stamp

    whose = Whose(EVERYBODY if account is None else account, part)
    with opened_ledger(ledger_apart(ledger, *map(Path, files)), only_read=True) as book:
        entries, state, guarantee = book.published(whose.account), book.state(whose), book.guaranteed(whose)
        spent = {"worth": book.account(whose).spent, "epsilon": 0.0 if guarantee is None else guarantee.epsilon}
    own = {stamp(path).sha256 for path in map(Path, files) if path.is_file()}
    others = [one for one in entries if one["sha256"] not in own]
    known = [one for one in others if part is None or one["part"] in (None, whose.part)]
    return published_before(known), state, spent


def _table(args: Arguments, files: list[str], thresholds: "Limits", options: "Json") -> "Audit":
    """The audit of a printed table, or of several of them."""
    from bayesrecon.auditing.audit import audit as run
    from bayesrecon.cli.inputs import knowledge_of, table_of

    correlations = correlations_of(files, args.correlations)
    table_options = table_of(files[0], args.model, args.settings)
    column = args.column[0] if args.column and len(args.column) == 1 else args.column
    if args.column and len(args.column) > 1:
        if len(files) > 1 or args.correlations:
            raise BayesreconError("several --column need a single table, without --correlations")
        correlations = [None]
    with args.working() as how:
        return run(
            files[0] if len(files) == 1 else files,
            **table_options,
            **knowledge_of(args, None),
            correlations=correlations[0] if len(correlations) == 1 else correlations,
            formula=args.formula,
            column=column or None,
            **options,
            thresholds=thresholds,
            **how,
        )


def _sources(files: list[str], download: bool) -> "tuple[list[str | list[str] | Draws], Model | None]":
    """What to read, and the model that a posteriordb name stands for."""
    from bayesrecon.posteriors.formats import suffix_of
    from bayesrecon.posteriors.recognition import is_cmdstan_approximation

    chains = [f for f in files if suffix_of(f).startswith(".csv") and not is_cmdstan_approximation(f)]
    other_files = [f for f in files if f not in chains]
    for i, file in enumerate(files):
        if file in files[:i]:
            raise BayesreconError(f"{file} is given twice; name each file once")
    sources: list[str | list[str] | Draws] = [chains] if chains else []
    model = None
    for file in other_files:
        if Path(file).exists() or Path(file).suffix:
            sources.append(file)
            continue
        draws, model = _reference(file, download)
        sources.append(draws)
    return sources, model


def _reference(name: str, download: bool) -> "tuple[Draws, Model]":
    """Reference draws of a posteriordb posterior, and its model."""
    from bayesrecon.posteriors.fitting.database import open_database, read_reference_draws
    from bayesrecon.posteriors.fitting.programs import served_by

    database = open_database(download=download)
    return read_reference_draws(database, name), served_by(database, name).model
