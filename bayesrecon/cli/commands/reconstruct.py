"""`bayesrecon reconstruct`: records from a release, by any attack."""

from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bayesrecon.cli import options
from bayesrecon.cli.attacks import attack_of, declared, options_of, options_table
from bayesrecon.cli.command import ENDING, ESTIMATOR, KNOWS, RELEASE, Arguments, command
from bayesrecon.cli.delivery import check_suffix
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from rich.console import RenderableType
    from rich.table import Table

    from bayesrecon.attacks.attack import Attack
    from bayesrecon.results.base import Result
    from bayesrecon.results.reconstruction import Reconstruction

_MOST_ROWS = 60


@command(RELEASE, KNOWS, ESTIMATOR, ENDING, written=(".nc", ".csv", ".json", ".npz"), more=options_of())
def reconstruct(
    args: Arguments,
    release: Annotated[
        list[str] | None,
        typer.Argument(help="posteriordb name, or a file of draws (.nc, .zarr, .npz, CmdStan .csv: one per chain)."),
    ] = None,
    attack: Annotated[
        str | None,
        typer.Option(
            help="Name of the attack. Without RELEASE, its options are listed.",
            show_default=False,
            autocompletion=options.offering(lambda: [attack.name for attack in declared()]),
        ),
    ] = None,
    **chosen: Any,
) -> None:
    """Build records whose posterior matches a release, with a certificate; or recover every record individually.

    If interrupted (Ctrl-C), it reports the best records so far. With --checkpoint, the same command resumes from there.
    """
    from bayesrecon.attacks.reconstruction import reconstruct as run
    from bayesrecon.cli import console, inputs

    if not release:
        if attack is None:
            raise BayesreconError(
                "name a release: a posteriordb name or a file of draws; or --attack NAME for its options"
            )
        console.out.print(options_table(attack))
        return
    check_suffix(chosen.get("checkpoint"), (".npz",), "--checkpoint")
    args.values["release"] = release
    chosen_attack, n = attack_of(attack, chosen, args)
    _check_written(chosen_attack, args)
    opened = inputs.open_release_of(args)
    knows = inputs.knowledge_of(args, opened.model)
    with args.working() as how:
        if chosen_attack is None:
            result = run(opened, n=n, force=args.force, **how, **knows)
        else:
            result = run(opened, attack=chosen_attack, force=args.force, **how, **knows)
    _deliver(args, result)


COMMAND = reconstruct


def _check_written(attack: "Attack[Result] | None", args: Arguments) -> None:
    """Refuse files that there are not of what the attack finds, before the work and not after it."""
    from bayesrecon.results.records import RecordTable

    kind = (RecordTable if args.unit else None) if attack is None else get_type_hints(type(attack).run)["return"]
    if kind is None:
        return
    if args.out is not None and args.out.suffix == ".nc" and not hasattr(kind, "to_dataset"):
        raise BayesreconError(f"--out {args.out}: a {kind.__name__} is written to .csv, .json or .npz")
    if args.plot is not None and not kind.plotted_by:
        raise BayesreconError(f"--plot {args.plot}: a {kind.__name__} cannot be plotted")


def _deliver(args: Arguments, result: "Result") -> None:
    from bayesrecon.results.reconstruction import Reconstruction
    from bayesrecon.results.records import RecordTable

    if isinstance(result, RecordTable):
        from bayesrecon.cli.record_tables import exposure_table, records_headline, records_table

        return args.deliver(
            result, "records.plot_records", lambda r: [records_headline(r), records_table(r), exposure_table(r)]
        )
    if not isinstance(result, Reconstruction):
        return args.deliver(result, None, lambda r: [repr(r)])
    interrupted = ["interrupted: these are the best records so far"] if result.stopped == "interrupted" else []
    args.deliver(
        result,
        "reconstruction.plot_reconstruction",
        lambda r: _tables(r, args.details),
        interrupted,
    )


def _tables(result: "Reconstruction", details: bool) -> "list[RenderableType]":
    if details:
        parts = [gap_line(result), certificate_line(result), ending(result)]
        return [headline(result, details), statistics_table(result), *parts]
    return [headline(result), statistics_table(result), in_short(result), ending(result)]


def headline(result: "Reconstruction", details: bool = False) -> str:
    """What was built; with details, also how."""
    count = len(result.pseudo.weights)
    records = f"{result.release}: {count} weighted record{'s' * (count != 1)}"
    if not details:
        return f"{records} fitted to the release"
    setting = f"metric {result.metric}, {result.coordinates} coordinates"
    return f"{records} by {result.method}, {result.objective} objective ({setting})"


def in_short(result: "Reconstruction") -> str:
    """How near the records are to the best ones, beside what the draws can tell."""
    if result.gap_in_noise is None:
        return gap_line(result)
    if result.gap_in_noise <= 1:
        return "these draws cannot distinguish them from the best possible records (--details states the bound)"
    return (
        f"their distance from the best possible records is {result.gap_in_noise:.2g} times what these draws resolve: "
        "use more iterations or records (--details)"
    )


def statistics_table(result: "Reconstruction") -> "Table":
    """Sum of the weights, weighted means and variances, the first 60."""
    from math import isfinite

    from bayesrecon.cli.rich_tables import number, table

    rows = ((name, number(value if isfinite(value) else None)) for name, value in result.statistics().items())
    return table(["statistic", "of the records"], rows, most=_MOST_ROWS)


def gap_line(result: "Reconstruction") -> str:
    """How far the records can still be from the best ones, and what that means beside the draws' noise."""
    parts = []
    if result.relative_gap is None:
        parts.append(f"gap {result.gap:.2g}")
    else:
        parts.append(f"relative gap {result.relative_gap:.2g}")
    if result.gap_in_noise is not None:
        parts.append(f"{result.gap_in_noise:.2g} times what the draws resolve")
    return ", ".join(parts)


def certificate_line(result: "Reconstruction") -> str:
    """What the gap is measured against: the domain and the mass it was searched on."""
    kind = "tables with one record a row" if result.certificate == "one record a row" else result.certificate
    text = f"certified: distance from the best of all {kind}"
    stated = [f"{name} in {_interval(bounds)}" for name, bounds in result.domain.items()]
    if stated:
        text += f" with {', '.join(stated)}"
    if result.mass is not None and result.certificate != "one record a row":
        text += f", total weight at most {result.mass:.5g}"
    return text


def ending(result: "Reconstruction") -> str:
    """Why the descent ended, and when."""
    last = int(result.trace[-1][0]) if result.trace else 0
    return f"{result.stopped} after {last} iteration{'s' * (last != 1)}, {result.seconds:.1f} s"


def _interval(bounds: "Sequence[npt.ArrayLike]") -> str:
    """`[low, high]`; of a field with several entries, the hull."""
    import numpy as np

    low, high = (np.asarray(bound, float) for bound in bounds)
    return f"[{low.min():.4g}, {high.max():.4g}]"
