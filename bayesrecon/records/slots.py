"""Which parameters a row touches: the sparsity that makes thousands of unknown records affordable.

An answer moves with its person's and its item's parameters and with nothing else. Coordinates that no row touches
together share a colour, so that a row has one coordinate of every colour at most, its "slots", and

    k(n, m) = sum_AB  E_t[ D_A(t, n) D_B(t, m) ]  Sigma[i_A(n), i_B(m)],    D_A(t, n) = d f_n / d theta_{i_A(n)}.

One sweep along the sum of a colour's coordinates gives D_A of all rows at once (Curtis, Powell and Reid 1974).
Parameters that nearly all rows touch may be left out: the score of the rest, given them, satisfies the same identity.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.score import along
from bayesrecon.types import Model, Records

_UNROLLED = 12  # sweeps up to which a loop is written out
_SHARED = 0.5  # a coordinate touched by more than this share of the rows is shared by them


@dataclass(frozen=True)
class Slots:
    """The coordinates each row touches.

    Attributes:
        sigma: `(k, k)` metric of the coordinates that take part.
        basis: `(k, d)` these coordinates as directions of theta, in units in which they vary by about one.
        index: `(M, q)` the coordinate of every slot; 0 where a row has none of a colour (its derivative is zero there).
        colours: `(q, d)` the sums of the coordinates of each colour.
        left_out: number of shared coordinates that do not take part.
    """

    sigma: np.ndarray
    basis: np.ndarray
    index: np.ndarray
    colours: np.ndarray
    left_out: int

    @property
    def width(self) -> int:
        """q, the number of slots of a row."""
        return self.index.shape[1]

    @property
    def whitened(self) -> bool:
        """Whether the metric is the identity, so that different slots have no products."""
        return bool((self.sigma == np.eye(len(self.sigma))).all())

    def sweeps(self) -> tuple[np.ndarray, np.ndarray]:
        """Directions `(S, d)`, the colours first, and weights `(S, M)` of the second derivatives along them.

        `tr(Sigma H) = sum_A H_AA (Sigma_AA - sum_B Sigma_AB) + sum_(A < B) Sigma_AB H_(A+B, A+B)`.
        """
        metric = self.sigma[self.index[:, :, None], self.index[:, None, :]]  # (M, q, q)
        own = 2 * np.einsum("maa->am", metric) - metric.sum(axis=2).T
        directions, weights = list(self.colours), list(own)
        for a in range(self.width):
            for b in range(a + 1, self.width):
                if metric[:, a, b].any():
                    directions.append(self.colours[a] + self.colours[b])
                    weights.append(metric[:, a, b])
        return np.stack(directions), np.stack(weights)


def make_slots(model: Model, theta: np.ndarray, metric: np.ndarray, rows: tuple[Records, Records, Records]) -> Slots:
    """Slots of the features `l(., known, other) - l(., known, base)` of `rows = (known, base, other)`.

    Args:
        theta: `(T, d)` atoms.
        metric: `(d, d)` factor of Sigma.
    """
    touched = np.zeros((len(next(iter(rows[0].values()))), theta.shape[1]), bool)
    for t in theta[np.linspace(0, len(theta) - 1, 3).astype(int)]:
        touched |= np.asarray(_gradients(model, t, rows)) != 0
    scale = np.sqrt((metric**2).sum(axis=1))
    whitened = metric / scale[:, None]
    sigma = whitened @ whitened.T
    shared = touched.mean(axis=0) > _SHARED
    left_out = 0
    # With more rows than coordinates the rows differ by how their gradients change over the draws; there the shared
    # coordinates add more noise than they show.
    if len(touched) > theta.shape[1] and touched[:, ~shared].any(axis=1).all():
        # The metric of the others given the shared ones: the inverse of a block of the precision.
        rest = np.flatnonzero(~shared)
        sigma[np.ix_(rest, rest)] = np.linalg.inv(np.linalg.inv(sigma)[np.ix_(rest, rest)])
        touched[:, shared] = False
        left_out = int(shared.sum())
    used = np.flatnonzero(touched.any(axis=0))
    touched, sigma, basis = touched[:, used], sigma[np.ix_(used, used)], np.diag(scale)[used]
    if touched.all():
        # Nothing is sparse: whitened coordinates need no products of different slots.
        values, vectors = np.linalg.eigh(sigma)
        basis, sigma = (np.sqrt(np.maximum(values, 0.0)) * vectors).T @ basis, np.eye(len(used))
        return Slots(sigma, basis, np.tile(np.arange(len(used)), (len(touched), 1)), basis, left_out)
    colour = _colours(touched)
    index = np.zeros((len(touched), colour.max() + 1), int)
    row, column = np.nonzero(touched)
    index[row, colour[column]] = column
    colours = np.stack([basis[colour == c].sum(axis=0) for c in range(index.shape[1])])
    return Slots(sigma, basis, index, colours, left_out)


def _colours(touched: np.ndarray) -> np.ndarray:
    """A colour per coordinate, `(k,)`, no two of one colour touched by the same row (greedily, the busiest first)."""
    together = touched.T.astype(np.float32) @ touched.astype(np.float32) > 0
    colour = np.full(len(together), -1)
    for i in np.argsort(-together.sum(axis=0), kind="stable"):
        taken = set(colour[together[i]].tolist())
        colour[i] = next(c for c in range(len(together)) if c not in taken)
    return colour


@partial(jax.jit, static_argnames="model")
def _gradients(model: Model, theta: Any, rows: tuple[Records, Records, Records]) -> Any:
    return jax.jacrev(lambda t: _features(model, t, rows))(theta)


@partial(jax.jit, static_argnames="model")
def slopes(model: Model, theta: Any, rows: tuple[Records, Records, Records], colours: Any) -> Any:
    """Derivatives by slot `(q, C, M)` of the features at a block of atoms."""

    def one(t: Any, v: Any) -> Any:
        return jax.jvp(lambda s: _features(model, s, rows), (t,), (v,))[1]

    return jax.vmap(jax.vmap(one, in_axes=(0, None)), in_axes=(None, 0))(theta, colours)


@partial(jax.jit, static_argnames=("model", "width"))
def curvatures(
    model: Model, width: int, theta: Any, rows: tuple[Records, Records, Records], directions: Any, weights: Any
) -> tuple[Any, Any]:
    """Derivatives by slot `(q, C, M)`, q = `width`, and Laplacians `(C, M)`; see `Slots.sweeps`."""

    def one(t: Any, v: Any) -> tuple[Any, Any]:
        return along(lambda s: _features(model, s, rows), t, v)[1:]

    sweep = jax.vmap(one, in_axes=(0, None))
    if len(directions) > _UNROLLED:

        def step(lap: Any, given: Any) -> tuple[Any, Any]:
            slope, curvature = sweep(theta, given[0])
            return lap + given[1] * curvature, slope

        start = jnp.zeros((len(theta), weights.shape[1]))
        lap, found = jax.lax.scan(step, start, (directions[:width], weights[:width]))
        lap, _ = jax.lax.scan(lambda x, given: (step(x, given)[0], None), lap, (directions[width:], weights[width:]))
        return found, lap
    found, lap = [], jnp.zeros(())
    for k in range(len(directions)):  # one fused loop each; mapped over, they are several times slower
        slope, curvature = sweep(theta, directions[k])
        found.append(slope)
        lap = lap + weights[k] * curvature
    return jnp.stack(found[:width]), lap


@partial(jax.jit, static_argnames="model")  # so that every sweep uses one trace of the program
def _features(model: Model, theta: Any, rows: tuple[Records, Records, Records]) -> Any:
    """`l(., known, other) - l(., known, base)` of every row, `(M,)`; what is known is looked up once for both."""

    def one(known: Records, base: Records, other: Records) -> Any:
        return model.log_lik(theta, {**known, **other}) - model.log_lik(theta, {**known, **base})

    return jax.vmap(one)(*rows)


@partial(jax.jit, static_argnames=("model", "temperature"))
def base_scores(model: Model, temperature: float, theta: Any, base: Records) -> Any:
    """Gradient of the log posterior of the base records at a block of atoms, `(C, d)`."""

    def log_base(t: Any) -> Any:
        rows = jax.vmap(model.log_lik, in_axes=(None, 0))(t, base)
        return jnp.sum(rows) + model.log_prior(t) + temperature * model.log_det(t)

    return jax.vmap(jax.grad(log_base))(theta)
