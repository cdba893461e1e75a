"""Draws from a tilted posterior: a sample of the existing draws without replacement, or new draws from NUTS.

The draws never get weights and are never sampled with replacement: the weight of a draw would reveal the tilt there.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Params, PseudoData, Records
from bayesrecon.posteriors.fitting.nuts import DENSE, Settings, sampled
from bayesrecon.releases import PosteriorDraws

MOST = 1 / 3
"""Largest share of the draws that may be published. With more, too few draws would be left that the tilt favours."""

USUAL = 1 / 4
"""Default share of the draws to publish."""

_REPEATED = 0.01  # largest share of draws that repeat another draw
_STEPS = (1, 2, 4)  # thinning steps that are tried
_CHAINS, _WARMUP, _ACCEPTED, _DEEPEST = 4, 1000, 0.8, 10  # settings of NUTS, as in `posteriors.nuts`
_THINNING = 2  # of NUTS, because it sometimes repeats a draw
_MORE = 1.1  # factor for the number of new draws, since repeated ones are dropped


def chosen(tilt: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """A weighted sample of `count` draws without replacement, as indices in random order.

    The weights are `exp(g_t)`, where g is the tilt. Sequential Poisson sampling (Ohlsson 1998) takes the draws with the
    smallest `u_t exp(-g_t)`, where u_t is uniform. Inclusion probabilities are proportional to `exp(g_t)` up to terms
    of order `1 / count`. A smaller sample is a subset of a larger one, so both together reveal no more than the larger.

    >>> sorted(chosen(np.array([9.0, 0.0, 9.0, 0.0]), 2, np.random.default_rng(0)).tolist())
    [0, 2]
    """
    order = np.log(rng.random(len(tilt))) - tilt
    positions = np.argpartition(order, count - 1)[:count]
    # The order does not depend on which draws were chosen.
    return positions[np.argsort(rng.random(len(tilt))[positions])]


def distinct(release: PosteriorDraws) -> tuple[PosteriorDraws, tuple[str, ...]]:
    """Draws without repetitions, and notes on how they were chosen.

    Samplers sometimes repeat a draw, and the number of published copies would reveal the tilt. So the draws are thinned
    to every second or every fourth one until at most 1 % repeat another one, and the repeated ones are dropped. That
    moves means by hundredths of a posterior standard deviation.

    Raises:
        BayesreconError: even after thinning, more than 1 % are repeated.
    """
    repeats = 0
    for step in _STEPS:
        thinned = release if step == 1 else release.take(np.arange(0, release.size, step))
        rows = np.ascontiguousarray(np.asarray(thinned.theta)) + 0.0
        keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        first = np.sort(np.unique(keys, return_index=True)[1])
        repeats = repeats or len(rows) - len(first)
        if len(rows) - len(first) <= _REPEATED * len(rows):
            note = (
                f"{repeats} of {release.size} draws repeat another one: the {len(first)} distinct draws left are used"
            )
            return (thinned, ()) if not repeats else (thinned.take(first), (note,))
    raise BayesreconError(
        f"{release.name}: {repeats} of {release.size} draws repeat another one, as in a Metropolis chain; thin them "
        "until none is repeated, or sample with NUTS"
    )


def redrawn(model: Model, data: Records, tilt: PseudoData, starts: np.ndarray, count: int, seed: int) -> np.ndarray:
    """New draws `(count, d)` from the tilted posterior, by NUTS.

    Args:
        starts: `(T, d)` draws from which the chains start.

    Returns:
        Distinct draws in random order; fewer than `count` if chains got stuck.
    """
    weights, altered = jnp.asarray(tilt.weights), {k: jnp.asarray(v) for k, v in tilt.records.items()}

    def log_prior_at(params: Params) -> jax.Array:
        return model.log_prior_at(params) + weights @ jax.vmap(model.log_lik_at, (None, 0))(params, altered)

    rng = np.random.default_rng(seed)
    drawn, _ = sampled(
        replace(model, log_prior_at=log_prior_at),
        data,
        Settings(_WARMUP, _ACCEPTED, _DEEPEST, model.dimension <= DENSE),
        rng,
        chains=_CHAINS,
        draws=int(np.ceil(_MORE * count / _CHAINS)),
        thinning=_THINNING,
        method="auto",
        report_progress=lambda share: None,
        starts=starts,
    )
    theta = np.unique(drawn.reshape(-1, model.dimension), axis=0)
    return theta[rng.permutation(len(theta))[:count]]
