"""Which record was deleted, from two sets of posterior draws or two trained parameters.

The posterior with the record is the one without it, tilted: `log p+(theta) - log p-(theta) = l(theta, x) - c`. Given
which draw came from which release, the tilt is a logistic regression with slope one and an unknown constant (Qin 1998),
whose likelihood at a candidate record is

    L(x) = max_c sum_t [ s_t (u_t - c) - log(1 + exp(u_t - c)) ],    u_t = l(theta_t, x) + log(T+ / T-)

with s_t one for draws made with the record. No public data, no curvature and no normal approximation are needed. To
first order in the tilt it is the mean shift, `Sigma^-1 (mean+ - mean-) = grad l(theta, x)`.
"""

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.diagnostics import effective_sample_size
from bayesrecon.pairs import Deletion

_STEPS, _SETTLED = 50, 1e-9  # of Newton for the constant, and the move that ends it


@jax.jit
def profile(u: Array, side: Array, weights: Array) -> tuple[Array, Array]:
    """L and its constant c for each column of `u (T, M)`.

    Args:
        side: `(T,)`, one for draws made with the record.
        weights: `(T,)`, how much each draw counts.
    """

    # At the maximum over c, the derivative in u does not depend on that of c, so nothing is differentiated here.
    fixed, fixed_weights = jax.lax.stop_gradient(u), jax.lax.stop_gradient(weights)

    def step(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        c, _, count = state
        p = jax.nn.sigmoid(fixed - c)
        slope = fixed_weights @ (p - side[:, None])
        curvature = fixed_weights @ (p * (1 - p))
        # Newton, damped where the logistic is flat.
        change = jnp.clip(slope / jnp.maximum(curvature, 1e-12), -2.0, 2.0)
        return c + change, jnp.max(jnp.abs(change)), count + 1

    start = jnp.sum(fixed_weights[:, None] * fixed, axis=0) / fixed_weights.sum()
    unfinished = jnp.asarray(jnp.inf, start.dtype), jnp.asarray(0)
    c, _, _ = jax.lax.while_loop(lambda s: (s[1] > _SETTLED) & (s[2] < _STEPS), step, (start, *unfinished))
    value = weights @ (side[:, None] * (u - c) - jax.nn.softplus(u - c))
    return value, c


def pooled(pair: Deletion) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All draws `(T, d)`, their side, and weights so that each release counts as its effective sample size.

    Autocorrelated draws count less: a release's weight is the smallest effective size over its parameters.
    """
    parts = []
    for side, release in ((1.0, pair.before), (0.0, pair.after)):
        theta, weights = np.asarray(release.theta), np.asarray(release.weights)
        size = effective_sample_size(theta, np.asarray(release.chain)).min()
        size = float(min(size, 1 / np.sum(weights**2)))
        parts.append((theta, np.full(len(theta), side), weights * size))
    theta, side, weights = (np.concatenate(p) for p in zip(*parts, strict=True))
    return theta, side, weights
