"""`bayesrecon diagnose`: what a release can and cannot give away."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesrecon.cli import options
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from rich.table import Table

    from bayesrecon.disclosure.bounds import Bounds
    from bayesrecon.disclosure.diagnosis import Diagnosis, Eigenfunction
    from bayesrecon.disclosure.planner import Plan
    from bayesrecon.types import Release

_MOST_ROWS = 60


def diagnose(
    release: options.Sources,
    model: options.ModelOption = None,
    settings: options.Settings = None,
    draws: options.Draws = None,
    metric: options.Metric = "covariance",
    coordinates: options.Coordinates = "unconstrained",
    known: options.Known = None,
    unit: options.Unit = None,
    total: options.Total = None,
    order: Annotated[int, typer.Option(help="Highest degree of the features, monomials of the fields.")] = 3,
    seed: options.Seed = 0,
    download: options.Download = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the diagnosis (.json or .csv).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the diagnosis (.png, .pdf or .svg).")] = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="What fewer or rounder draws would still give away, instead.")
    ] = False,
    bounds: Annotated[
        list[str] | None,
        typer.Option("--bounds", help="FIELD=LOW:HIGH, once per unknown field: 99 % bounds on that domain, instead."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Tell what a release determines about its data, and what stays hidden."""
    from bayesrecon.cli import console, inputs
    from bayesrecon.cli.saving import FIGURES, check_suffix, deliver
    from bayesrecon.disclosure.diagnosis import diagnose as run

    check_suffix(out, (".json", ".csv"), "--out")
    check_suffix(plot, FIGURES, "--plot")
    if order < 0:
        raise BayesreconError(f"--order {order}: expected 0 or more")
    opened = inputs.open_release(release, model=model, settings=settings, draws=draws, download=download)
    if plan:
        _plan(opened, seed, out, plot, json)
        return
    if bounds:
        given = inputs.known_fields(known, opened.model)
        _bounds(opened, inputs.parse_intervals(bounds), given, total, seed, out, plot, json)
        return
    with console.progress_bar() as progress:
        result = run(
            opened,
            order=order,
            known=inputs.known_fields(known, opened.model),
            unit=unit,
            total=total,
            metric=metric,
            coordinates=coordinates,
            key=seed,
            progress=progress,
        )
    deliver(
        result,
        out=out,
        plot=plot,
        draw="plot_diagnosis",
        json=json,
        show=lambda r: [headline(r), feature_table(r), eigenfunction_table(r)],
    )


def _plan(release: "Release", seed: int, out: Path | None, plot: Path | None, json: bool) -> None:
    """The release planner: predicted errors and shifts, as a table, a file or JSON."""
    from bayesrecon.cli import console
    from bayesrecon.cli.saving import deliver
    from bayesrecon.disclosure.planner import plan as run

    with console.progress_bar() as progress:
        result = run(release, key=seed, progress=progress)
    deliver(result, out=out, plot=plot, draw="plot_plan", json=json, show=lambda r: [plan_table(r)])


def plan_table(result: "Plan") -> "Table":
    """One row per statistic, one column per number of draws and of digits."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.cli import tables

    frame = result.to_dataframe()
    title = f"{result.release}: standard errors with fewer draws, and shifts when parameters are rounded"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("statistic", no_wrap=True)
    for column in frame.columns:
        table.add_column(column.replace(" @ ", "\n"), justify="right", no_wrap=True)
    for name, row in frame.iterrows():
        table.add_row(escape(str(name)), *(tables.number(v, 3) for v in row))
    return table


def _bounds(
    release: "Release",
    domain: dict[str, tuple[float, float]],
    known: "dict[str, Any] | None",
    total: float | None,
    seed: int,
    out: Path | None,
    plot: Path | None,
    json: bool,
) -> None:
    """Intervals consistent with the release, as a table, a file or JSON."""
    from bayesrecon.cli import console
    from bayesrecon.cli.saving import deliver
    from bayesrecon.disclosure.bounds import bound as run

    with console.progress_bar() as progress:
        result = run(release, domain=domain, known=known, total=total, key=seed, progress=progress)
    deliver(result, out=out, plot=plot, draw="plot_bounds", json=json, show=lambda r: [bounds_table(r)])


def bounds_table(result: "Bounds") -> "Table":
    """One row per statistic: the ends of its interval and their distance."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.cli import tables

    where = ", ".join(f"{k} in {v}" for k, v in result.domain.items())
    title = f"{result.release}: {result.level:.0%} bounds over data sets with {where}"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("statistic", no_wrap=True)
    for heading in ("lower", "upper", "width"):
        table.add_column(heading, justify="right", no_wrap=True)
    for interval in result.intervals:
        ends = (interval.lower, interval.upper, interval.width)
        table.add_row(escape(interval.name), *(tables.number(v) for v in ends))
    return table


def headline(result: "Diagnosis") -> str:
    """Rank, kind of spectrum, what the draws resolve, and the index, in one line."""
    kind = "finite" if result.gap else "decaying spectrum"
    return (
        f"{result.release}: rank {result.rank} ({kind}), {result.resolved} resolved by {result.draws} draws, "
        f"index {result.index:.2f}"
    )


def feature_table(result: "Diagnosis") -> "Table":
    """One row per feature, the first 60."""
    from rich.markup import escape
    from rich.table import Table

    from bayesrecon.cli.tables import STYLE, number, share

    table = Table(title="features of a record, standardised", title_justify="left")
    table.add_column("feature", no_wrap=True)
    for heading in ("order", "visibility", "seen with these draws", "std. error", "floor"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for f in result.features[:_MOST_ROWS]:
        order = str(f.order) if f.order or f.name == "1" else ""
        cells = [f.name, order, share(f.visibility), share(f.seen), number(f.se, 3), number(f.floor, 3)]
        table.add_row(*map(escape, cells), f"[{STYLE[f.verdict]}]{f.verdict}[/]")
    hidden = len(result.features) - _MOST_ROWS
    if hidden > 0:
        table.add_row(f"and {hidden} more: see --json or --out")
    return table


def eigenfunction_table(result: "Diagnosis") -> "Table":
    """The leading eigenfunctions of the kernel, in words."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="leading eigenfunctions of the kernel", title_justify="left")
    table.add_column("", justify="right")
    table.add_column("eigenvalue", justify="right", no_wrap=True)
    table.add_column("noise", justify="right", no_wrap=True)
    table.add_column("mostly", overflow="fold")
    for k, e in enumerate(result.eigenfunctions, 1):
        table.add_row(str(k), f"{e.eigenvalue:.2g}", f"{e.noise:.1g}", escape(in_words(e)))
    return table


def in_words(function: "Eigenfunction") -> str:
    """Shares of its variance: "53 % constant, 39 % dist"."""
    parts = [f"{100 * part:.0f} % {'constant' if name == '1' else name}" for name, part in function.loads]
    return ", ".join(parts) or "no feature above 5 %"
