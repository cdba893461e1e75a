"""Posteriors of posteriordb by name: reference draws if there are any, else draws sampled here."""

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
    """A posterior of posteriordb: its reference draws, or draws sampled here if there are none.

    Draws sampled here (NUTS, 4 chains of 2,500 draws, seed 0) are kept in the user's cache; see
    `bayesrecon.posteriors.fitted`.

    Args:
        name: for example "kidiq-kidscore_momiq".
        draws: use only this number of draws, the last ones. All by default.
        path: a local copy of the database. Defaults to POSTERIOR_DB_PATH.
        download: fetch from the database's public repository instead.
        model: a model to use instead of the shipped one. It requires reference draws.
        build: if False, only reference draws are used, and it is an error if there are none.
        program: use the posterior's own Stan program instead of the shipped model. It requires reference draws.
        say: function that takes one line of text about what is sampled or read from the cache. By default lines are
            written to stderr.

    Raises:
        BayesreconError: there is no such database or posterior; the model is not shipped; there are no readable
            reference draws and no data to sample from; or the number of draws is not available or would cut a chain.
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
