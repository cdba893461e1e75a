"""Releases from files of draws in named formats. All go through `from_draws`, which checks the draws."""

from pathlib import Path

from bayesrecon.model import Model
from bayesrecon.posteriors.formats.arviz import read_arviz
from bayesrecon.posteriors.formats.cmdstan import read_cmdstan
from bayesrecon.posteriors.formats.npz import read_npz
from bayesrecon.posteriors.sources import from_draws, stored_model
from bayesrecon.releases import PosteriorDraws


def from_arviz(
    source: object,
    model: Model | None = None,
    *,
    power: float | None = None,
    name: str | None = None,
    trusted: bool = False,
    weights: str | bool = True,
) -> PosteriorDraws:
    """A release from an InferenceData, a DataTree, or the path of a netCDF file or zarr folder.

    `model` may be omitted for files written by `bayesrecon fit`, which name a shipped model. A netCDF file is opened in
    a separate process with limits on time and memory, unless it is `trusted`. `power` and `weights` are as in
    `from_draws`.

    Raises:
        BayesreconError: the source cannot be read or names no model, or `from_draws` refuses the draws.
        MissingExtraError: it is a zarr folder, and zarr is not installed.

    >>> import numpy as np, xarray as xr
    >>> from bayesrecon.models import load
    >>> rng, dims = np.random.default_rng(0), ("chain", "draw", "k")
    >>> values = {"beta": (dims, rng.normal(size=(2, 50, 2))), "sigma": (dims[:2], rng.gamma(5, size=(2, 50)))}
    >>> from_arviz(xr.DataTree.from_dict({"posterior": xr.Dataset(values)}), load("kidscore_momiq")).size
    100
    """
    draws = read_arviz(source, name=name, trusted=trusted)
    return from_draws(draws, model or stored_model(draws), power=power, ignore_unknown=True, weights=weights)


def from_cmdstan(
    source: object, model: Model, *, power: float | None = None, name: str | None = None, weights: str | bool = True
) -> PosteriorDraws:
    """A release from CmdStan CSV files (one path, or one per chain) or a CmdStanPy fit.

    `power` and `weights` are as in `from_draws`.

    Raises:
        BayesreconError: the source cannot be read, or `from_draws` refuses the draws.

    >>> from pathlib import Path
    >>> from bayesrecon.models import load
    >>> _ = Path("fit.csv").write_text("lp__,beta.1,beta.2,sigma\\n-7.1,26,0.6,18\\n-7.3,24,0.7,19\\n")
    >>> from_cmdstan("fit.csv", load("kidscore_momiq")).size
    2
    """
    return from_draws(read_cmdstan(source, name=name), model, power=power, ignore_unknown=True, weights=weights)


def from_npz(
    path: str | Path, model: Model | None = None, *, power: float | None = None, weights: str | bool = True
) -> PosteriorDraws:
    """A release from a NumPy archive of arrays `(chains, draws, *shape)` named like the parameters.

    `power` and `weights` are as in `from_draws`.
    """
    draws = read_npz(path)
    return from_draws(draws, model or stored_model(draws), power=power, weights=weights)
