"""posteriordb: named posteriors with data, programs and reference draws, from a local copy or GitHub."""

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.errors import BayesreconError, MissingExtraError, near, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.draws import Draws, assemble
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.json_file import Chains, read_chains, read_json

if TYPE_CHECKING:
    from posteriordb import PosteriorDatabase, PosteriorDatabaseGithub

    Database = PosteriorDatabase | PosteriorDatabaseGithub


_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def open_database(path: str | os.PathLike[str] | None = None, *, download: bool = False) -> "Database":
    """A `posteriordb.PosteriorDatabase`, or a `PosteriorDatabaseGithub` with `download=True`.

    Args:
        path: the folder `posterior_database` of a copy of posteriordb. Defaults to the environment variable
            POSTERIOR_DB_PATH.
        download: whether to list the database on GitHub and to download missing files into `path`, which then defaults
            to POSTERIOR_DB_PATH or the folder that the package posteriordb uses.

    Raises:
        BayesreconError: no path is set, the folder is not a posterior database, or GitHub does not answer.
        MissingExtraError: the package posteriordb is not installed.

    Example:
        >>> "kidiq-kidscore_momiq" in posterior_names(open_database())
        True
    """
    try:
        import posteriordb
    except ImportError as error:
        raise MissingExtraError("posteriordb", "posteriordb") from error
    path = path or os.environ.get("POSTERIOR_DB_PATH") or None
    if download:
        # The package prints as it downloads; standard output belongs to the results.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                github = posteriordb.PosteriorDatabaseGithub
                return github() if path is None else github(str(path))
            except Exception as error:  # without a network the package raises an UnboundLocalError
                raise BayesreconError(
                    "posteriordb cannot be listed on GitHub: no network, or its limit for callers without "
                    "a token in GITHUB_PAT is used up"
                ) from error
    remedy = "set POSTERIOR_DB_PATH to its folder posterior_database, pass a path, or use download=True"
    if path is None:
        raise BayesreconError(f"no copy of posteriordb was found: {remedy}")
    if not (Path(path) / "posteriors").is_dir():
        raise BayesreconError(f"{path} is not a posterior database (no folder 'posteriors' in it): {remedy}")
    return posteriordb.PosteriorDatabase(str(path))


def posterior_names(database: "Database") -> list[str]:
    """The names of all posteriors of the database, sorted."""
    with reading("posteriordb", "a database"):
        return sorted(database.posterior_names())


def posterior_info(database: "Database", name: str) -> Json:
    """The description of a posterior: names of its model, data and reference draws, dimensions, keywords."""
    check_name(name)
    known = posterior_names(database)
    if name not in known:
        raise BayesreconError(
            f"posteriordb has no posterior {name!r}{near(name, known)}; `bayesrecon posteriors` lists them, and a "
            "file is named with its suffix"
        )
    with reading(f"the description of {name}", "JSON"), contextlib.redirect_stdout(sys.stderr):
        info = database.get_posterior_info(name)
    if not isinstance(info, dict):
        raise BayesreconError(f"the description of {name} is not a JSON object")
    return info


def has_reference_draws(database: "Database", name: str) -> bool:
    """Whether the database has reference draws of the posterior, after a download if it downloads."""
    path = _reference_path(database, name)
    return path is not None and is_present(database, path)


def _reference_path(database: "Database", name: str) -> Path | None:
    reference = posterior_info(database, name).get("reference_posterior_name")
    if not reference:
        return None
    check_name(reference)
    with reading(f"the description of {name}", "JSON"):
        return Path(f"{database.get_reference_draws_path(name)}.zip")


def read_reference_draws(database: "Database", name: str, *, draws: int | None = None) -> Draws:
    """The reference draws of a posterior, by parameter.

    Args:
        database: from `open_database`.
        name: the posterior's name.
        draws: number of draws to return, the last ones (`Draws.last`). All by default.

    Returns:
        Draws with arrays `(chains, draws, *shape)`, named after the posterior. JSON's NaN becomes nan.
    """
    path = _reference_path(database, name)
    remedy = "the posterior can be built with `bayesrecon fit`"
    if path is None:
        raise BayesreconError(f"posteriordb has no reference draws for {name}; {remedy}")
    if not is_present(database, path):
        raise BayesreconError(f"the reference draws of {name} are not in this copy of posteriordb; {remedy}")
    with reading(path.name, "zipped JSON"):
        result = _draws(path, read_chains(path, trusted=True), name)
    return result if draws is None else result.last(draws)


def read_draws_file(path: Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws from a file in posteriordb's layout: `.json.zip`, or the `.json` in it.

    Raises:
        BayesreconError: the file does not exist, is damaged or has another layout.
    """
    with reading(path.name, "JSON"):
        chains = asked(read_chains, path, trusted, trusted=trusted)
        return _draws(path, chains, name or path.name.split(".")[0])


def _draws(path: Path, chains: Chains, name: str) -> Draws:
    with reading(path.name, "reference draws"):
        columns = {key: chains["values"][:, :, k] for k, key in enumerate(chains["names"])}
        return Draws(assemble(columns), name=name)


def read_data(database: "Database", name: str) -> Json:
    """The data of a posterior, as the JSON object that Stan reads.

    Args:
        database: from `open_database`.
        name: name of the posterior, or of the data.

    Raises:
        BayesreconError: the name is unknown, the data are not in this copy, or the file is damaged.
    """
    check_name(name)
    with reading("posteriordb", "a database"):
        datasets = sorted(database.dataset_names())
    posteriors = posterior_names(database)
    if name not in datasets and name not in posteriors:
        raise BayesreconError(f"posteriordb has no posterior or data {name!r}{near(name, posteriors + datasets)}")
    data = name if name in datasets else posterior_info(database, name).get("data_name")
    check_name(data)
    with reading(f"the description of the data {data}", "JSON"), contextlib.redirect_stdout(sys.stderr):
        try:
            path = Path(database.get_dataset_path(data))
        except (FileNotFoundError, KeyError):
            path = None
        if path is not None and not is_inside(database, path):
            raise BayesreconError(f"the description of the data {data} points outside the database")
    if path is None or not is_present(database, path):
        raise BayesreconError(f"the data {data} are not in this copy of posteriordb")
    with reading(path.name, "zipped JSON"):
        content = read_json(path, trusted=True)
    if not isinstance(content, dict):
        raise BayesreconError(f"{path.name}: the data are not a JSON object")
    return content


def check_name(name: object) -> None:
    """Refuse a name that could lead out of the database when it becomes part of a path."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name or name == ".":
        raise BayesreconError(f"{str(name)[:80]!r} is not a name (letters, digits, '_', '.' and '-' only)")


def is_inside(database: "Database", path: Path) -> bool:
    """Whether the path is in the folder of the database."""
    # Links are not resolved: in the copies of some archiving tools every file is a link to a place outside.
    return Path(os.path.abspath(path)).is_relative_to(os.path.abspath(database.path))


def is_present(database: "Database", path: Path) -> bool:
    """Whether the file exists. A database that downloads fetches it first."""
    if path.is_file():
        return True
    # posteriordb 0.2 fetches data and programs automatically but not reference draws.
    link = getattr(database, "_links", {}).get(path)
    if link is None:
        return False
    from posteriordb.posterior_database_github import download_file

    with reading(path.name, "a download"), contextlib.redirect_stdout(sys.stderr):
        download_file(link["download_url"], path)
    return path.is_file()
