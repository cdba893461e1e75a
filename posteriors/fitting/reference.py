"""Posteriors of posteriordb by name: reference draws if there are any, else draws sampled with NUTS."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records
from bayesrecon.posteriors.fitting.database import (
    has_reference_draws,
    open_database,
    posterior_info,
    read_reference_draws,
)
from bayesrecon.posteriors.fitting.fitted import fitted
from bayesrecon.posteriors.fitting.programs import OwnProgram, Served, served_by
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.releases import PosteriorDraws

if TYPE_CHECKING:
    from bayesrecon.posteriors.fitting.database import Database


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

    The model is the shipped one, or the posterior's own Stan program if none is shipped.

    Draws sampled here (NUTS, 4 chains of 2,500 draws, seed 0) are kept in the user's cache; see
    `bayesrecon.posteriors.fitted`.

    Args:
        name: for example "kidiq-kidscore_momiq".
        draws: number of draws to use, the last ones. All by default.
        path: a local copy of the database. Defaults to POSTERIOR_DB_PATH.
        download: whether to download missing files from the database's public repository.
        model: a model to use instead of the shipped one. It requires reference draws.
        build: if False, only reference draws are used, and it is an error if there are none.
        program: whether to use the posterior's own Stan program even if a model is shipped.
        say: function that takes one line of text about what is sampled or read from the cache. By default lines are
            written to stderr.

    Raises:
        BayesreconError: there is no such database or posterior; no model is shipped, and the Stan program cannot be
            used; there are no readable reference draws and no data to sample from; or the number of draws is not
            available or would cut a chain.
        MissingExtraError: the package posteriordb is not installed.

    >>> from_posteriordb("kidiq-kidscore_momiq", draws=100).theta.shape
    (100, 3)
    """
    database = open_database(path, download=download)
    posterior_info(database, name)
    if program and model is not None:
        raise BayesreconError("program=True supplies the model; omit model=")
    if model is not None:
        return from_draws(read_reference_draws(database, name, draws=draws), model, name=name)
    if not build and not has_reference_draws(database, name):
        read_reference_draws(database, name)  # raises an error that says what is missing, before a program is read
    return released(database, served_by(database, name, program=program), draws=draws, build=build, say=say)


def released(
    database: "Database",
    served: Served,
    *,
    draws: int | None = None,
    build: bool = True,
    say: Callable[[str], None] | None = None,
) -> PosteriorDraws:
    """Like `from_posteriordb`, for a posterior whose model has been read."""
    name = served.posterior
    if build and not has_reference_draws(database, name):
        return fitted(name, served.model, _records(served), draws=draws, say=say)
    reference = read_reference_draws(database, name, draws=draws)
    return from_draws(reference, served.model, name=name, ignore_unknown=isinstance(served, OwnProgram))


def _records(served: Served) -> Records:
    try:
        return served.records()
    except BayesreconError as error:
        raise BayesreconError(
            f"the reference draws of {served.posterior} are not in this copy of posteriordb, nor can they be sampled: "
            f"{error}"
        ) from None
