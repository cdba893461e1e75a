"""Posteriors without reference draws: sampled with NUTS once, then read from the user's cache."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from bayesrecon._version import __version__
from bayesrecon.arrays import Array, Key
from bayesrecon.errors import BayesreconError
from bayesrecon.files import cache_folder, private_folder, write_whole
from bayesrecon.model import Model, Records
from bayesrecon.posteriors.fitting.database import (
    has_reference_draws,
    open_database,
    posterior_info,
    read_reference_draws,
)
from bayesrecon.posteriors.fitting.nuts import Convergence, check_records, sample
from bayesrecon.posteriors.fitting.programs import OwnProgram, Served, served_by
from bayesrecon.posteriors.formats.npz import read_npz
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.precision import in_float64
from bayesrecon.releases import PosteriorDraws, Release

if TYPE_CHECKING:
    from bayesrecon.posteriors.fitting.database import Database


Say = Callable[[str], None]

_FEW = 20  # largest number of parameters for which draws are thinned
_STUCK = 1.1  # R-hat above which a chain is in another place than the others


@dataclass(frozen=True)
class NutsRun:
    """Settings and seed of a run of NUTS: part of the cache's key."""

    seed: int = 0
    chains: int = 4
    draws: int = 2500
    warmup: int = 1000
    thinning: int = 1
    target_accept: float = 0.9


def run_for(model: Model) -> NutsRun:
    """The default settings for a model.

    With few parameters, iterations are cheap, and only every third is kept. The draws are then nearly independent, like
    published reference draws.
    """
    return NutsRun(thinning=3 if model.dimension <= _FEW else 1)


def fitted(
    name: str,
    model: Model,
    records: Records,
    run: NutsRun | None = None,
    *,
    draws: int | None = None,
    refresh: bool = False,
    say: Say | None = None,
) -> PosteriorDraws:
    """A posterior sampled with NUTS, or read from the user's cache if the same run was made before.

    The key of the cache consists of the posterior's name, the settings and seed of the run, the versions of bayesrecon,
    numpyro and jax, the data and the program. If the chains disagree (R-hat above 1.1), the run is repeated once with
    another seed, and the better one is kept. A run that did not converge is kept as well. Its warnings come with the
    release, also from the cache, and mention a run that was discarded.

    Args:
        name: the posterior's name.
        model, records: the model, and its data `{field: (N, *shape)}`.
        run: settings of NUTS. Defaults to those of `run_for`.
        draws: return only this number of draws, the last ones (`Draws.last`). The cache holds all of them.
        refresh: sample again even if the cache has the run.
        say: function that takes one line of text about the progress, duration and convergence of the run. By default
            lines are written to stderr.

    Returns:
        A `Release` whose notes hold a warning for each sign that the run did not converge.

    Raises:
        BayesreconError: `nuts` refuses the arguments, a file of the cache is damaged, or the cache cannot be written.

    Example:
        >>> from bayesrecon.models import load
        >>> coins = {"n": [10], "k": [5]}
        >>> fitted("coins", load("Rate_1_model"), coins).size  # NUTS  # doctest: +SKIP
        10000
    """
    run, say = run or run_for(model), say or _to_stderr
    records = check_records(model, records)
    path = cache_path(name, model, records, asdict(run))
    if not path.is_file() or refresh:
        _build(path, name, model, records, run, say)
    return _read(path, model, name, draws, say)


def _build(path: Path, name: str, model: Model, records: Records, run: NutsRun, say: Say) -> None:
    """Sample into the cache, twice if the chains disagree."""
    count = len(next(iter(records.values())))
    say(
        f"{name}: no draws yet; NUTS with {run.chains} chains of {run.warmup} + {run.draws * run.thinning} iterations, "
        f"{count} record{'s' * (count != 1)}, {model.dimension} parameters (this is done once)"
    )
    first = _sampled(path, name, model, records, run, run.seed, say)
    if not first.r_hat.max() > _STUCK:
        return
    # With some keys one chain stays in a corner, with others none does.
    say(f"{name}: {first.warnings[0]}; NUTS once more with another key")
    _sampled(path, name, model, records, run, jax.random.fold_in(jax.random.key(run.seed), 1), say, first)


def _sampled(
    path: Path,
    name: str,
    model: Model,
    records: Records,
    run: NutsRun,
    key: Key,
    say: Say,
    previous: Convergence | None = None,
) -> Convergence:
    """Sample, and store the run unless the previous one converged better."""
    start = time.perf_counter()
    release, convergence = sample(
        model,
        records,
        key=key,
        chains=run.chains,
        draws=run.draws,
        warmup=run.warmup,
        thinning=run.thinning,
        target_accept=run.target_accept,
        progress=sys.stderr.isatty(),
        name=name,
    )
    seconds = time.perf_counter() - start
    say(f"{name}: {release.size} draws in {seconds:.0f} s")
    if previous is not None and not convergence.r_hat.max() < previous.r_hat.max():
        return convergence
    warnings = convergence.warnings
    if previous is not None:
        warnings += (f"a run with another key was discarded: {previous.warnings[0]}",)
    attributes = {f"bayesrecon_{k}": v for k, v in {**asdict(run), "seconds": f"{seconds:.1f}"}.items()}
    attributes |= {f"bayesrecon_version_{k}": v for k, v in versions().items()}
    attributes |= {"bayesrecon_quality": convergence.summary, "bayesrecon_divergences": convergence.divergences}
    attributes |= {f"bayesrecon_warning_{i}": w for i, w in enumerate(warnings)}
    store(path, release, attributes)
    return convergence


def _read(path: Path, model: Model, name: str, count: int | None, say: Say) -> PosteriorDraws:
    try:
        draws = read_npz(path, name=name)
    except BayesreconError as error:
        raise BayesreconError(f"{error}; delete this cached file to rebuild it") from None
    quality = draws.attributes.get("bayesrecon_quality", "of unknown quality")
    say(f"{name}: {draws.chains * draws.length} draws from {path}; {quality}")
    warnings = tuple(v for k, v in sorted(draws.attributes.items()) if k.startswith("bayesrecon_warning_"))
    for warning in warnings:
        say(f"{name}: warning: {warning}")
    # The archive has the latents of the program itself, so `prepare` is not needed.
    draws = draws if count is None else draws.last(count)
    release = from_draws(draws, replace(model, prepare=None), name=name)
    return replace(release, model=model, notes=(*release.notes, *warnings))


def _to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def built_file(database: "Database", name: str) -> Path | None:
    """The file in the cache of a posterior's run with default settings; None if there is none."""
    if not any(cache_folder().glob(f"{name.partition('-')[0]}-*.npz")):
        return None  # without reading the program, which takes a second
    try:
        served = served_by(database, name)
        records = check_records(served.model, served.records())
    except BayesreconError:  # no data in this copy, or no model
        return None
    path = cache_path(name, served.model, records, asdict(run_for(served.model)))
    return path if path.is_file() else None


# The user's cache of sampled posteriors: one archive of draws for each run.


def cache_path(name: str, model: Model, records: Records, run: Mapping[str, object]) -> Path:
    """The path of the draws of one run. The file's name has a hash of the data, program, settings and versions.

    Two names of the same posterior share one file, for example those of a centred and a non-centred program.

    Args:
        name: the posterior's name. The part before its first dash begins the file's name. In posteriordb, this part is
            the name of the data.
        model, records: the posterior. The compiled text of the program is hashed, so comments and names in it do not
            matter, but numbers do.
        run: settings of the sampler.
    """
    identity = {
        "run": dict(run),
        "versions": versions(),
        "data": _hash_records(records),
        "program": _hash_program(model, records),
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return cache_folder() / f"{name.partition('-')[0]}-{digest[:16]}.npz"


def versions() -> dict[str, str]:
    """Versions of the packages on which the draws of a seed depend, by package."""
    return {"bayesrecon": __version__, "numpyro": version("numpyro"), "jax": version("jax")}


@in_float64
def store(path: Path, release: Release, attributes: Mapping[str, object]) -> None:
    """Write the draws of a release, in the model's own parameters, as an archive that `from_npz` reads."""
    from bayesrecon.diagnostics import by_chain
    from bayesrecon.posteriors.formats.npz import ATTRIBUTES

    params = jax.jit(jax.vmap(release.model.constrain))(release.theta)
    chain = np.asarray(release.chain)
    arrays: dict[str, Any] = {}
    for p in release.model.parameters:
        values = by_chain(np.asarray(params[p.name]).reshape(release.size, -1), chain)
        arrays[p.name] = values.reshape(*values.shape[:2], *p.shape)
    arrays[ATTRIBUTES] = np.array(json.dumps({k: str(v) for k, v in attributes.items()}))
    try:
        private_folder(path.parent)
        write_whole(path, lambda target: np.savez(target, **arrays))
    except OSError as error:
        raise BayesreconError(
            f"cannot write {path} ({error.strerror}); set BAYESRECON_CACHE to a folder that can be written"
        ) from error


def _hash_records(records: Records) -> str:
    digest = hashlib.sha256()
    for field in sorted(records):
        values = np.ascontiguousarray(records[field])
        digest.update(f"{field} {values.dtype.str} {values.shape}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


@in_float64
def _hash_program(model: Model, records: Records) -> str:
    def log_posterior(theta: Array, batch: Records) -> jax.Array:
        terms = jax.vmap(model.log_lik, (None, 0))(theta, batch)
        return terms.sum() + model.log_prior(theta) + model.log_det(theta)

    two_records = {k: np.asarray(v[:1]).repeat(2, axis=0) for k, v in records.items()}
    traced = jax.jit(log_posterior).trace(np.zeros(model.dimension), two_records)
    # For one platform, so that the text does not depend on the device.
    return hashlib.sha256(traced.lower(lowering_platforms=("cpu",)).as_text().encode()).hexdigest()


# Posteriors of posteriordb by name: reference draws if there are any, else draws sampled with NUTS.


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
