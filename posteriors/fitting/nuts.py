"""Posterior draws by NumPyro's NUTS from a model and its data, on the device that JAX uses."""

import math
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from bayesrecon.arrays import Array, Key
from bayesrecon.diagnostics import effective_sample_size, rank_normalised, split_r_hat
from bayesrecon.divergence.score import gradients, total_score
from bayesrecon.domains import records_in
from bayesrecon.errors import BayesreconError
from bayesrecon.knowledge import check_knowledge
from bayesrecon.model import Identity, Model, Records
from bayesrecon.posteriors.named_draws import named_draws
from bayesrecon.posteriors.sources import from_draws
from bayesrecon.precision import in_float64
from bayesrecon.releases import PosteriorDraws, Release, TrainedParameter
from bayesrecon.running.compiled import caching

if TYPE_CHECKING:
    from numpyro.infer.hmc import HMCState


# Chains of NUTS: NumPyro's transition in two compiled programs, one that starts a chain and one that continues it.
#
# Warm-up and draws share a program, for any number of draws. The records are arguments of the programs, so other
# records of the same shapes need no new compilation.


ChainMethod = Literal["auto", "vectorized", "parallel", "sequential"]

BLOCK = 100
"""Draws per call of a program: the progress is reported often, and the cost of a call is negligible."""

_TRIES = 100  # largest number of starting points that are tried for a chain, as in NumPyro
_REMEMBERED = 8  # pairs of programs


@dataclass(frozen=True)
class Settings:
    """Settings of the compiled programs, besides the model and the shapes of its records.

    Attributes:
        warmup: number of warm-up iterations.
        target_accept: mean acceptance rate for which the step size is adapted.
        max_tree_depth: limit of doublings of a trajectory.
        dense: whether the mass matrix is dense instead of diagonal.
    """

    warmup: int
    target_accept: float
    max_tree_depth: int
    dense: bool


def sampled(
    model: Model,
    records: Records,
    settings: Settings,
    rng: np.random.Generator,
    *,
    chains: int,
    draws: int,
    thinning: int,
    method: ChainMethod,
    report_progress: Callable[[float], None],
    starts: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    """Unconstrained draws `(chains, draws, d)`, and the number of divergent transitions after warm-up.

    Each chain starts at a random point of `[-1, 1]^d`, or at one of `starts`, where density and gradient are finite.

    Args:
        method: "vectorized" advances all chains together, "sequential" runs one after the other, and "parallel" runs
            each in a thread, distributed over the devices. "auto" is "vectorized" on a single accelerator, else
            "parallel".
        report_progress: called with the completed fraction.
        starts: `(S, d)`, starting points.
    """
    devices = jax.local_devices()
    if method == "auto":
        method = "vectorized" if len(devices) == 1 and devices[0].platform != "cpu" else "parallel"
    together = method == "vectorized"
    seeds = rng.integers(2**32, size=chains, dtype=np.uint32)
    groups = [seeds] if together else list(seeds)
    used_devices = devices if method == "parallel" else devices[:1]
    candidates = partial(_candidate_starts, model, starts, rng)
    copies = [jax.device_put(records, device) for device in used_devices[: len(groups)]]
    group_records = [copies[i % len(copies)] for i in range(len(groups))]
    with caching():
        start, walk = _programs(model, settings, together)
        states = [
            _first_state(model, start, seed, candidates, copy) for seed, copy in zip(groups, group_records, strict=True)
        ]
        for state, copy in zip(states, copies, strict=False):
            walk(state, copy, 0, 1)  # compiles here, once for each device, instead of in every thread

    @in_float64  # each thread needs its own scope
    def advanced(count: int, thin: int, state: "HMCState", copy: Records) -> "tuple[HMCState, np.ndarray, int]":
        state, theta, diverged = walk(state, copy, count, thin)
        return state, np.asarray(theta)[..., :count, :], int(np.asarray(diverged).sum())

    blocks, divergences = [], 0
    with ThreadPoolExecutor(len(groups) if method == "parallel" else 1) as threads:
        for count, thin, done in blocks_of(settings.warmup, draws, thinning):
            results = threads.map(partial(advanced, count, thin), states, group_records)
            states, thetas, diverged = zip(*results, strict=True)
            if done > settings.warmup:
                blocks.append(np.concatenate([theta.reshape(-1, *theta.shape[-2:]) for theta in thetas]))
                divergences += sum(diverged)
            report_progress(done / (settings.warmup + draws * thinning))
    return np.concatenate(blocks, axis=1), divergences


def blocks_of(warmup: int, draws: int, thinning: int) -> Iterator[tuple[int, int, int]]:
    """Blocks `(count, thin, done)`: states to keep, iterations per state, and iterations completed afterwards."""
    done = 0
    for total, thin in ((warmup, 1), (draws, thinning)):
        for begin in range(0, total, BLOCK):
            count = min(BLOCK, total - begin)
            done += count * thin
            yield count, thin, done


def _candidate_starts(
    model: Model, starts: np.ndarray | None, rng: np.random.Generator, shape: tuple[int, ...]
) -> np.ndarray:
    """Candidate starting points of chains, `(*shape, d)`."""
    return rng.uniform(-1, 1, (*shape, model.dimension)) if starts is None else rng.choice(starts, shape)


def _first_state(
    model: Model,
    start: "Start",
    seed: np.ndarray,
    candidates: Callable[[tuple[int, ...]], np.ndarray],
    records: Records,
) -> "HMCState":
    """The first state of a chain, or of several together."""
    theta = candidates(np.shape(seed))
    for _ in range(_TRIES):
        state, finite = start(seed, theta, records)
        finite = np.asarray(finite)
        if finite.all():
            return state
        theta = np.where(finite[..., None], theta, candidates(np.shape(seed)))
    raise BayesreconError(
        f"{model.name}: NUTS finds no starting point where the density is finite; "
        "check that the records are possible under the model, or try another key"
    )


class Start(Protocol):
    """The program that starts a chain, or several together."""

    def __call__(self, seed: Array, theta: Array, records: Records, /) -> "tuple[HMCState, jax.Array]":
        """The first state, and whether density and gradient are finite at `theta`."""
        ...


class ChainProgram(Protocol):
    """The program that continues a chain, or several together."""

    def __call__(
        self, state: "HMCState", records: Records, count: int, thin: int, /
    ) -> "tuple[HMCState, jax.Array, jax.Array]":
        """The last state, draws `(..., BLOCK, d)` of which the first `count` are set, and the number of divergences."""
        ...


@lru_cache(_REMEMBERED)
def _programs(model: Model, settings: Settings, together: bool) -> "tuple[Start, ChainProgram]":
    """The programs that start and continue chains.

    `walk` keeps `count` states, at most a block of them, one in `thin`. NumPyro's transition adapts during the warm-up
    that `start` has set, so `start` must be traced first.
    """
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import ParamInfo

    def potential(**records: Array) -> Callable[[Array], jax.Array]:
        return lambda theta: -_log_density(model, theta, records)

    initial, transition = hmc(potential_fn_gen=potential, algo="NUTS")

    def start(seed: Array, theta: Array, records: Records) -> "tuple[HMCState, jax.Array]":
        value, gradient = _value_and_gradient(potential(**records), theta, model.forward)
        state = initial(
            ParamInfo(theta, value, gradient),
            settings.warmup,
            dense_mass=settings.dense,
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            forward_mode_differentiation=model.forward,
            model_kwargs=records,
            rng_key=jax.random.key(seed),
        )
        return state, jnp.isfinite(value) & jnp.isfinite(gradient).all()

    def walk(state: "HMCState", records: Records, count: int, thin: int) -> "tuple[HMCState, jax.Array, jax.Array]":
        def step(
            i: jax.Array, carry: "tuple[HMCState, jax.Array, jax.Array]"
        ) -> "tuple[HMCState, jax.Array, jax.Array]":
            state, theta, divergences = carry
            state = transition(state, model_kwargs=records)
            return state, theta.at[i // thin].set(state.z), divergences + state.diverging

        empty = jnp.zeros((BLOCK, model.dimension)), jnp.zeros((), int)
        return jax.lax.fori_loop(0, count * thin, step, (state, *empty))

    if together:
        return jax.jit(jax.vmap(start, (0, 0, None))), jax.jit(jax.vmap(walk, (0, None, None, None)))
    return jax.jit(start), jax.jit(walk)


def _log_density(model: Model, theta: Array, records: Records) -> jax.Array:
    """`log p(theta, records)` at one unconstrained vector, up to a constant."""
    terms = jax.vmap(model.log_lik, (None, 0))(theta, records)
    return jnp.sum(terms) + model.log_prior(theta) + model.log_det(theta)


def _value_and_gradient(
    function: Callable[[Array], jax.Array], theta: Array, forward: bool
) -> tuple[jax.Array, jax.Array]:
    return (function(theta), jax.jacfwd(function)(theta)) if forward else jax.value_and_grad(function)(theta)


DENSE = 300
"""Dimension up to which the mass matrix is dense: a common mean is strongly correlated with well-known units."""


@dataclass(frozen=True)
class Convergence:
    """Convergence diagnostics of a NUTS run.

    Attributes:
        names: `(d,)` names of the coordinates.
        r_hat, ess: `(d,)` split R-hat and bulk effective sample size of each coordinate, both of rank-normalised draws
            (Vehtari et al. 2021, equation 14).
        divergences: number of divergent transitions.
    """

    names: tuple[str, ...]
    r_hat: np.ndarray
    ess: np.ndarray
    divergences: int

    @property
    def summary(self) -> str:
        """The diagnostics in one line."""
        return (
            f"largest R-hat {self.r_hat.max():.3f}, smallest bulk ESS {self.ess.min():.0f}, "
            f"{self.divergences} divergences"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each sign that the run did not converge."""
        result = []
        worst = int(self.r_hat.argmax())
        if not self.r_hat[worst] <= 1.01:
            result.append(
                f"NUTS did not converge: R-hat of {self.names[worst]} is {self.r_hat[worst]:.3f} (above 1.01)"
            )
        least = int(self.ess.argmin())
        if self.ess[least] < 400:
            result.append(f"few effective draws: {self.names[least]} has {self.ess[least]:.0f} (below 400)")
        if self.divergences:
            result.append(f"{self.divergences} divergent transitions: raise target_accept or reparametrise")
        return tuple(result)


def convergence(release: PosteriorDraws, divergences: int = 0) -> Convergence:
    """R-hat and bulk effective sample size of every coordinate of a release."""
    theta, chain = rank_normalised(np.asarray(release.theta)), np.asarray(release.chain)
    return Convergence(
        release.model.coordinates, split_r_hat(theta, chain), effective_sample_size(theta, chain), divergences
    )


def check_records(model: Model, records: Mapping[str, object]) -> Records:
    """The records as arrays, one for each field of the model."""
    checked: Records = {}
    held = records_in(model.fields, records)
    for name, field in model.fields.items():
        if name not in held:
            raise BayesreconError(
                f"the data lack field {name!r} of model {model.name} (they hold {', '.join(records)})"
            )
        try:
            values = np.asarray(held[name], float)
        except (TypeError, ValueError, OverflowError):
            raise BayesreconError(
                f"field {name!r} holds values that are not numbers; code categories as numbers"
            ) from None
        if values.shape[1:] != field.shape or values.ndim != 1 + len(field.shape):
            raise BayesreconError(f"field {name!r} has shape {values.shape}, expected (N,{str(field.shape)[1:-1]})")
        if not np.isfinite(values).all():
            raise BayesreconError(f"field {name!r} holds missing or infinite values; drop these rows or fill them in")
        outside = values[~field.domain.contains(values)]
        if outside.size:
            raise BayesreconError(f"field {name!r} holds {outside.flat[0]:g}; its domain is {field.domain.words}")
        checked[name] = values.astype(field.domain.dtype)
    lengths = {name: len(v) for name, v in checked.items()}
    if not all(lengths.values()):
        raise BayesreconError("the data have no records")
    if len(set(lengths.values())) > 1:
        raise BayesreconError(f"the fields differ in length: {', '.join(f'{k} {n}' for k, n in lengths.items())}")
    return checked


def check_run(chains: int, draws: int, warmup: int, thinning: int, target_accept: float, key: Key) -> None:
    """Refuse invalid settings of a run."""
    if min(chains, draws, thinning) < 1 or warmup < 0:
        raise BayesreconError("chains, draws and thinning must be at least 1, and warmup at least 0")
    if not 0 < target_accept < 1:
        raise BayesreconError(f"target_accept={target_accept}: expected a rate between 0 and 1, e.g. 0.9")
    if isinstance(key, (int, np.integer)) and key < 0:
        raise BayesreconError(f"key {key}: a seed must be a non-negative integer")


def nuts(
    model: Model,
    data: Mapping[str, object],
    *,
    key: Key = 0,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    thinning: int = 1,
    target_accept: float = 0.8,
    max_tree_depth: int = 10,
    chain_method: ChainMethod = "auto",
    progress: bool = False,
    name: str | None = None,
) -> PosteriorDraws:
    """Sample the posterior of a NumPyro-backed model with NUTS (dense mass matrix up to 300 dimensions).

    Args:
        model: a model of `bayesrecon.models`.
        data: `{field: (N, *shape)}`, the private records.
        key: an integer or a JAX key.
        chains, draws, warmup, thinning: number of chains, of draws kept per chain, of warm-up iterations, and of
            iterations per kept draw.
        chain_method: "vectorized" advances all chains together, "sequential" runs one after the other, and "parallel"
            runs each in a thread, distributed over the devices. "auto" is "vectorized" on a single accelerator, else
            "parallel". All sample the same distribution, and all but "vectorized" give the same draws.
        progress: whether to show a progress bar on stderr.

    Returns:
        A `Release` whose notes hold warnings if the run did not converge.

    Raises:
        BayesreconError: the model has no program, the settings are invalid, the records do not fit the model, or no
            starting point has a finite density.

    >>> from bayesrecon.models import load
    >>> nuts(load("Rate_1_model"), {"n": [10], "k": [7]}, chains=2, draws=500).size  # NUTS  # doctest: +SKIP
    1000
    """
    options = {"max_tree_depth": max_tree_depth, "chain_method": chain_method, "progress": progress, "name": name}
    run = {"chains": chains, "draws": draws, "warmup": warmup, "thinning": thinning, "target_accept": target_accept}
    return sample(model, data, key=key, **run, **options)[0]  # type: ignore[arg-type]


@in_float64
def sample(
    model: Model,
    data: Mapping[str, object],
    *,
    key: Key = 0,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 1000,
    thinning: int = 1,
    target_accept: float = 0.8,
    max_tree_depth: int = 10,
    chain_method: ChainMethod = "auto",
    progress: bool = False,
    name: str | None = None,
) -> tuple[PosteriorDraws, Convergence]:
    """Like `nuts`, together with the convergence diagnostics."""
    if model.program is None:
        raise BayesreconError(f"model {model.name} has no NumPyro program to sample; build it with from_numpyro")
    if any(isinstance(p.transform, Identity) and p.bounds != (-math.inf, math.inf) for p in model.parameters):
        raise BayesreconError(f"{model.name} has constrained coordinates; sample the model that it was derived from")
    check_run(chains, draws, warmup, thinning, target_accept, key)
    records = check_records(model, data)
    settings = Settings(warmup, target_accept, max_tree_depth, model.dimension <= DENSE)
    with _progress_bar(progress) as report_progress:
        theta, divergences = sampled(
            model,
            records,
            settings,
            _generator(key),
            chains=chains,
            draws=draws,
            thinning=thinning,
            method=chain_method,
            report_progress=report_progress,
        )
    params = _constrained(model, theta.reshape(-1, model.dimension))
    samples = {k: np.asarray(v).reshape(chains, draws, *v.shape[1:]) for k, v in params.items()}
    # These are the latents of the program itself, so `prepare` is not needed.
    unprepared = model if model.prepare is None else replace(model, prepare=None)
    release = from_draws(samples, unprepared, name=name or f"NUTS on {model.name}")
    diagnostics = convergence(release, divergences)
    return replace(release, model=model, log_density=None, notes=(*release.notes, *diagnostics.warnings)), diagnostics


@partial(jax.jit, static_argnames="model")
def _constrained(model: Model, theta: Array) -> dict[str, jax.Array]:
    return jax.vmap(model.constrain)(theta)


def _generator(key: Key) -> np.random.Generator:
    """NumPy's generator, which draws starting points and the chains' seeds."""
    if isinstance(key, (int, np.integer)):
        return np.random.default_rng(int(key))
    return np.random.default_rng(np.asarray(jax.random.key_data(key), np.uint32).ravel().tolist())


@contextmanager
def _progress_bar(visible: bool) -> Generator[Callable[[float], None]]:
    """A function that takes the completed fraction, and shows it in a bar on stderr if `visible`."""
    if not visible:
        yield lambda fraction: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("sampling", total=1.0)
        yield lambda fraction: progress.update(task, completed=fraction)


@in_float64
def save_draws(release: PosteriorDraws, path: str | Path, attributes: Mapping[str, object] | None = None) -> Path:
    """Write the draws of a release to a netCDF file that ArviZ can open (group `posterior`).

    The file has the draws of the model's parameters, their weights if these differ, and the name, settings and power of
    the model. Longer chains are cut to the length of the shortest.
    """
    import json

    import xarray as xr

    from bayesrecon._version import __version__
    from bayesrecon.files import write_netcdf

    model = release.model
    variables = {}
    for name, values in named_draws(release).values.items():
        dims = ("chain", "draw", *(f"{name}_dim_{i}" for i in range(values.ndim - 2)))
        variables[name] = (dims, values)
    chains, draws = next(iter(variables.values()))[1].shape[:2]
    file_attributes = {
        "bayesrecon_version": __version__,
        "bayesrecon_model": model.untempered.name,
        **({} if model.power == 1 else {"bayesrecon_power": repr(float(model.power))}),
        "bayesrecon_model_settings": json.dumps(dict(model.settings)),
        **{f"bayesrecon_{k}": str(v) for k, v in (attributes or {}).items()},
    }
    dataset = xr.Dataset(variables, {"chain": np.arange(chains), "draw": np.arange(draws)}, file_attributes)
    path = Path(path)
    write_netcdf(path, dataset, "posterior")
    return path


# Trained parameters after the removal of one record by a single step instead of retraining.
#
# Let J be the objective, `sum_n loss + penalty`, and l the loss of the removed record, at the trained parameter
# theta:
#
#     Newton's step       theta - (H_J - H_l)^-1 (grad J - grad l)      (Guo et al. 2020, section 3.1, without noise)
#     gradient step       theta + rate grad l
#
# Either may be released after a request for deletion. `deletion` pairs it with the original.


_MOST = 4000  # largest number of parameters whose Hessian is factorised: 128 MiB, and seconds
_FLAT = 1e-11  # curvatures below this share of the largest are rounding errors


@in_float64
def newton_step_without(release: Release, records: Mapping[str, Array], rows: Sequence[int]) -> list[Release]:
    """A Newton step towards the optimum without one record, for each of several records.

    Args:
        release: a parameter that was trained on `records`.
        records: `{field: (N, *shape)}`.
        rows: positions of the records to remove, one step each.

    Raises:
        BayesreconError: the records lack a field, rows do not exist, or there are more than 4,000 parameters.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import train
    >>> data = {"x": np.array([[0.0], [1.0], [2.0]]), "y": np.array([0.0, 1.0, 1.0])}
    >>> before = train(load("linear_predictor", penalty=2.0), data).release
    >>> newton_step_without(before, data, [2])[0].theta.round(3).tolist()  # for least squares, the optimum
    [[0.2, 0.4]]
    """
    model, theta, table = _checked(release, records, rows)
    if model.dimension > _MOST:
        raise BayesreconError(f"{model.name} has {model.dimension:,} parameters: Newton's step takes at most {_MOST:,}")
    hessian, total_gradient = np.asarray(_hessian(model, theta, table, True)), -_score(model, theta, table)
    result = []
    for row, score in zip(rows, _scores_of(model, theta, table, rows), strict=True):
        record = {k: v[row : row + 1] for k, v in table.items()}
        hessian_without = hessian - np.asarray(_hessian(model, theta, record, False))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
                step = scipy.linalg.solve(hessian_without, total_gradient + score, assume_a="pos")
        except (np.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
            # The objective is flat in some direction, as along a shift of all outputs: the shortest step.
            step = np.linalg.lstsq(hessian_without, total_gradient + score, rcond=_FLAT)[0]
        result.append(TrainedParameter((theta - step)[None], model, name=f"Newton's step without {row}"))
    return result


@in_float64
def gradient_step_without(
    release: Release, records: Mapping[str, Array], rows: Sequence[int], *, rate: float
) -> list[Release]:
    """A gradient step that increases the loss of one record, for each of several records.

    Args:
        release, records, rows: as in `newton_step_without`.
        rate: step length per unit of the gradient.

    Raises:
        BayesreconError: the records lack a field, rows do not exist, or the rate is not positive.

    >>> from bayesrecon.models import load
    >>> from bayesrecon.posteriors import train
    >>> data = {"x": np.array([[0.0], [1.0], [2.0]]), "y": np.array([0.0, 1.0, 1.0])}
    >>> before = train(load("linear_predictor", penalty=2.0), data).release
    >>> (gradient_step_without(before, data, [2], rate=0.1)[0].theta - before.theta).round(4).tolist()
    [[-0.0167, -0.0083]]
    """
    if not (np.isfinite(rate) and rate > 0):
        raise BayesreconError(f"rate={rate}: expected a number above 0")
    model, theta, table = _checked(release, records, rows)
    return [
        TrainedParameter((theta - rate * score)[None], model, name=f"a gradient step without {row}")
        for row, score in zip(rows, _scores_of(model, theta, table, rows), strict=True)
    ]


def _checked(release: Release, records: Mapping[str, Array], rows: Sequence[int]) -> tuple[Model, np.ndarray, Records]:
    model = release.model
    table = check_knowledge(model, known=records).known
    if missing := [f for f in model.fields if f not in table]:
        raise BayesreconError(f"the records lack field {missing[0]}")
    count = len(next(iter(table.values())))
    if not len(rows) or min(rows) < 0 or max(rows) >= count:
        raise BayesreconError(f"rows must lie between 0 and {count - 1}")
    return model, np.asarray(release.theta)[0], table


def _scores_of(model: Model, theta: np.ndarray, table: Records, rows: Sequence[int]) -> np.ndarray:
    """Scores of the removed records, `(R, d)`."""
    return np.asarray(gradients(model, theta, {k: v[np.asarray(rows)] for k, v in table.items()}))


def _score(model: Model, theta: np.ndarray, table: Records) -> np.ndarray:
    """The score of all records and the prior, `(d,)`."""
    return np.asarray(total_score(model, theta, table, np.ones(len(next(iter(table.values()))))))


@partial(jax.jit, static_argnames=("model", "prior"))
def _hessian(model: Model, theta: Array, table: Records, prior: bool) -> jax.Array:
    def loss(t: Array) -> jax.Array:
        total = -jax.vmap(model.log_lik, in_axes=(None, 0))(t, table).sum()
        return total - model.log_prior(t) if prior else total

    return jax.hessian(loss)(theta)
