"""Which parameters a row touches: the sparsity that makes thousands of unknown records affordable.

An answer moves with its person's and its item's parameters and with nothing else. Given all other coordinates, those
that the same rows touch have a distribution of their own, and the score of that distribution satisfies the same
identity: the metric is the identity in coordinates that are white within every such group. Coordinates that no row
touches together share a colour, so that a row has one coordinate of every colour at most, its "slots", and

    k(n, m) = sum_A  1[i_A(n) = i_A(m)]  E_t[ D_A(t, n) D_A(t, m) ],    D_A(t, n) = d f_n / d theta_{i_A(n)}.

One sweep along the sum of a colour's coordinates gives D_A of all rows at once (Curtis, Powell and Reid 1974).
Parameters that nearly all rows touch may be left out, given like the others.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from jaxtyping import Float, Int

from bayesrecon.diagnostics import evenly
from bayesrecon.kernels.score import Pairs, feature_gradients
from bayesrecon.kernels.touched import NONE, coloured
from bayesrecon.model import Model

if TYPE_CHECKING:
    from scipy.sparse import csr_array


_SHARED = 0.5  # a coordinate touched by more than this share of the rows is shared by them


@dataclass(frozen=True)
class Slots:
    """The coordinates each row touches.

    Attributes:
        basis: `(k, d)` the coordinates that take part as directions of theta, in which the metric is the identity.
        index: `(M, q)` the coordinate of every slot, -1 where a row has none of a colour.
        colours: `(q, d)` the sums of the coordinates of each colour.
        shared: coordinates that nearly all rows touch and that do not take part.
        untouched: coordinates that no row touches.
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
        """Number of shared coordinates that do not take part."""
        return len(self.shared)

    @property
    def directions(self) -> np.ndarray:
        """`(k + u, d)` the basis, and the coordinates that no row touches: along these the score of the reconstructed
        posterior is known."""
        return np.concatenate([self.basis, np.eye(self.basis.shape[1])[self.untouched]])

    def sharing(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Sets of rows that share coordinates: the slots of these coordinates, and the rows."""
        sets: dict[bytes, tuple[list[int], np.ndarray]] = {}
        for a, column in enumerate(self.index.T):
            order = np.argsort(column, kind="stable")
            parts = np.split(order, np.flatnonzero(np.diff(column[order])) + 1)
            for rows in map(np.sort, parts):
                if column[rows[0]] != NONE:
                    sets.setdefault(rows.tobytes(), ([], rows))[0].append(a)
        return [(np.array(slots), rows) for slots, rows in sets.values()]

    def common(self, values: Float[np.ndarray, "q M"]) -> "csr_array":
        """`(M, c)` sparse vectors, `values (q, M)` of a slot on the rows that share its coordinate."""
        rows = [np.flatnonzero(column != NONE) for column in self.index.T]
        column = np.concatenate([self.index[own, a] for a, own in enumerate(rows)])
        entries = np.concatenate([values[a, own] for a, own in enumerate(rows)])
        shape = (len(self.index), len(self.basis))
        return scipy.sparse.csr_array((entries, (np.concatenate(rows), column)), shape)


def make_slots(model: Model, theta: Float[np.ndarray, "T d"], metric: Float[np.ndarray, "d d"], pairs: Pairs) -> Slots:
    """Slots of the features of `pairs`.

    Args:
        theta: `(T, d)` atoms.
        metric: `(d, d)` factor of Sigma.
    """
    count = len(next(iter(pairs[0].values())))
    touched = np.zeros((count, theta.shape[1]), bool)
    for t in theta[evenly(len(theta), 3)]:
        touched |= np.asarray(feature_gradients(model, t, pairs)) != 0
    shared, untouched = touched.mean(axis=0) > _SHARED, np.flatnonzero(~touched.any(axis=0))
    # With more rows than coordinates the rows differ by how their gradients change over the draws; there the shared
    # coordinates add more noise than they show.
    if count > theta.shape[1] and touched[:, ~shared].any(axis=1).all():
        touched[:, shared] = False
    else:
        shared[:] = False
    used = np.flatnonzero(touched.any(axis=0))
    touched = touched[:, used]
    scale = np.sqrt((metric**2).sum(axis=1))
    precision = np.linalg.inv((metric @ metric.T) / np.outer(scale, scale))[np.ix_(used, used)]
    basis = np.zeros((len(used), theta.shape[1]))
    _, group = np.unique(touched, axis=1, return_inverse=True)
    for g in range(group.max() + 1):
        own = np.flatnonzero(group.ravel() == g)
        values, vectors = np.linalg.eigh(precision[np.ix_(own, own)])
        basis[np.ix_(own, used[own])] = (vectors / np.sqrt(values)).T * scale[used[own]]
    colour, index = coloured(touched)
    colours = np.stack([basis[colour == c].sum(axis=0) for c in range(len(index))])
    return Slots(basis, np.ascontiguousarray(index.T), colours, np.flatnonzero(shared), untouched)
