"""Which parameters a row touches: the sparsity that makes thousands of unknown records affordable.

An answer moves with its person's and its item's parameters and with nothing else. Rows keep the q coordinates they touch
("slots"), and a kernel in the dense metric Sigma splits into q^2 products of thin matrices,

    k(n, m) = sum_AB  E_t[ D_A(t, n) D_B(t, m) ]  Sigma[i_A(n), i_B(m)],    D_A(t, n) = d f_n / d theta_{i_A(n)}.

Parameters that nearly all rows touch may be left out: the score of the rest, given them, satisfies the same identity.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.score import along
from bayesrecon.types import Model, Records

_SHARED = 0.5  # a coordinate touched by more than this share of the rows is shared by them
_DEARER = 2e12  # floating-point operations above which shared coordinates are left out


@dataclass(frozen=True)
class Slots:
    """The coordinates each row touches.

    Attributes:
        used: `(k,)` coordinates of theta that take part.
        sigma: `(k, k)` metric in units of `scale`.
        scale: `(d,)` unit of every coordinate.
        index: `(N, q)` positions in `used`.
        directions: `(N, q, d)` with `sum_k v_k v_k' = Sigma` on the row's slots.
        inverse: `(N, q, q)`, from slopes along the directions to derivatives by slot.
        left_out: number of shared coordinates that do not take part.
    """

    used: np.ndarray
    sigma: np.ndarray
    scale: np.ndarray
    index: np.ndarray
    directions: np.ndarray
    inverse: np.ndarray
    left_out: int

    @property
    def width(self) -> int:
        """q, the number of slots of a row."""
        return self.index.shape[1]


def make_slots(model: Model, theta: np.ndarray, metric: np.ndarray, base: Records, other: Records) -> Slots:
    """Slots of the features `l(., other) - l(., base)`.

    Args:
        theta: `(T, d)` atoms, all of them: the structure is read off a few, the cost off their number.
        metric: `(d, d)` factor of Sigma.
    """
    touched = np.zeros((len(next(iter(base.values()))), theta.shape[1]), bool)
    for t in theta[np.linspace(0, len(theta) - 1, 3).astype(int)]:
        touched |= np.asarray(_gradients(model, t, base, other)) != 0
    scale = np.sqrt((metric**2).sum(axis=1))
    whitened = metric / scale[:, None]
    sigma = whitened @ whitened.T
    used = np.flatnonzero(touched.any(axis=0))
    shared = touched.mean(axis=0) > _SHARED
    widest = int(touched.sum(axis=1).max())
    cost = widest * (widest + 1) * len(touched) ** 2 * len(theta)
    left_out = 0
    if cost > _DEARER and touched[:, ~shared].any(axis=1).all():
        # The metric of the others given the shared ones: the inverse of a block of the precision.
        used, left_out = np.flatnonzero(touched.any(axis=0) & ~shared), int(shared.sum())
        rest = np.flatnonzero(~shared)
        precision = np.linalg.inv(sigma)[np.ix_(rest, rest)]
        inside = np.searchsorted(rest, used)
        sigma = np.linalg.inv(precision)[np.ix_(inside, inside)]
    else:
        sigma = sigma[np.ix_(used, used)]
    index = _padded(touched[:, used])
    count, width = index.shape
    if width * count * theta.shape[1] > 4e8:
        raise BayesreconError(f"{count} rows that touch {width} parameters each are too many for one machine")
    factor = np.linalg.cholesky(sigma[index[:, :, None], index[:, None, :]])
    directions = np.zeros((count, width, theta.shape[1]))
    rows = np.arange(count)[:, None, None]
    columns = used[index]
    directions[rows, np.arange(width)[None, :, None], columns[:, None, :]] = (
        np.swapaxes(factor, 1, 2) * scale[columns][:, None, :]
    )
    return Slots(used, sigma, scale, index, directions, np.linalg.inv(factor), left_out)


def _padded(touched: np.ndarray) -> np.ndarray:
    """Indices of the touched coordinates, filled up with untouched ones (whose derivative is zero)."""
    width = int(touched.sum(axis=1).max())
    # A stable sort brings the touched coordinates of every row to the front.
    return np.sort(np.argsort(~touched, axis=1, kind="stable")[:, :width], axis=1)


@partial(jax.jit, static_argnames="model")
def _gradients(model: Model, theta: Any, base: Records, other: Records) -> Any:
    def feature(t: Any, b: Records, o: Records) -> Any:
        return model.log_lik(t, o) - model.log_lik(t, b)

    return jax.vmap(jax.grad(feature), in_axes=(None, 0, 0))(theta, base, other)


@partial(jax.jit, static_argnames="model")
def slopes(model: Model, theta: Any, base: Records, other: Records, directions: Any, inverse: Any) -> tuple[Any, Any]:
    """Derivatives by slot `(q, C, M)` and Laplacians `(C, M)` of the features at a block of atoms."""

    def one(t: Any, b: Records, o: Records, v: Any) -> tuple[Any, Any]:
        _, slope, curvature = along(lambda s: model.log_lik(s, o) - model.log_lik(s, b), t, v)
        return slope, curvature

    over_directions = jax.vmap(one, in_axes=(None, None, None, 0))
    over_rows = jax.vmap(over_directions, in_axes=(None, 0, 0, 0))
    slope, curvature = jax.vmap(over_rows, in_axes=(0, None, None, None))(theta, base, other, directions)
    return jnp.einsum("nka,cnk->acn", inverse, slope), curvature.sum(axis=-1)


@partial(jax.jit, static_argnames=("model", "temperature"))
def base_scores(model: Model, temperature: float, theta: Any, base: Records) -> Any:
    """Gradient of the log posterior of the base records at a block of atoms, `(C, d)`."""

    def log_base(t: Any) -> Any:
        rows = jax.vmap(model.log_lik, in_axes=(None, 0))(t, base)
        return jnp.sum(rows) + model.log_prior(t) + temperature * model.log_det(t)

    return jax.vmap(jax.grad(log_base))(theta)
