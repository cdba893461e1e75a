"""Which coordinates of the posterior records touch, and colours of those that no record touches together."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jaxtyping import Bool

from bayesrecon.arrays import Array
from bayesrecon.model import Records

NONE = -1  # the record has no coordinate of this colour


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Touched:
    """The coordinates that records touch.

    Attributes:
        records: `{field: (M, ...)}`.
        index: `(q, M)`, the coordinate of every colour; -1 if a record has none.
        colours: `(q, d)`, 1 for the coordinates of each colour and else 0.
    """

    records: Records
    index: Array
    colours: Array

    @property
    def size(self) -> int:
        return self.index.shape[1]

    def gather(self, slopes: Array) -> Array:
        """`sum_m slopes[a, t, m]` by coordinate, `(C, d)`, for `slopes (q, C, M)`."""
        size = self.colours.shape[1]
        if isinstance(slopes, np.ndarray):
            total = np.zeros((slopes.shape[1], size))
            for column, slope in zip(np.asarray(self.index), slopes, strict=True):
                total += (scatter(column, size) @ slope.T).T
            return total
        columns = jnp.where(self.index == NONE, size, self.index).ravel()
        flat = jnp.moveaxis(slopes, 0, 1).reshape(slopes.shape[1], -1)
        return jnp.zeros((len(flat), size)).at[:, columns].add(flat, mode="drop")


def coloured(touched: Bool[np.ndarray, "M d"]) -> tuple[np.ndarray, np.ndarray]:
    """A colour per coordinate, `(d,)`, no two of one colour touched by the same record (greedily, the busiest first),
    and the coordinate of every colour, `(q, M)`, -1 where a record has none.

    Args:
        touched: `(M, d)`.
    """
    sparse = scipy.sparse.csr_array(touched, dtype=np.int32)
    together = (sparse.T @ sparse).toarray() > 0
    colour = np.full(len(together), -1)
    for i in np.argsort(-together.sum(axis=0), kind="stable"):
        taken = set(colour[together[i]].tolist())
        colour[i] = next(c for c in range(len(together)) if c not in taken)
    index = np.full((colour.max() + 1, len(touched)), NONE)
    row, column = np.nonzero(touched)
    index[colour[column], row] = column
    return colour, index


def scatter(index: np.ndarray, size: int) -> scipy.sparse.csr_array:
    """A matrix `(size, M)` with ones where a record has the coordinate."""
    rows = np.flatnonzero(index != NONE)
    return scipy.sparse.csr_array((np.ones(len(rows)), (index[rows], rows)), (size, len(index)))


def pays(count: int, parameters: int) -> bool:
    """Whether products for pairs of `count` coordinates are well below products for all parameters."""
    return count * (count + 1) <= parameters
