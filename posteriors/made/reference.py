"""Posteriors of posteriordb by name: reference draws, or draws built here where there are none."""

from collections.abc import Callable
from pathlib import Path

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.made.database import (
    has_reference_draws,
    open_database,
    own_program,
    posterior_info,
    posteriordb_model,
    read_data,
    read_reference_draws,
)
from bayesrecon.posteriors.made.fitted import fitted_posterior
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.releases import PosteriorDraws


def from_posteriordb(
    name: str,
    *,
    draws: int | None = None,
    path: str | Path | None = None,
    download: bool = False,
    model: Model | None = None,
    build: bool = True,
    program: bool = False,
    say: Callable[[str], None] | None = None,
) -> PosteriorDraws:
    """A posterior of posteriordb: its reference draws, or draws built here where there are none.

    What is built (NUTS, 4 chains of 2,500 draws, seed 0) is kept in the user's cache, see
    `bayesrecon.posteriors.fitted`.

    Args:
        name: e.g. "kidiq-kidscore_momiq".
        draws: keep the last so many draws; all by default.
        path: a local copy of the database; default POSTERIOR_DB_PATH.
        download: fetch from the database's public repository instead.
        model: instead of the shipped one; then there have to be reference draws.
        build: False for reference draws only, with an error where there are none.
        program: read the posterior's own Stan program, instead of the shipped model; then there have to be reference
            draws.
        say: takes a line about what is built or read from the cache; lines go to stderr unless given.

    Raises:
        BayesreconError: no such database or posterior, a model that is not shipped, no reference draws that could be
            read and no data to build draws from, or a number of draws that is not there or cuts a chain.
        MissingExtraError: the package posteriordb is not installed.

    >>> from_posteriordb("kidiq-kidscore_momiq", draws=100).theta.shape
    (100, 3)
    """
    database = open_database(path, download=download)
    info = posterior_info(database, name)
    if program and model is not None:
        raise BayesreconError("program=True reads the model; leave model= out")
    model = own_program(database, name)[0] if program else model
    if build and model is None and not has_reference_draws(database, name):
        return fitted_posterior(database, info, draws=draws, say=say)
    table = read_reference_draws(database, name, draws=draws)
    if model is None:
        model = posteriordb_model(info, lambda: read_data(database, name))
    return from_draws(table, model, name=name, ignore_unknown=program)
