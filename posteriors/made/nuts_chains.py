"""Chains of NUTS: NumPyro's transition in two compiled programs, one that begins a chain and one that continues it.

Warm-up and draws share a program, for any number of draws. Records are its arguments, so that records of the same
shapes need no new compilation.
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

BLOCK = 100  # draws per call: frequent enough for progress, and the cost of a call is negligible
_TRIES = 100  # starting points of a chain, as many as NumPyro tries
_REMEMBERED = 8  # pairs of programs


@dataclass(frozen=True)
class Settings:
    """Settings that the chains are compiled for, besides the model and the shapes of its records."""

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
    """Unconstrained draws `(chains, draws, d)`, and how many transitions after warm-up diverged.

    Chains begin at a random point of `[-1, 1]^d`, or of `starts`, where density and gradient are finite.

    Args:
        method: "vectorized" moves all chains together, "sequential" one after the other, "parallel" each in a thread
            of its own, over the devices in turn; "auto" is "vectorized" on one accelerator, else "parallel".
        report_progress: called with the completed fraction.
        starts: `(S, d)` points to begin at.

    Raises:
        BayesreconError: no such point.
    """
    devices = jax.local_devices()
    if method == "auto":
        method = "vectorized" if len(devices) == 1 and devices[0].platform != "cpu" else "parallel"
    together = method == "vectorized"
    seeds = rng.integers(2**32, size=chains, dtype=np.uint32)
    groups = [seeds] if together else list(seeds)
    used = devices if method == "parallel" else devices[:1]
    begin = partial(_points, model, starts, rng)
    there = [jax.device_put(records, device) for device in used[: len(groups)]]
    places = [there[i % len(there)] for i in range(len(groups))]
    with caching():
        start, walk = _programs(model, settings, together)
        states = [_begun(model, start, seed, begin, at) for seed, at in zip(groups, places, strict=True)]
        for state, at in zip(states, there, strict=False):
            walk(state, at, 0, 1)  # compiled here, once for a device, and not by every thread

    @in_float64  # a scope is its thread's own
    def moved(count: int, every: int, state: "HMCState", at: Records) -> "tuple[HMCState, np.ndarray, int]":
        state, theta, diverged = walk(state, at, count, every)
        return state, np.asarray(theta)[..., :count, :], int(np.asarray(diverged).sum())

    blocks, lost = [], 0
    with ThreadPoolExecutor(len(groups) if method == "parallel" else 1) as threads:
        for count, every, done in parts_of(settings.warmup, draws, thinning):
            these = threads.map(partial(moved, count, every), states, places)
            states, thetas, diverged = zip(*these, strict=True)
            if done > settings.warmup:
                blocks.append(np.concatenate([theta.reshape(-1, *theta.shape[-2:]) for theta in thetas]))
                lost += sum(diverged)
            report_progress(done / (settings.warmup + draws * thinning))
    return np.concatenate(blocks, axis=1), lost


def parts_of(warmup: int, draws: int, thinning: int) -> Iterator[tuple[int, int, int]]:
    """Blocks `(count, every, done)`: states to keep, iterations per state, and iterations completed afterwards."""
    done = 0
    for total, every in ((warmup, 1), (draws, thinning)):
        for begin in range(0, total, BLOCK):
            count = min(BLOCK, total - begin)
            done += count * every
            yield count, every, done


def _points(model: Model, starts: np.ndarray | None, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Candidate starting points of chains, `(*shape, d)`."""
    return rng.uniform(-1, 1, (*shape, model.dimension)) if starts is None else rng.choice(starts, shape)


def _begun(
    model: Model,
    start: "Start",
    seed: np.ndarray,
    begin: Callable[[tuple[int, ...]], np.ndarray],
    records: Records,
) -> "HMCState":
    """The first state of a chain, or of several together."""
    theta = begin(np.shape(seed))
    for _ in range(_TRIES):
        state, fine = start(seed, theta, records)
        fine = np.asarray(fine)
        if fine.all():
            return state
        theta = np.where(fine[..., None], theta, begin(np.shape(seed)))
    raise BayesreconError(
        f"{model.name}: NUTS finds no starting point where the density is finite; "
        "check that the records are possible under the model, or try another key"
    )


class Start(Protocol):
    """The program that begins a chain, or several together."""

    def __call__(self, seed: Array, theta: Array, records: Records, /) -> "tuple[HMCState, jax.Array]":
        """The first state, and whether density and gradient are finite there."""
        ...


class Walk(Protocol):
    """The program that continues a chain, or several together."""

    def __call__(
        self, state: "HMCState", records: Records, count: int, every: int, /
    ) -> "tuple[HMCState, jax.Array, jax.Array]":
        """The last state, `(..., BLOCK, d)` with `count` states in the first rows, and the number of divergences."""
        ...


@lru_cache(_REMEMBERED)
def _programs(model: Model, settings: Settings, together: bool) -> "tuple[Start, Walk]":
    """The programs that begin and continue chains.

    `walk` keeps `count` states, at most a block of them, one in `every`. NumPyro's transition adapts automatically for
    as many iterations as `start` has stated, so `start` is traced first.
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

    def walk(state: "HMCState", records: Records, count: int, every: int) -> "tuple[HMCState, jax.Array, jax.Array]":
        def step(
            i: jax.Array, carry: "tuple[HMCState, jax.Array, jax.Array]"
        ) -> "tuple[HMCState, jax.Array, jax.Array]":
            state, theta, lost = carry
            state = transition(state, model_kwargs=records)
            return state, theta.at[i // every].set(state.z), lost + state.diverging

        nothing = jnp.zeros((BLOCK, model.dimension)), jnp.zeros((), int)
        return jax.lax.fori_loop(0, count * every, step, (state, *nothing))

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
