"""`bayesrecon`: audit, deletion, demo, diagnose, fit, recover, reconstruct, models, posteriors."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bayesrecon import __version__
from bayesrecon.cli.audit import audit
from bayesrecon.cli.deletion import deletion
from bayesrecon.cli.diagnose import diagnose
from bayesrecon.cli.fit import fit
from bayesrecon.cli.options import (
    Coordinates,
    Download,
    Draws,
    Json,
    Known,
    Metric,
    ModelOption,
    Seed,
    Settings,
    Sources,
    Total,
    Unit,
)
from bayesrecon.cli.reconstruct import reconstruct
from bayesrecon.cli.saving import FIGURES, check_suffix, deliver
from bayesrecon.errors import BayesreconError

app = typer.Typer(
    help="What a published posterior or trained parameter gives away about its private training data.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"bayesrecon {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show version.")] = False,
) -> None:
    del version


@app.command()
def recover(
    release: Sources,
    model: ModelOption = None,
    settings: Settings = None,
    draws: Draws = None,
    metric: Metric = "covariance",
    coordinates: Coordinates = "unconstrained",
    known: Known = None,
    unit: Unit = None,
    total: Total = None,
    seed: Seed = 0,
    download: Download = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Save the result (.nc, .json or .csv).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the result (.png, .pdf or .svg).")] = None,
    json: Json = False,
) -> None:
    """Recover statistics of the private data behind a release, with errors.

    Several posteriordb names, or several .nc, .zarr or .npz files, are releases of one data set and are pooled.
    """
    from bayesrecon.attacks.recovery import recover as run
    from bayesrecon.cli import console, inputs, tables

    check_suffix(out, (".nc", ".json", ".csv"), "--out")
    check_suffix(plot, FIGURES, "--plot")
    opened = inputs.open_releases(release, model=model, settings=settings, draws=draws, download=download)
    with console.progress_bar() as progress:
        result = run(
            opened if len(opened) > 1 else opened[0],
            known=inputs.known_fields(known, opened[0].model),
            unit=unit,
            total=total,
            metric=metric,
            coordinates=coordinates,
            key=seed,
            progress=progress,
        )
    deliver(result, out=out, plot=plot, draw="plot_summary", json=json, show=lambda r: [tables.recovery_table(r)])


app.command()(fit)
app.command()(reconstruct)
app.command()(diagnose)
app.command()(audit)
app.command()(deletion)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the plot and the JSON file.")] = Path("."),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a regression to 442 patients, keep only the draws, and recover the patients' statistics from them."""
    from bayesrecon.cli.demo import run_demo

    run_demo(out, seed=seed, json=json)


@app.command()
def models(json: Json = False) -> None:
    """The models that are shipped."""
    from rich.table import Table

    from bayesrecon.cli import console
    from bayesrecon.models import shipped

    entries = list(shipped().values())
    if json:
        console.emit_json([{"name": e.name, "summary": e.summary, "posteriors": list(e.posteriors)} for e in entries])
        return
    table = Table(title=f"{len(entries)} models", title_justify="left")
    for heading in ("model", "what it is", "posteriordb posteriors"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        table.add_row(entry.name, entry.summary, ", ".join(entry.posteriors))
    console.out.print(table)


@app.command()
def posteriors(
    names: Annotated[list[str] | None, typer.Argument(help="With --verdict: these posteriors only.")] = None,
    verdict: Annotated[
        bool, typer.Option("--verdict", help="Attack each posterior that has draws, and score what comes out.")
    ] = False,
    build: Annotated[bool, typer.Option("--build", help="With --verdict: sample the others with NUTS first.")] = False,
    download: Annotated[bool, typer.Option(help="Ask posteriordb's public repository.")] = False,
    json: Json = False,
) -> None:
    """The posteriors of posteriordb, which have reference draws, and which have a shipped model."""
    from rich.table import Table

    from bayesrecon.cli import console
    from bayesrecon.models import shipped
    from bayesrecon.posteriors.database import open_database, posterior_info, posterior_names

    if verdict:
        from bayesrecon.cli.verdicts import show_verdicts

        return show_verdicts(names or [], build=build, json=json)
    if names or build:
        raise BayesreconError("names and --build belong to --verdict")
    database = open_database(download=download)
    covered = {name: entry.name for entry in shipped().values() for name in entry.posteriors}
    rows = []
    for name in sorted(posterior_names(database)):
        info = posterior_info(database, name)
        rows.append(
            {
                "name": name,
                "reference_draws": bool(info.get("reference_posterior_name")),
                "model": covered.get(name),
            }
        )
    if json:
        console.emit_json(rows)
        return
    ready = sum(r["reference_draws"] and r["model"] is not None for r in rows)
    table = Table(
        title=f"{len(rows)} posteriors, {ready} with reference draws and a shipped model", title_justify="left"
    )
    for heading in ("posterior", "reference draws", "shipped model"):
        table.add_column(heading)
    for r in rows:
        table.add_row(r["name"], "yes" if r["reference_draws"] else "", r["model"] or "")
    console.out.print(table)


def main() -> None:
    """Entry point: bad input is one line on stderr and exit code 2."""
    try:
        sys.exit(app(standalone_mode=False) or 0)
    except BayesreconError as error:
        message = str(error)
    except OSError as error:
        message = f"{error.strerror or error}: {error.filename or ''}"
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        # The command line library's own errors: a wrong option, a missing argument.
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()  # type: ignore[attr-defined]
            sys.exit(2)
        if type(error).__name__ == "Abort":
            sys.exit(130)
        if not hasattr(error, "format_message"):
            raise
        message = error.format_message()  # type: ignore[attr-defined]
    print(f"bayesrecon: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201
    sys.exit(2)


if __name__ == "__main__":
    main()
