"""The parameters that each row depends on. Their sparsity makes thousands of unknown records affordable.

An answer depends on the parameters of its person and its item only. Given all other coordinates, the coordinates that
the same rows depend on have a conditional distribution, whose score satisfies the same identity. So the metric is the
identity in coordinates that are white within each such group. Coordinates that no row shares get the same colour. A row
then has at most one coordinate of each colour, its "slots", and

    k(n, m) = sum_A  1[i_A(n) = i_A(m)]  E_t[ D_A(t, n) D_A(t, m) ],    D_A(t, n) = d f_n / d theta_{i_A(n)}.

One sweep along the sum of a colour's coordinates gives D_A of all rows (Curtis, Powell and Reid 1974). Coordinates that
nearly all rows depend on may be left out.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from bayesrecon.diagnostics import evenly
from bayesrecon.divergence.score import Pairs, feature_gradients
from bayesrecon.divergence.touched import NONE, coloured
from bayesrecon.model import Model

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_SHARED = 0.5  # a coordinate is shared if more than this share of the rows depends on it


@dataclass(frozen=True)
class RowParameters:
    """The coordinates that each row depends on.

    Attributes:
        basis: `(k, d)` directions of theta that are used as coordinates. The metric is the identity in them.
        index: `(M, q)` coordinate of each slot; -1 if a row has none of this colour.
        colours: `(q, d)` sum of the coordinates of each colour.
        shared: positions in theta of the coordinates that are left out, because nearly all rows depend on them.
        untouched: positions in theta of the coordinates that no row depends on.
    """

    basis: Float[np.ndarray, "k d"]
    index: Int[np.ndarray, "M q"]
    colours: Float[np.ndarray, "q d"]
    shared: np.ndarray
    untouched: np.ndarray

    @property
    def width(self) -> int:
        """q, the number of slots of a row."""
        return self.index.shape[1]

    @property
    def left_out(self) -> int:
        """Number of shared coordinates that are left out."""
        return len(self.shared)

    @property
    def directions(self) -> np.ndarray:
        """The basis and the untouched coordinates, `(k + u, d)`.

        The score of the reconstructed posterior is known along these directions.
        """
        return np.concatenate([self.basis, np.eye(self.basis.shape[1])[self.untouched]])

    def sharing(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Coordinates and rows of each set of rows that share coordinates."""
        sets: dict[bytes, tuple[list[int], np.ndarray]] = {}
        for a, column in enumerate(self.index.T):
            order = np.argsort(column, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(column[order])) + 1)
            for rows in map(np.sort, parts):
                if column[rows[0]] != NONE:
                    sets.setdefault(rows.tobytes(), ([], rows))[0].append(a)
        return [(np.array(slots), rows) for slots, rows in sets.values()]

    def common(self, values: Float[np.ndarray, "q M"]) -> "csr_array":
        """Sparse vectors `(M, c)`: the values of a slot on the rows that share its coordinate."""
        rows = [np.flatnonzero(column != NONE) for column in self.index.T]
        column = np.concatenate([self.index[present, a] for a, present in enumerate(rows)])
        entries = np.concatenate([values[a, present] for a, present in enumerate(rows)])
        shape = (len(self.index), len(self.basis))
        return scipy.sparse.csr_array((entries, (np.concatenate(rows), column)), shape)


def make_slots(
    model: Model, theta: Float[np.ndarray, "T d"], metric: Float[np.ndarray, "d d"], pairs: Pairs
) -> RowParameters:
    """The coordinates that the features of `pairs` depend on.

    Args:
        theta: `(T, d)` atoms.
        metric: `(d, d)` factor of Sigma.
    """
    count = len(next(iter(pairs[0].values())))
    touched = np.zeros((count, theta.shape[1]), bool)
    for atom in theta[evenly(len(theta), 3)]:
        touched |= np.asarray(feature_gradients(model, atom, pairs)) != 0
    shared, untouched = touched.mean(axis=0) > _SHARED, np.flatnonzero(~touched.any(axis=0))
    # With more rows than coordinates, rows are told apart by how their gradients change over the draws. Shared
    # coordinates then add more noise than information.
    if count > theta.shape[1] and touched[:, ~shared].any(axis=1).all():
        touched[:, shared] = False
    else:
        shared[:] = False
    dependent = np.flatnonzero(touched.any(axis=0))
    touched = touched[:, dependent]
    scale = np.sqrt((metric**2).sum(axis=1))
    precision = np.linalg.inv((metric @ metric.T) / np.outer(scale, scale))[np.ix_(dependent, dependent)]
    basis = np.zeros((len(dependent), theta.shape[1]))
    _, group = np.unique(touched, axis=1, return_inverse=True)
    for number in range(group.max() + 1):
        members = np.flatnonzero(group.ravel() == number)
        values, vectors = np.linalg.eigh(precision[np.ix_(members, members)])
        basis[np.ix_(members, dependent[members])] = (vectors / np.sqrt(values)).T * scale[dependent[members]]
    colour, index = coloured(touched)
    colours = np.stack([basis[colour == c].sum(axis=0) for c in range(len(index))])
    return RowParameters(basis, np.ascontiguousarray(index.T), colours, np.flatnonzero(shared), untouched)
