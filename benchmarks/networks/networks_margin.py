"""Training of a homogeneous classifier without weight decay, towards the conditions of the largest margin."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize

from bayesrecon.precision import in_float64

STEPS = 10_000
DEGREE = 3  # of the networks of `networks_cases.three_layers`
FIRST, LAST = 1e-2, 1e-7  # of the parameters' norm: how far the first step goes, and the last
MARGIN = 100.0  # of all records, about: from there the norm is held, which changes no direction, and only that moves


@in_float64
def descend_to_margin(apply: Any, params: Any, data: Any, steps: int = STEPS) -> tuple[Any, float]:
    """Normalised gradient descent on `log sum_n exp(-s_n f(theta, x_n))`, which falls where the exponential loss does.

    Plain descent on the loss follows the same path ever more slowly, since the loss vanishes (Lyu and Li 2020).

    Returns:
        Parameters, scaled to a smallest margin of one, and what the private records leave of
        `theta = sum lambda_n s_n grad f(theta, x_n)` with the best multipliers that are not negative, relative to
        theta: 0 at the largest margin where the gradient exists, more at a kink.
    """
    params = {k: jnp.asarray(v, float) for k, v in params.items()}
    x, s = jnp.asarray(data["x"], float), 2.0 * jnp.asarray(data["y"], float) - 1.0
    found = _descended(apply, steps, params, x, s)
    least = float((s * jax.vmap(apply, in_axes=(None, 0))(found, x)).min())
    if not least > 0:
        raise ValueError("training did not separate the classes")
    found = jax.tree_util.tree_map(lambda v: v / least ** (1 / DEGREE), found)
    each = jax.vmap(jax.grad(apply), in_axes=(None, 0))(found, x)
    rows = np.concatenate([np.asarray(v).reshape(len(s), -1) for v in jax.tree_util.tree_leaves(each)], axis=1)
    theta = np.concatenate([np.ravel(v) for v in jax.tree_util.tree_leaves(found)])
    _, left = scipy.optimize.nnls((np.asarray(s)[:, None] * rows).T, theta)
    return {k: np.asarray(v) for k, v in found.items()}, float(left / np.linalg.norm(theta))


@partial(jax.jit, static_argnums=(0, 1))
def _descended(apply: Any, steps: int, params: Any, x: Any, s: Any) -> Any:
    def loss(p: Any) -> Any:
        return jax.nn.logsumexp(-s * jax.vmap(apply, in_axes=(None, 0))(p, x))

    def step(p: Any, share: Any) -> tuple[Any, None]:
        value, slope = jax.value_and_grad(loss)(p)
        held, size = value < -MARGIN, _norm(p)
        outward = sum(jax.tree_util.tree_leaves(jax.tree_util.tree_map(jnp.vdot, p, slope))) / size**2
        slope = jax.tree_util.tree_map(lambda v, g: g - jnp.where(held, outward, 0.0) * v, p, slope)
        length = share * size / (_norm(slope) + 1e-300)
        moved = jax.tree_util.tree_map(lambda v, g: v - length * g, p, slope)
        shrink = jnp.where(held, size / _norm(moved), 1.0)
        return jax.tree_util.tree_map(lambda v: v * shrink, moved), None

    shares = FIRST * (LAST / FIRST) ** jnp.linspace(0.0, 1.0, steps)
    return jax.lax.scan(step, params, shares)[0]


def _norm(tree: Any) -> Any:
    return jnp.sqrt(sum(jnp.sum(v**2) for v in jax.tree_util.tree_leaves(tree)))
