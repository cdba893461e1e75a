"""`bayesrecon fit`: build a posterior, from a table of data or by its name in posteriordb."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict, get_args

import typer

from bayesrecon._version import __version__
from bayesrecon.cli import options
from bayesrecon.cli.command import check_read
from bayesrecon.cli.delivery import check_places, check_suffix
from bayesrecon.errors import BayesreconError, Note

if TYPE_CHECKING:
    import numpy as np
    from rich.table import Table

    from bayesrecon.posteriors.fitting.fitted import NutsRun
    from bayesrecon.posteriors.fitting.nuts import ChainMethod, Convergence
    from bayesrecon.releases import PosteriorDraws


class Sampling(TypedDict):
    """Options of `nuts`."""

    chains: int
    draws: int
    warmup: int
    thinning: int
    target_accept: float
    chain_method: "ChainMethod"


def fit(
    model: Annotated[str, typer.Argument(help="Name of a shipped model, or own.py; without DATA, a posteriordb name.")],
    data: Annotated[
        str | None, typer.Argument(help="Data: .csv, .json or .npz file, or a posteriordb data name.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="netCDF file to write the draws to.")] = None,
    response: Annotated[str | None, typer.Option(help="Response column of a generic regression.")] = None,
    covariates: Annotated[str | None, typer.Option(help="Covariate columns, a,b,c; default all others.")] = None,
    settings: options.Settings = None,
    chains: Annotated[int, typer.Option(help="Number of chains.")] = 4,
    draws: Annotated[
        int | None,
        typer.Option("--draws-per-chain", help="Draws kept per chain; default 1000, for a posteriordb name 2500."),
    ] = None,
    warmup: Annotated[int, typer.Option(help="Warm-up iterations per chain.")] = 1000,
    thin: Annotated[int, typer.Option(help="Keep one draw in this many.")] = 1,
    target_accept: Annotated[
        float | None, typer.Option(help="Target acceptance rate; default 0.8, for a posteriordb name 0.9.")
    ] = None,
    chain_method: Annotated[
        str, typer.Option(help="How chains run: auto, vectorized, parallel or sequential.")
    ] = "auto",
    refresh: Annotated[
        bool, typer.Option(help="For a posteriordb name: sample again even if the cache has the draws.")
    ] = False,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Fit a model with NumPyro NUTS and write the draws, and nothing else, to a netCDF file.

    With only a posteriordb name, the posterior is sampled once and kept in the user's cache directory
    (BAYESRECON_CACHE), where every command finds it by name.
    """
    if out is not None:
        check_suffix(out, (".nc",), "--out")
        check_places({"--out": out}, [model, data or ""])
    check_read({"release": model} if data is None else {"model": model, "data": data}, folders=True)

    from bayesrecon.cli import console
    from bayesrecon.posteriors.fitting.fitted import NutsRun
    from bayesrecon.posteriors.fitting.nuts import check_run, convergence

    method = _chain_method(chain_method)
    if data is None:
        if response or covariates or settings or method != "auto":
            raise BayesreconError("--response, --covariates, --settings and --chain-method need DATA, see --help")
        run = NutsRun(
            seed,
            chains,
            NutsRun.draws if draws is None else draws,
            warmup,
            thin,
            NutsRun.target_accept if target_accept is None else target_accept,
        )
        release = _by_name(model, run, refresh)
    else:
        if out is None:
            raise BayesreconError("--out FILE.nc is needed: draws from data are written to a file")
        accept = target_accept or 0.8
        check_run(chains, 1000 if draws is None else draws, warmup, thin, accept, seed)
        sampling: Sampling = {
            "chains": chains,
            "draws": draws or 1000,
            "warmup": warmup,
            "thinning": thin,
            "target_accept": accept,
            "chain_method": method,
        }
        release = _from_data(model, data, sampling, seed, response, covariates, settings)
    if out is not None:
        from bayesrecon.posteriors.fitting.nuts import save_draws

        length = release.size // chains
        # Without the seed: whoever guesses the data could draw again, and compare.
        save_draws(release, out, {"chains": chains, "draws": length, "warmup": warmup, "thin": thin})
    if data is not None:
        for warning in release.notes:
            console.warn(warning)
    state = convergence(release)
    if json:
        rows = [
            {"name": n, "r_hat": float(r), "ess": float(e)}
            for n, r, e in zip(state.names, state.r_hat, state.ess, strict=True)
        ]
        document = {"version": __version__, "model": release.model.name, "draws": release.size}
        written = {"out": None if out is None else str(out)}
        console.emit_json({**document, **written, "parameters": rows, **_messages(release)})
        return
    console.out.print(_convergence_table(release, state))
    done = "" if out is None else f"wrote {out}; "
    console.say(f"{done}next: bayesrecon recover {model if out is None else out}")


COMMAND = fit


def _messages(release: "PosteriorDraws") -> dict[str, list[str]]:
    return {
        "warnings": [message for message in release.notes if not isinstance(message, Note)],
        "notes": [message for message in release.notes if isinstance(message, Note)],
    }


def _chain_method(name: str) -> "ChainMethod":
    from bayesrecon.posteriors.fitting.nuts import ChainMethod

    for method in get_args(ChainMethod):
        if name == method:
            return method
    raise BayesreconError(f"--chain-method {name}: expected auto, vectorized, parallel or sequential")


def _by_name(name: str, run: "NutsRun", refresh: bool) -> "PosteriorDraws":
    from bayesrecon.cli import console
    from bayesrecon.posteriors.fitting.database import has_reference_draws, open_database, posterior_info
    from bayesrecon.posteriors.fitting.fitted import fitted
    from bayesrecon.posteriors.fitting.programs import served_by

    database = open_database()
    posterior_info(database, name)
    if has_reference_draws(database, name):
        raise BayesreconError(f"posteriordb has reference draws of {name}: there is nothing to sample")
    served = served_by(database, name)
    return fitted(name, served.model, served.records(), run, refresh=refresh, say=console.say)


def _from_data(
    model: str,
    data: str,
    sampling: Sampling,
    seed: int,
    response: str | None,
    covariates: str | None,
    settings: str | None,
) -> "PosteriorDraws":
    from bayesrecon.cli import console, inputs
    from bayesrecon.posteriors.fitting.nuts import check_records, nuts

    target, records = inputs.open_data(model, data, response=response, covariates=covariates, settings=settings)
    records = check_records(target, records)
    count = len(next(iter(records.values())))
    console.say(
        f"NUTS on {target.name}: {count} records, {target.dimension} parameters, {sampling['chains']} chains, "
        f"{_device()}"
    )
    return nuts(target, records, key=seed, **sampling, progress=console.err.is_terminal)


def _device() -> str:
    import jax

    device = jax.devices()[0]
    return f"on {device.platform.upper()}" + (f" ({device.device_kind})" if device.platform != "cpu" else "")


def _convergence_table(release: "PosteriorDraws", state: "Convergence") -> "Table":
    from bayesrecon.cli.rich_tables import table

    columns = zip(state.names, _constrained_values(release).T, state.r_hat, state.ess, strict=True)
    rows = ((k, f"{v.mean():.5g}", f"{v.std():.3g}", f"{r_hat:.3f}", f"{ess:.0f}") for k, v, r_hat, ess in columns)
    return table(["parameter", "mean", "sd", "R-hat", "ESS"], rows, title=f"{release.size} draws", most=40)


def _constrained_values(release: "PosteriorDraws") -> "np.ndarray":
    """Draws as the model states them, `(T, d)`: a scale, not its logarithm. Unconstrained where numbers are not one to
    one, as those of a simplex are not."""
    import jax
    import numpy as np

    from bayesrecon.precision import x64

    model, theta = release.model, np.asarray(release.theta)
    with x64():
        constrained, free = jax.vmap(model.constrain)(theta), jax.vmap(model.split)(theta)
    one_to_one = {p.name: p.shape == p.free_shape for p in model.parameters}
    columns = [
        np.asarray((constrained if one_to_one[p.name] else free)[p.name]).reshape(len(theta), -1)
        for p in model.parameters
    ]
    return np.concatenate(columns, axis=1)
