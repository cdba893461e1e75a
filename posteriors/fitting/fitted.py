"""Posteriors without reference draws: sampled with NUTS once, then read from the user's cache."""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.arrays import Key
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records
from bayesrecon.posteriors.fitting.cache import cache_folder, cache_path, store, versions
from bayesrecon.posteriors.fitting.nuts import Convergence, check_records, sample
from bayesrecon.posteriors.fitting.programs import served_by
from bayesrecon.posteriors.formats.npz import read_npz
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.releases import PosteriorDraws

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
    import jax

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
