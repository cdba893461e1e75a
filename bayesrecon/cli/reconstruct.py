"""`bayesrecon reconstruct`: weighted records that give the release's posterior."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesrecon.cli import options
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from rich.table import Table

    from bayesrecon.attacks.pseudodata.adam import Slicing
    from bayesrecon.results.reconstruction import Reconstruction

_MOST_ROWS = 60
_SLICES = 10


def reconstruct(
    release: options.Sources,
    n: Annotated[int | None, typer.Option("-n", "--n", help="Number of weighted records; default 200.")] = None,
    method: Annotated[str, typer.Option(help="newton, or adam (the published recipe, slow).")] = "newton",
    objective: Annotated[
        str | None, typer.Option(help="exact or sliced; default: exact, sliced for adam.", show_default=False)
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="located or published; default: located, published for adam.", show_default=False)
    ] = None,
    slices: Annotated[
        int | None, typer.Option(help=f"Directions per draw of the sliced objective; default {_SLICES}.")
    ] = None,
    slice_law: Annotated[
        str | None, typer.Option(help="Their law: normal or rademacher; default normal.", show_default=False)
    ] = None,
    fixed_slices: Annotated[
        bool, typer.Option("--fixed-slices", help="adam: the same directions at every step, as newton has them.")
    ] = False,
    reduced: Annotated[
        bool, typer.Option("--reduced/--no-reduced", help="adam: leave the score's square unsliced, or slice it too.")
    ] = True,
    steps: Annotated[int | None, typer.Option(help="Most steps; default 300, 20,000 for adam.")] = None,
    rate: Annotated[float, typer.Option(help="Learning rate of adam.")] = 1e-3,
    tolerance: Annotated[float, typer.Option(help="Relative gap at which newton stops.")] = 1e-10,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Write progress to this .npz file; resume from it where it exists.")
    ] = None,
    model: options.ModelOption = None,
    settings: options.Settings = None,
    draws: options.Draws = None,
    metric: Annotated[str | None, typer.Option(help="covariance or identity; default: the method's.")] = None,
    coordinates: Annotated[
        str | None, typer.Option(help="unconstrained or constrained; default: the method's.", show_default=False)
    ] = None,
    known: options.Known = None,
    unit: Annotated[
        str | None, typer.Option(help="Known field, or fields a,b, that name a record: recover every record by itself.")
    ] = None,
    total: options.Total = None,
    bounds: Annotated[
        list[str] | None, typer.Option("--bounds", help="FIELD=LOW:HIGH, once per field: where its values lie.")
    ] = None,
    seed: options.Seed = 0,
    download: options.Download = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Save the records: .csv, .nc with trace and settings, or .json summary."),
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw records and traces (.png, .pdf or .svg).")] = None,
    json: options.Json = False,
) -> None:
    """Build weighted records whose posterior matches a release, and certify how well.

    Interrupted (Ctrl-C), it reports the best records so far; with --checkpoint, the same command goes on from there.
    """
    from bayesrecon.cli import console, inputs
    from bayesrecon.cli.saving import FIGURES, check_suffix, deliver

    check_suffix(out, (".nc", ".csv", ".json"), "--out")
    check_suffix(plot, FIGURES, "--plot")
    check_suffix(checkpoint, (".npz",), "--checkpoint")
    if method not in ("newton", "adam"):
        raise BayesreconError(f"--method {method}: expected newton or adam")
    if start not in (None, "located", "published"):
        raise BayesreconError(f"--start {start}: expected located or published")
    if unit and out is not None and out.suffix == ".nc":
        raise BayesreconError(f"--out {out}: records one by one are written to .csv or .json")
    slicing = _slicing(method, objective, slices, slice_law, fixed_slices, reduced)
    within = inputs.parse_intervals(bounds or ())

    from bayesrecon.attacks.reconstruction import reconstruct as run
    from bayesrecon.results.records import RecordTable

    opened = inputs.open_release(release, model=model, settings=settings, draws=draws, download=download)
    with console.progress_bar() as progress:
        result: Any = run(
            opened,
            n=n,
            objective=objective,
            method=method,
            start=start,
            slicing=slicing,
            known=inputs.known_fields(known, opened.model),
            unit=tuple(unit.split(",")) if unit else None,
            total=total,
            bounds=within or None,
            metric=metric,
            coordinates=coordinates,
            tolerance=tolerance,
            steps=steps,
            rate=rate,
            checkpoint=checkpoint,
            key=seed,
            progress=progress,
        )
    if isinstance(result, RecordTable):
        from bayesrecon.cli.records import exposure_table, records_headline, records_table

        show = lambda r: [records_headline(r), records_table(r), exposure_table(r)]  # noqa: E731
        return deliver(result, out=out, plot=plot, draw="plot_records", json=json, show=show)
    interrupted = ["interrupted: these are the best records so far"] if result.stopped == "interrupted" else []
    deliver(
        result,
        out=out,
        plot=plot,
        draw="plot_reconstruction",
        json=json,
        show=lambda r: [headline(r), statistics_table(r), gap_line(r), certificate_line(r), ending(r)],
        notes=interrupted,
    )


def _slicing(
    method: str, objective: str | None, slices: int | None, law: str | None, fixed: bool, reduced: bool
) -> "Slicing | None":
    """How the objective is sliced; None where it is not. Options that would do nothing are refused."""
    adam = method == "adam"
    given = {"--slices": slices is not None, "--slice-law": law is not None}
    given |= {"--fixed-slices": fixed, "--no-reduced": not reduced}
    stated = [option for option, present in given.items() if present]
    if (objective or ("sliced" if adam else "exact")) != "sliced":
        if stated:
            raise BayesreconError(f"{stated[0]} is for the sliced objective: add --objective sliced")
        return None
    if not reduced and not adam:
        raise BayesreconError("--no-reduced needs --method adam")
    from bayesrecon.attacks.pseudodata.adam import Slicing

    count = _SLICES if slices is None else slices
    return Slicing(count, law or "normal", adam and not fixed, reduced)  # type: ignore[arg-type]


def headline(result: "Reconstruction") -> str:
    """What was built, and how."""
    count = len(result.pseudo.weights)
    return (
        f"{result.release}: {count} weighted record{'s' * (count != 1)} by {result.method}, "
        f"{result.objective} objective (metric {result.metric}, {result.coordinates} coordinates)"
    )


def statistics_table(result: "Reconstruction") -> "Table":
    """Sum of the weights, weighted means and variances, the first 60."""
    from math import isfinite

    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.cli.tables import number

    found = result.statistics()
    table = Table()
    table.add_column("statistic", no_wrap=True)
    table.add_column("of the records", justify="right", no_wrap=True)
    for name, value in list(found.items())[:_MOST_ROWS]:
        table.add_row(escape(name), number(value if isfinite(value) else None))
    if len(found) > _MOST_ROWS:
        table.add_row(f"and {len(found) - _MOST_ROWS} more: see --json")
    return table


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
    stated = [f"{name} in {_interval(ends)}" for name, ends in result.domain.items()]
    if stated:
        text += f" with {', '.join(stated)}"
    if result.mass is not None and result.certificate != "one record a row":
        text += f", total weight at most {result.mass:.5g}"
    return text


def ending(result: "Reconstruction") -> str:
    """Why the descent ended, and when."""
    last = int(result.trace[-1][0]) if result.trace else 0
    return f"{result.stopped} after {last} iteration{'s' * (last != 1)}, {result.seconds:.1f} s"


def _interval(ends: Any) -> str:
    """`[low, high]`; of a field with several entries, the hull."""
    import numpy as np

    low, high = (np.asarray(end, float) for end in ends)
    return f"[{low.min():.4g}, {high.max():.4g}]"
