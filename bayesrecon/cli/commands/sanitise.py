"""`bayesrecon sanitise`: draws that may be published in the place of others."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from bayesrecon.cli import options
from bayesrecon.cli.audits import check_writable, ledger_apart
from bayesrecon.cli.command import ENDING, KNOWS, RELEASE, Arguments, as_typed, command, only
from bayesrecon.cli.delivery import check_suffix, deliver
from bayesrecon.errors import BayesreconError
from bayesrecon.files import staged, write_whole

if TYPE_CHECKING:
    import numpy as np
    from rich.console import RenderableType
    from rich.table import Table

    from bayesrecon.json_types import Json
    from bayesrecon.model import Model
    from bayesrecon.releases import Release
    from bayesrecon.results.audit import Audit
    from bayesrecon.results.sanitised import Guaranteed, Sanitised

_ROWS = 30  # of a table, the first ones


@command(
    {"release": (RELEASE["release"][0], None)},
    only(RELEASE, "model", "settings", "constants", "power", "trusted", "download"),
    only(KNOWS, "domain"),
    only(ENDING, "json"),
    written=(".nc", ".npz", ".csv"),
)
def sanitise(
    args: Arguments,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Write the sanitised draws to this .nc or .npz file, a mode to .csv.")
    ],
    worth: Annotated[
        float | None,
        typer.Option(help="Number of independent draws that the release may be worth, at least 100 (the default)."),
    ] = None,
    records: Annotated[
        float | None,
        typer.Option(help="Instead of --worth: largest shift by one record, in posterior standard deviations."),
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            help="With --records or --epsilon: protect all records together that share a value in this column."
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Differential privacy, with --delta, --domain, --data and --model, and without RELEASE."),
    ] = None,
    delta: options.Delta = None,
    replace: options.Replace = False,
    most_per_unit: Annotated[
        int | None, typer.Option(help="With --epsilon and --unit: number of records of a unit that count.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The private data (.csv, .json, .npz): the same data get the same tilt.")
    ] = None,
    keep_draws: Annotated[
        int | None, typer.Option(help="Number of draws to publish; default a quarter of them.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Largest total worth of the account, or epsilon; kept until stated anew."),
    ] = None,
    account: Annotated[
        str | None, typer.Option(help="The data are about other people, who are in no other account.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="People of the account who are in none of its other parts, e.g. 2026-01.")
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="File of what was released, with its key beside it. Never keep them beside a release."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Try everything with other random numbers; spend and write nothing.")
    ] = False,
    table: Annotated[
        Path | None,
        typer.Option(help="Write means, standard deviations and covariance of the sanitised draws to this .csv file."),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="Write a description of the draws to this .json or .csv file.")
    ] = None,
) -> None:
    """Make publishable draws: from the posterior of data that were randomly altered once.

    The input may also be a mode with its covariance: a .csv file with the columns mode and cov(NAME), and a line for
    each coordinate NAME. The altered mode is then searched for, which needs --data.

    The file holds only the model's parameters. It hides statistics of the data, but no individual person: it is not
    anonymous and not differentially private.

    With --epsilon there is such a guarantee: bayesrecon sanitise --epsilon 1 --delta 1e-6 --domain age=18:90 --domain
    bmi=10:60 --data table.csv --model own.py -o out.nc. It samples a posterior that knows the noise. The ranges must be
    public knowledge.
    """
    check_suffix(page, (".json", ".csv"), "--page")
    check_suffix(table, (".csv",), "--table")
    check_writable(out, page, table)
    asked = {"epsilon": epsilon, "delta": delta, "domain": args.domain, "replace": replace}
    promised = {k: v for k, v in {**asked, "most_per_unit": most_per_unit}.items() if v not in (None, False, [])}
    if unit is not None and records is None and not promised:
        raise BayesreconError("--unit needs --records MU, or --epsilon E with --most-per-unit K")
    if not promised and not args.release:
        raise BayesreconError("name the draws (RELEASE), or state --epsilon E, --delta D, --domain, --data and --model")

    from bayesrecon.cli import console
    from bayesrecon.cli.estimate_tables import is_table
    from bayesrecon.cli.option_values import parse_domains
    from bayesrecon.disclosure.sanitising.sanitise import sanitise as run
    from bayesrecon.results.sanitised import Sanitised

    if promised and epsilon is None:
        raise BayesreconError(f"--{next(iter(promised)).replace('_', '-')} is for --epsilon: add that, or leave it out")
    if promised and table is not None:
        raise BayesreconError("--table is for --worth; with --epsilon summarise the published draws")
    book = ledger_apart(ledger, out, table, page)
    if promised:
        promised |= {} if unit is None or records is not None else {"unit": unit}
        if args.domain:
            promised["domain"] = parse_domains(args.domain)
    mode = not promised and len(args.release) == 1 and is_table(args.release[0])
    if mode != (out.suffix == ".csv"):
        kinds = "a mode with its covariance is written to .csv" if mode else "draws are written to .nc or .npz"
        raise BayesreconError(f"--out {out}: {kinds}")
    if promised and args.release:
        raise BayesreconError(f"--epsilon does without {args.release[0]}: it needs --model and --data alone")
    opened = None if promised else _mode(args) if mode else _draws(args)
    audited: Audit | None = None
    # The file is complete before its worth is spent, and moved into place afterwards: no release is without its worth.
    with (
        console.progress_bar() as progress,
        as_typed({"draws": "--keep-draws"}),
        nullcontext() if dry_run else staged(out) as temporary,
    ):

        def accept(result: Any) -> "Json":
            nonlocal audited
            progress("auditing the copy", 0.9)
            content, audited, entry = _of_mode(result, out) if mode else _audited(result, out)
            if temporary is not None:
                temporary.write_bytes(content)
            return entry

        sanitised: Sanitised | Guaranteed = cast(Any, run)(
            opened,
            worth=worth,
            records=records if unit is None or records is None else {unit: records},
            model=_model(args) if promised else None,
            data=data,
            draws=keep_draws,
            budget=budget,
            account=account,
            part=part,
            ledger=book,
            dry_run=dry_run,
            accept=accept,
            progress=progress,
            **promised,
        )
    if not dry_run:
        console.wrote(out)
    if table is not None and not dry_run and isinstance(sanitised, Sanitised):
        rows = _table_of(sanitised)
        write_whole(table, lambda temporary: temporary.write_bytes(rows))
        console.wrote(table)
    show: Any = _show if isinstance(sanitised, Sanitised) else _promised
    page = None if dry_run else page
    deliver(sanitised, out=page, plot=None, draw=None, json=args.json, show=lambda r: show(r, audited))


COMMAND = sanitise


def _draws(args: Arguments) -> "Release":
    from bayesrecon.cli import inputs

    names = ("model", "settings", "download", "trusted", "power", "constants")
    return inputs.open_release(args.release, inputs.ReleaseOptions(**{name: args.values[name] for name in names}))


def _mode(args: Arguments) -> "Release":
    from bayesrecon.posteriors.printed.modes import mode_of_table

    (path,) = args.release
    if args.model is None:
        raise BayesreconError(f"{path} is a table of a mode: name its model with --model")
    return mode_of_table(path, _model(args))


def _model(args: Arguments) -> "Model":
    from bayesrecon.cli import inputs, option_values

    if args.model is None:
        raise BayesreconError("name the model with --model")
    settings = inputs.with_constants(option_values.parse_settings(args.settings), args.constants, args.model)
    return inputs.at_power(inputs.load_model(args.model, settings, args.release or ()), args.power)


def _promised(result: "Guaranteed", audited: "Audit | None") -> "list[RenderableType]":
    from bayesrecon.cli.rich_tables import table

    rows = [[name, f"{mean:.4g}", f"{result.sds[name]:.3g}"] for name, mean in result.means.items()]
    shown = table(["parameter", "mean", "sd"], rows, title="the posterior that knows the noise", most=_ROWS)
    spent = (
        f"ledger: all releases of account {result.account} with a guarantee are together epsilon "
        f"{result.spent_epsilon:.4g} at delta {result.mechanism.delta:g} (rho {result.spent_rho:.4g})"
    )
    return [result.headline, shown, spent, *([] if audited is None else [audited.headline]), result.sentence]


def _table_of(result: "Sanitised") -> bytes:
    """Means or a mode with standard deviations and covariance, which hold nothing but these numbers."""
    return result.table().to_csv().encode()


def _of_mode(result: "Sanitised", path: Path) -> "tuple[bytes, None, Json]":
    """The table of a mode, which has no audit, and its entry in the ledger."""
    from bayesrecon.auditing.fix import as_file
    from bayesrecon.auditing.published import entry_of_mode

    with as_file(content := _table_of(result), path.name) as copy:
        return content, None, entry_of_mode(copy, result)


def _audited(result: "Sanitised | Guaranteed", path: Path) -> "tuple[bytes, Audit, Json]":
    """The file, its audit, and its entry in the ledger."""
    from bayesrecon.auditing.audit import audit, released_by
    from bayesrecon.auditing.fix import as_file, audited_copy
    from bayesrecon.auditing.published import entry_of
    from bayesrecon.posteriors.named_draws import named_draws

    release = result.release

    def audit_file(copy: Path) -> "Audit":
        return audit(str(copy), release.model, remedies=False)

    content, audited = audited_copy(named_draws(release).values, path, audit_file, result.attributes)
    with as_file(content, path.name) as copy:
        return content, audited, entry_of(copy, *released_by(str(copy), release.model), release.model, {})


def _account(result: "Sanitised") -> str:
    state = "would be" if result.release is None else "is"
    part = "" if result.part is None else f" for part {result.part}"
    return (
        f"ledger: {result.spent:.12g} of {result.budget:.12g} draws' worth of account {result.account} {state} "
        f"released; {result.left:.12g} {state} left{part}"
    )


def _show(result: "Sanitised", audited: "Audit | None") -> "list[RenderableType]":
    shifts = [] if result.shifts is None else [_shifts(result.shifts)]
    if result.bits is not None and result.bits_of_draws is not None:
        shifts.append(_bits(result.bits, result.bits_of_draws))
    shifts += [_unit_shifts(name, unit_shifts) for name, unit_shifts in (result.units or {}).items()]
    median, quantile, largest = result.typical_shifts
    return [
        result.headline,
        statistics_table(result),
        changes_table(result),
        f"a record that the posterior predicts moves the release by {median:.2g} standard deviations in the median and "
        f"by up to {quantile:.2g} in 95 % of cases; the most influential one moves it by {largest:.2g}: single records "
        "are not hidden",
        result.like_epsilon,
        *shifts,
        *([] if result.spent is None else [_account(result)]),
        *([] if audited is None else [f"audit of the copy: {audited.headline}"]),
        result.sentence,
    ]


def _shifts(shifts: "np.ndarray") -> str:
    import numpy as np

    order = np.argsort(-np.asarray(shifts))[:5]
    most = ", ".join(f"record {i + 1} by {shifts[i]:.2g}" for i in order)
    return f"shifts by your records (do not publish; --page has all): median {np.median(shifts):.2g}; {most}"


def _bits(bits: "np.ndarray", before: "np.ndarray") -> str:
    import numpy as np

    return (
        f"bits that somebody who knows everything else can learn about the response of one of {len(bits)} records (do "
        f"not publish): median {np.median(bits):.2g}, largest {np.max(bits):.2g}; from your draws "
        f"{np.median(before):.2g} and {np.max(before):.2g}"
    )


def _unit_shifts(column: str, shifts: Mapping[object, float]) -> str:
    import numpy as np

    most = sorted(shifts, key=lambda value: -shifts[value])[:5]
    largest = ", ".join(f"{value} by {shifts[value]:.2g}" for value in most)
    median = np.median(list(shifts.values()))
    return f"shifts by all records of one {column} (do not publish): median {median:.2g}; {largest}"


def statistics_table(result: "Sanitised") -> "Table":
    """What the best unbiased attacker can still know of each statistic."""
    from bayesrecon.cli.rich_tables import number, table, verdict

    head = ["statistic", "error, any number of draws", "error, these draws", "equivalent draws", "verdict"]
    rows = [
        [s.name, number(s.scatter, 3), number(s.se, 3), number(s.equivalent_draws, 3), verdict(s.verdict)]
        for s in result.statistics
    ]
    return table(head, rows, title="what the best unbiased attacker can know", most=_ROWS)


def changes_table(result: "Sanitised") -> "Table":
    """What readers notice, the parameters that move most first."""
    from bayesrecon.cli.rich_tables import table

    title = "what it costs readers: root mean square changes, in posterior standard deviations"
    moved = sorted(result.changes, key=lambda c: -max(c.mean, c.sd, c.low, c.high))
    rows = [[c.name, *(f"{v:.2g}" for v in (c.mean, c.sd, c.low, c.high))] for c in moved]
    return table(["parameter", "mean", "sd", "5 %", "95 %"], rows, title=title, most=_ROWS)
