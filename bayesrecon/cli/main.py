"""`bayesrecon`: audit, demo, diagnose, fit, recover, reconstruct, models, posteriors."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from bayesrecon import __version__
from bayesrecon.cli.audit import audit
from bayesrecon.cli.diagnose import diagnose
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
    from bayesrecon.cli import console, inputs, tables
    from bayesrecon.recovery import recover as run

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


app.command()(reconstruct)
app.command()(diagnose)
app.command()(audit)


@app.command()
def fit(
    model: Annotated[str, typer.Argument(help="Shipped model's name, or file.py:function.")],
    data: Annotated[str, typer.Argument(help="Data: .csv, .json or .npz file, or a posteriordb data name.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="netCDF file to write the draws to.")],
    response: Annotated[str | None, typer.Option(help="Response column of a generic regression.")] = None,
    covariates: Annotated[str | None, typer.Option(help="Covariate columns, a,b,c; default all others.")] = None,
    settings: Settings = None,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    draws: Annotated[int, typer.Option(help="Draws kept per chain.")] = 1000,
    warmup: Annotated[int, typer.Option(help="Warm-up iterations per chain.")] = 1000,
    thin: Annotated[int, typer.Option(help="Keep one draw in so many.")] = 1,
    target_accept: Annotated[float, typer.Option(help="Target acceptance rate.")] = 0.8,
    chain_method: Annotated[str, typer.Option(help="auto, vectorized, parallel or sequential.")] = "auto",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a model with NumPyro NUTS and write the draws, and only the draws, to a netCDF file."""
    from bayesrecon.cli import console, inputs
    from bayesrecon.posteriors.nuts import check_records, check_run, convergence, nuts, save_draws

    check_suffix(out, (".nc",), "--out")
    if chain_method not in ("auto", "vectorized", "parallel", "sequential"):
        raise BayesreconError(f"--chain-method {chain_method}: expected auto, vectorized, parallel or sequential")
    target, records = inputs.open_data(model, data, response=response, covariates=covariates, settings=settings)
    records = check_records(target, records)
    check_run(chains, draws, warmup, thin, target_accept, seed)
    count = len(next(iter(records.values())))
    console.say(f"NUTS on {target.name}: {count} records, {target.dimension} parameters, {chains} chains, {_device()}")
    release = nuts(
        target,
        records,
        key=seed,
        chains=chains,
        draws=draws,
        warmup=warmup,
        thinning=thin,
        target_accept=target_accept,
        chain_method=chain_method,  # type: ignore[arg-type]
        progress=console.err.is_terminal,
    )
    save_draws(release, out, {"seed": seed, "chains": chains, "draws": draws, "warmup": warmup, "thin": thin})
    for warning in release.notes:
        console.warn(warning)
    state = convergence(release)
    if json:
        rows = [
            {"name": n, "r_hat": float(r), "ess": float(e)}
            for n, r, e in zip(state.names, state.r_hat, state.ess, strict=True)
        ]
        document = {"version": __version__, "model": target.name, "draws": release.size, "out": str(out)}
        console.emit_json({**document, "parameters": rows, "warnings": list(release.notes)})
        return
    console.out.print(_convergence_table(release, state))
    console.say(f"wrote {out}; next: bayesrecon recover {out}")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the plot and the JSON file.")] = Path("."),
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Fit a regression to 442 patients, keep only the draws, and recover the patients' statistics from them."""
    from bayesrecon.demo import run_demo

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
    download: Annotated[bool, typer.Option(help="Ask posteriordb's public repository.")] = False,
    json: Json = False,
) -> None:
    """The posteriors of posteriordb, which have reference draws, and which have a shipped model."""
    from rich.table import Table

    from bayesrecon.cli import console
    from bayesrecon.models import shipped
    from bayesrecon.posteriors.database import open_database, posterior_info, posterior_names

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


def _device() -> str:
    import jax

    device = jax.devices()[0]
    return f"on {device.platform.upper()}" + (f" ({device.device_kind})" if device.platform != "cpu" else "")


def _convergence_table(release: Any, state: Any) -> Any:
    import numpy as np
    from rich.markup import escape
    from rich.table import Table

    theta = np.asarray(release.theta)
    table = Table(title=f"{release.size} draws (unconstrained coordinates)", title_justify="left")
    table.add_column("coordinate")
    for heading in ("mean", "sd", "R-hat", "ESS"):
        table.add_column(heading, justify="right")
    for j, name in enumerate(state.names[:40]):
        mean, sd = theta[:, j].mean(), theta[:, j].std()
        table.add_row(escape(name), f"{mean:.5g}", f"{sd:.3g}", f"{state.r_hat[j]:.3f}", f"{state.ess[j]:.0f}")
    if len(state.names) > 40:
        table.add_row(f"and {len(state.names) - 40} more", "", "", "", "")
    return table


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
