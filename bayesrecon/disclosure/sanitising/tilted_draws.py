"""Draws of a tilted posterior: some of the draws that there are, none twice, or new ones of NUTS.

Never by weights or by sampling with replacement: how often a draw is repeated would tell the tilt at it.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Params, PseudoData, Records
from bayesrecon.posteriors.made.chains import Settings, sampled
from bayesrecon.posteriors.made.nuts import DENSE
from bayesrecon.releases import PosteriorDraws

MOST = 1 / 3
"""Share of the draws that may be published: of more of them, those that the tilt favours most would be too few."""

USUAL = 1 / 4
"""The share unless somebody says otherwise."""

_REPEATED = 0.01  # share of draws that may repeat others
_STEPS = (1, 2, 4)  # every which draw is taken
_CHAINS, _WARMUP, _ACCEPTED, _DEEPEST = 4, 1000, 0.8, 10  # of NUTS, as `posteriors.nuts` has them
_THINNING = 2  # of NUTS, which stays where it is now and then
_MORE = 1.1  # times as many draws as are needed, of which those that repeat one are left out


def chosen(tilt: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Positions of `count` of the draws, in random order and none twice, by weights `exp tilt`.

    Sequential Poisson sampling (Ohlsson 1998): those with the smallest `u_t exp(-g_t)`, u uniform. Draws are in with
    probabilities in proportion to `exp g` but for terms of the order `1 / count`. The number does not depend on the
    tilt, and fewer of the same draws are some of the more: both together tell no more than the larger set.

    >>> sorted(chosen(np.array([9.0, 0.0, 9.0, 0.0]), 2, np.random.default_rng(0)).tolist())
    [0, 2]
    """
    order = np.log(rng.random(len(tilt))) - tilt
    kept = np.argpartition(order, count - 1)[:count]
    return kept[np.argsort(rng.random(len(tilt))[kept])]  # by numbers that do not depend on who is in


def distinct(release: PosteriorDraws) -> tuple[PosteriorDraws, tuple[str, ...]]:
    """Draws of which none repeats another, and what was done to have them.

    Which of several equal ones stay would tell how often each was there. A sampler stays where it is now and then:
    every second draw, or every fourth, is taken until at most one in a hundred repeats another, and that one is left
    out, which moves means by hundredths of a posterior standard deviation.

    Raises:
        BayesreconError: more repeat others.
    """
    repeats = 0
    for step in _STEPS:
        one = release if step == 1 else release.take(np.arange(0, release.size, step))
        rows = np.ascontiguousarray(np.asarray(one.theta)) + 0.0
        whole = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
        first = np.sort(np.unique(whole, return_index=True)[1])
        repeats = repeats or len(rows) - len(first)
        if len(rows) - len(first) <= _REPEATED * len(rows):
            note = f"{repeats} of {release.size} draws repeat another one: {len(first)} are used, of which none does"
            return (one, ()) if not repeats else (one.take(first), (note,))
    raise BayesreconError(
        f"{release.name}: {repeats} of {release.size} draws repeat another one, as of a Metropolis chain; thin them "
        "until none does, or sample with NUTS"
    )


def redrawn(model: Model, data: Records, tilt: PseudoData, starts: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draws `(count, d)` of the posterior of the data with the tilt beside them, by NUTS.

    Args:
        starts: `(T, d)` draws at which chains begin.

    Returns:
        draws in random order, none twice; fewer where chains stood still.
    """
    weights, added = jnp.asarray(tilt.weights), {k: jnp.asarray(v) for k, v in tilt.records.items()}

    def log_prior_at(params: Params) -> Any:
        return model.log_prior_at(params) + weights @ jax.vmap(model.log_lik_at, (None, 0))(params, added)

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
        told=lambda share: None,
        starts=starts,
    )
    theta = np.unique(drawn.reshape(-1, model.dimension), axis=0)
    return theta[rng.permutation(len(theta))[:count]]
