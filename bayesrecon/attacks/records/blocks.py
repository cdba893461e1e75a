"""Sums of block-diagonal matrices, such as K of a person-by-item table: a layer of persons and a layer of items.

    Q = sum_l A_l,    A_l block-diagonal over sets of rows that share a coordinate.

The diagonal of the inverse is approximated by replacing all layers but one by diagonal matrices, chosen such that the
results agree for all layers (expectation consistency, Opper and Winther 2005):

    v = diag (A_l + D_l)^-1  for every l,    D_l = sum_{k != l} C_k,    1 / v = sum_k C_k.

This is exact if the eigenvectors of the layers are unrelated. `Solver` computes columns of the exact inverse.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

lapack: Any = scipy.linalg.lapack

_SWEEPS = 30  # largest number of sweeps over the layers
_CONVERGED = 1e-3  # largest last relative change of the variances


class NotSolved(BayesreconError):
    """The matrix is numerically singular."""

    def __init__(self) -> None:
        super().__init__("the equations of the known rows are nearly singular; supply fewer known rows")


@dataclass(frozen=True)
class BlockGroup:
    """Blocks of one size: rows `index (g, s)` and their `values (g, s, s)`."""

    index: Int[np.ndarray, "g s"]
    values: Float[np.ndarray, "g s s"]


@dataclass(frozen=True)
class Blocks:
    """A sum `(M, M)` of block-diagonal layers. Each layer is a tuple of groups that have no row in common.

    >>> one = BlockGroup(np.array([[0, 1]]), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> (Blocks(2, ((one,),)) @ np.array([1.0, 0.0])).tolist()
    [2.0, 1.0]
    """

    size: int
    layers: tuple[tuple[BlockGroup, ...], ...]

    def with_(self, other: "Blocks", change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> "Blocks":
        """Combine the entries with those of a sum with the same blocks."""
        layers = []
        for groups, other_groups in zip(self.layers, other.layers, strict=True):
            pairs = zip(groups, other_groups, strict=True)
            layers.append(tuple(BlockGroup(a.index, change(a.values, b.values)) for a, b in pairs))
        return Blocks(self.size, tuple(layers))

    def times(self, factor: float) -> "Blocks":
        return self.with_(self, lambda a, _: factor * a)

    def diagonals(self) -> Float[np.ndarray, "L M"]:
        """Diagonals `(L, M)` of the layers."""
        result = np.zeros((len(self.layers), self.size))
        for row, layer in zip(result, self.layers, strict=True):
            for group in layer:
                row[group.index] = np.einsum("gss->gs", group.values)
        return result

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        """Product with `x (M,)` or `(M, S)`."""
        tall = x.reshape(len(x), -1)
        product = np.zeros_like(tall)
        for layer in self.layers:
            for group in layer:
                product[group.index] += group.values @ tall[group.index]
        return product.reshape(x.shape)

    def dense(self) -> Float[np.ndarray, "M M"]:
        """The sum as one array `(M, M)`."""
        result = np.zeros((self.size, self.size))
        for layer in self.layers:
            for group in layer:
                for rows, values in zip(group.index, group.values, strict=True):
                    result[np.ix_(rows, rows)] += values
        return result

    def places(self) -> Int[np.ndarray, "L M 3"]:
        """Group, block and position `(L, M, 3)` of every row in every layer; -1 for a row without a block."""
        result = np.full((len(self.layers), self.size, 3), -1)
        for places, layer in zip(result, self.layers, strict=True):
            for i, group in enumerate(layer):
                block, position = np.indices(group.index.shape)
                places[group.index] = np.stack([np.full_like(block, i), block, position], axis=-1)
        return result

    def column(self, row: int, places: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and entries of a column, for each layer."""
        result = []
        for layer, (group, block, position) in zip(self.layers, places[:, row], strict=True):
            if group >= 0:
                result.append((layer[group].index[block], layer[group].values[block, position]))
        return result

    def between(self, vectors: "csr_array", count: int) -> np.ndarray:
        """`Z' Q Z`, `(c, c)`, of `count` sparse `vectors` Z `(M, c)`."""
        result = np.zeros((count, count))
        for layer in self.layers:
            for group in layer:
                for rows, values in zip(group.index, group.values, strict=True):
                    part = vectors[rows]
                    result += part.T @ (part.T @ values).T
        return result

    def inverse(self, added: np.ndarray | float = 0.0, start: np.ndarray | None = None) -> "Inverse":
        """Approximate inverse of `Q + diag(added)`.

        Args:
            added: `(M,)`.
            start: `(L, M)` sites of a similar matrix. A single sweep then updates them.

        Raises:
            NotSolved: a layer is singular together with the sites of the others.
        """
        diagonals = self.diagonals()
        sites = diagonals.copy() if start is None else start.copy()
        variance = np.zeros(self.size)
        layers: list[tuple[BlockGroup, ...]] = [()] * len(self.layers)
        for _ in range(_SWEEPS if start is None else 1):
            previous = variance
            for i, layer in enumerate(self.layers):
                others = sites.sum(axis=0) - sites[i] + added
                variance = 1 / np.maximum(others, 1e-300)  # for rows without a block in this layer
                layers[i] = tuple(_inverse(group, others) for group in layer)
                for group in layers[i]:
                    variance[group.index] = np.einsum("gss->gs", group.values)
                sites[i] = np.clip(1 / variance - others, 0.0, diagonals[i])
            if np.median(np.abs(variance - previous) / variance) <= _CONVERGED:
                break
        return Inverse(Blocks(self.size, tuple(layers)), sites, variance)


@dataclass(frozen=True)
class Inverse:
    """Approximate inverse of a sum of layers.

    Attributes:
        layers: inverse of each layer plus the sites of the others.
        sites: `(L, M)`, the diagonal matrices C that replace the layers.
        variance: `(M,)` diagonal of the inverse.
    """

    layers: Blocks
    sites: Float[np.ndarray, "L M"]
    variance: Float[np.ndarray, " M"]


def layered(sets: Sequence[np.ndarray], values: Sequence[np.ndarray], size: int) -> Blocks:
    """The sum of blocks `values (s, s)`, each on the rows `(s,)` of a set. Sets of a layer have no row in common.

    >>> sets = [np.array([0, 1]), np.array([1, 2])]
    >>> len(layered(sets, [np.eye(2), np.eye(2)], 3).layers)
    2
    """
    occupied: list[np.ndarray] = []
    layers: list[dict[int, list[int]]] = []
    for i, rows in enumerate(sets):
        layer = next((k for k, rows_of_layer in enumerate(occupied) if not rows_of_layer[rows].any()), len(occupied))
        if layer == len(occupied):
            occupied.append(np.zeros(size, bool))
            layers.append({})
        occupied[layer][rows] = True
        layers[layer].setdefault(len(rows), []).append(i)

    def group(indices: list[int]) -> BlockGroup:
        return BlockGroup(np.stack([sets[i] for i in indices]), np.stack([values[i] for i in indices]))

    return Blocks(size, tuple(tuple(group(indices) for indices in sizes.values()) for sizes in layers))


def _inverse(group: BlockGroup, added: np.ndarray) -> BlockGroup:
    """Inverses of the blocks with the diagonal `added (M,)`."""
    result = group.values.copy()
    diagonal_ = np.arange(group.index.shape[1])
    result[:, diagonal_, diagonal_] += added[group.index]
    for block in result:
        factor, info = lapack.dpotrf(block.T, lower=1, clean=0, overwrite_a=1)
        if info:
            raise NotSolved
        lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # LAPACK wrote into `block` itself, one triangle of it.
        lower_part, diagonal = np.tril(lower, -1), np.diag(lower).copy()
        np.add(lower_part, lower_part.T, out=block)
        block[diagonal_, diagonal_] = diagonal
    return BlockGroup(group.index, result)


# Conjugate gradients for sums of layers, with an approximate inverse and deflation of the layers' common movements.
#
# The sum over all rows of a set is large in K and small in the inverse, in every layer. The means of the derivatives
# over the rows of a set span these movements. They are solved for exactly. The condition number of the remaining matrix
# does not grow with the table (two-level preconditioning, method A-DEF2 of Tang, Nabben, Vuik and Erlangga 2009).

_STEPS = 200  # largest number of steps; tables take about twenty
_RESIDUAL = 1e-10  # relative residual, if the matrix has a unit diagonal
_AT_ONCE = 2**23  # entries of right-hand sides that are solved together
_JITTER = 1e-12  # added to the diagonal for the common movements, some of which are sums of others


@dataclass(frozen=True)
class Solver:
    """`(Q + diag(added))^-1` applied to right-hand sides.

    Attributes:
        matrix: Q.
        inverse: approximate inverse of `multiple * (Q + diag(added))`.
        common: `(M, c)` sparse vectors of common movements.
        added: `(M,)`.
        multiple: 2 if Q is from half of the draws and the inverse from all of them.
    """

    matrix: Blocks
    inverse: Inverse
    common: "csr_array"
    added: Float[np.ndarray, " M"]
    multiple: float = 1.0

    @cached_property
    def _unit(self) -> np.ndarray:
        return np.sqrt(np.maximum(self.matrix.diagonals().sum(axis=0) + self.added, 1e-300))[:, None]

    @cached_property
    def _coarse(self) -> tuple[np.ndarray, tuple[np.ndarray, bool]]:
        """Units of the common movements, and the factor of the matrix restricted to them."""
        added = ((self.common.T * self.added) @ self.common).toarray()
        between = self.matrix.between(self.common, len(added)) + added
        unit = np.sqrt(np.maximum(np.diag(between), 1e-300))
        between = between / unit / unit[:, None]
        between[np.diag_indices_from(between)] += _JITTER
        try:
            return unit, scipy.linalg.cho_factor(between, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotSolved from None

    def __call__(self, right: np.ndarray, start: np.ndarray | None = None, residual: float = _RESIDUAL) -> np.ndarray:
        """Solutions for `right (M,)` or `(M, S)`.

        Args:
            start: first iterate.
            residual: relative residual at which to stop.

        Raises:
            NotSolved: it does not converge.
        """
        tall = right.reshape(len(right), -1)
        x = np.zeros_like(tall) if start is None else start.reshape(tall.shape).copy()
        width = max(1, _AT_ONCE // len(tall))
        for i in range(0, tall.shape[1], width):
            x[:, i : i + width] = self._solved(tall[:, i : i + width], x[:, i : i + width], residual)
        return x.reshape(right.shape)

    def _solved(self, right: np.ndarray, x: np.ndarray, residual: float) -> np.ndarray:
        goal = residual * np.linalg.norm(right / self._unit, axis=0)
        r = right - self._times(x) if x.any() else right.copy()
        x = x + self._exact(r)
        r = right - self._times(x)
        p, rz = np.zeros_like(r), np.ones(r.shape[1])
        for _ in range(_STEPS):
            open_ = np.linalg.norm(r / self._unit, axis=0) > goal
            if not open_.any():
                return x
            z = self.multiple * (self.inverse.layers @ r)
            z += self._exact(r - self._times(z))
            now = np.einsum("ms,ms->s", r, z)
            p = z + (now / rz) * p
            rz = np.where(now > 0, now, 1.0)
            q = self._times(p)
            length = np.einsum("ms,ms->s", p, q)
            step = np.where(open_ & (length > 0), now / np.where(length > 0, length, 1.0), 0.0)
            x += step * p
            r -= step * q
        raise NotSolved

    def _times(self, x: np.ndarray) -> np.ndarray:
        return self.matrix @ x + self.added[:, None] * x

    def _exact(self, r: np.ndarray) -> np.ndarray:
        """Solution restricted to the space of common movements."""
        unit, factor = self._coarse
        inner = scipy.linalg.cho_solve(factor, (self.common.T @ r) / unit[:, None], check_finite=False)
        return np.asarray(self.common @ (inner / unit[:, None]))
