"""Chains of NUTS: NumPyro's transition in two compiled programs, one that starts a chain and one that continues it.

Warm-up and draws share a program, for any number of draws. The records are arguments of the programs, so other records
of the same shapes need no new compilation.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records
from bayesrecon.precision import in_float64
from bayesrecon.running.compiled import caching

if TYPE_CHECKING:
    from numpyro.infer.hmc import HMCState

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
