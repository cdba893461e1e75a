"""Releases from anything that holds draws or a fit, by the reader that recognises it."""

import math
import os
from dataclasses import replace
from pathlib import Path

from bayesrecon.discovery import discover
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.conversion import model_of
from bayesrecon.models.descriptions import is_program
from bayesrecon.models.power import tempered
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats import read_draws, suffix_of, suffixes
from bayesrecon.posteriors.sources import dirac, from_draws, stored_model
from bayesrecon.releases import Release


def release_of(
    source: object,
    model: object = None,
    *,
    power: float | None = None,
    draws: int | None = None,
    trusted: bool = False,
    weights: str | bool = True,
) -> Release:
    """A release from a release, a trained parameter (`Trained`), or anything that holds draws or a fit.

    Args:
        source: what to read. Draws: a path, several CmdStan paths, an InferenceData or DataTree, a CmdStanPy fit, a
            NumPyro MCMC, a sampler of emcee, a result of bilby, a DataFrame with `.chain` and `.draw`, or a dictionary
            of arrays `(chains, draws, *shape)`. Fits: of scikit-learn or statsmodels, or the path or DataFrame of a
            table with a regression's estimates and standard errors. Files of draws of more than 256 MiB are read as
            `from_file` does if `model` is given.
        model: the model of the draws, in any form that `models.model_of` accepts: a `Model`, the name of a shipped
            model, a PyMC or Bambi model, or the path of a Stan program, whose sizes follow from the draws. For a table
            "ols", "logit" or "poisson". Fits, and files written by `bayesrecon fit`, have their own model.
        power: power of the likelihood, if the posterior is tempered.
        draws: use only this number of draws, the last ones.
        trusted: the file is your own and is read without limits.
        weights: weights of the draws, as in `posteriors.from_draws`.

    Raises:
        BayesreconError: the source cannot be read, or the draws do not belong to the model.
        MissingExtraError: the format needs an extra that is not installed.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> values = {"beta": rng.normal(size=(2, 50, 2)), "sigma": rng.gamma(5, size=(2, 50))}
    >>> release_of(values, "kidscore_momiq").size
    100
    """
    source = getattr(source, "release", source)  # of a `Trained`
    if isinstance(source, Release):
        if model is not None and model is not source.model:
            raise BayesreconError(f"{source.name} is a release with its own model; omit model=")
        if power is not None:
            raise BayesreconError(f"{source.name} is a release with its own power; omit power=")
        return source
    library = type(source).__module__.partition(".")[0]
    for name, read in discover("bayesrecon.posteriors", "FIT"):
        if library == name:
            if model is not None:
                raise BayesreconError(f"a fit of {name} has its own model; omit model=")
            if power is not None:
                raise BayesreconError(f"power= does not apply to a fit of {name}: its likelihood is not tempered")
            return read(source)
    for read in discover("bayesrecon.posteriors", "SOURCE"):
        if (release := read(source, model, power)) is not None:
            return release
    if model is None and not isinstance(source, str | os.PathLike | list | tuple) and not hasattr(source, "attrs"):
        raise BayesreconError("expected a release (see bayesrecon.posteriors), or draws with their model=")
    draws_model = None if model is None else model_for(model, source, trusted)
    release = _read(source, draws_model, draws, trusted, weights)
    if power is None:
        return release
    return replace(release, model=tempered(release.model, power))


def model_for(model: object, source: object, trusted: bool = False) -> Model:
    """Like `models.model_of`. The sizes of a Stan program are taken from the draws of the source."""
    return model_of(model, read_draws(source, trusted=trusted).shapes if is_program(model) else None)


def _read(
    source: object,
    model: Model | None,
    draws: int | None,
    trusted: bool,
    weights: str | bool,
) -> Release:
    if model is not None and draws is None and weights is True:
        for read in discover("bayesrecon.posteriors", "LARGE"):
            if (release := read(source, model, trusted)) is not None:
                return release
    table = read_draws(source, trusted=trusted)
    if draws is not None:
        table = table.last(draws)
    if table.attributes.get("bayesrecon_temperature") == "0":  # written by save_trained
        values = {k: v[0, 0] for k, v in table.values.items()}
        try:
            tolerance = float(table.attributes.get("bayesrecon_tolerance", "0"))
        except ValueError:
            tolerance = math.inf
        return dirac(model or stored_model(table), values, tolerance=tolerance, name=table.name)
    paths = source if isinstance(source, list | tuple) else [source]
    strict = isinstance(source, dict | Draws) or str(paths[0]).endswith(".npz")
    return from_draws(table, model or stored_model(table), ignore_unknown=not strict, weights=weights)


def is_fit(source: object) -> bool:
    """Whether the object comes from a library whose fits can be read."""
    library = type(source).__module__.partition(".")[0]
    return any(library == name for name, _ in discover("bayesrecon.posteriors", "FIT"))


def is_file(source: str | os.PathLike[str]) -> bool:
    """Whether a text is the path of a file of draws rather than the name of a posterior."""
    if Path(source).exists() or not Path(source).suffix:
        return Path(source).exists()
    return suffix_of(source) in suffixes()


def releases_of(source: object, model: object = None) -> Release | list[Release]:
    """Like `release_of`. A list or tuple of anything but paths is a list of several releases of one data set."""
    if isinstance(source, list | tuple) and not hasattr(source, "release"):
        if not source:
            raise BayesreconError("the list of releases is empty")
        if not all(isinstance(s, str | os.PathLike) for s in source):
            return [release_of(s, model) for s in source]
    return release_of(source, model)
