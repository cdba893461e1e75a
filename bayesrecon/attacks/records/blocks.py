"""Sums of block-diagonal matrices: what K of a person-by-item table is, a layer of persons and a layer of items.

    Q = sum_l A_l,    A_l block-diagonal over sets of rows that share a coordinate.

The diagonal of the inverse is that of every layer with the others replaced by diagonal matrices, chosen so that all
layers agree (expectation consistency, Opper and Winther 2005):

    v = diag (A_l + D_l)^-1  for every l,    D_l = sum_{k != l} C_k,    1 / v = sum_k C_k.

It is exact where the layers' eigenvectors have nothing in common and an approximation elsewhere; `conjugate` has the
true inverse, column by column.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float, Int

from bayesrecon.errors import BayesreconError

lapack: Any = scipy.linalg.lapack

_SWEEPS, _AGREED = 30, 1e-3  # over the layers, and the relative change of variances from which they agree


class NotSolved(BayesreconError):
    """The matrix is singular to what is seen of it."""

    def __init__(self) -> None:
        super().__init__("the equations of the known rows are nearly singular; supply fewer known rows")


@dataclass(frozen=True)
class Group:
    """Blocks of one size: rows `index (g, s)` and their `values (g, s, s)`."""

    index: Int[np.ndarray, "g s"]
    values: Float[np.ndarray, "g s s"]


@dataclass(frozen=True)
class Blocks:
    """`(M, M)` sum of block-diagonal layers, each a tuple of groups without a row in common.

    >>> one = Group(np.array([[0, 1]]), np.array([[[2.0, 1.0], [1.0, 2.0]]]))
    >>> (Blocks(2, ((one,),)) @ np.array([1.0, 0.0])).tolist()
    [2.0, 1.0]
    """

    size: int
    layers: tuple[tuple[Group, ...], ...]

    def with_(self, other: "Blocks", change: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> "Blocks":
        """Values from this and another in the same places."""
        layers = []
        for groups, other_groups in zip(self.layers, other.layers, strict=True):
            pairs = zip(groups, other_groups, strict=True)
            layers.append(tuple(Group(a.index, change(a.values, b.values)) for a, b in pairs))
        return Blocks(self.size, tuple(layers))

    def times(self, factor: float) -> "Blocks":
        return self.with_(self, lambda a, _: factor * a)

    def diagonals(self) -> Float[np.ndarray, "L M"]:
        """`(L, M)` of every layer."""
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
        """`(M, M)` as one array."""
        result = np.zeros((self.size, self.size))
        for layer in self.layers:
            for group in layer:
                for rows, values in zip(group.index, group.values, strict=True):
                    result[np.ix_(rows, rows)] += values
        return result

    def places(self) -> Int[np.ndarray, "L M 3"]:
        """`(L, M, 3)` group, block and position of every row in every layer; -1 where it has none."""
        result = np.full((len(self.layers), self.size, 3), -1)
        for own, layer in zip(result, self.layers, strict=True):
            for i, group in enumerate(layer):
                block, position = np.indices(group.index.shape)
                own[group.index] = np.stack([np.full_like(block, i), block, position], axis=-1)
        return result

    def column(self, row: int, places: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and entries of a column, layer by layer."""
        result = []
        for layer, (group, block, position) in zip(self.layers, places[:, row], strict=True):
            if group >= 0:
                result.append((layer[group].index[block], layer[group].values[block, position]))
        return result

    def between(self, vectors: Any) -> np.ndarray:
        """`Z' Q Z (c, c)` of sparse `vectors (M, c)`."""
        result = np.zeros((vectors.shape[1],) * 2)
        for layer in self.layers:
            for group in layer:
                for rows, values in zip(group.index, group.values, strict=True):
                    own = vectors[rows]
                    result += own.T @ (own.T @ values).T
        return result

    def inverse(self, more: np.ndarray | float = 0.0, start: np.ndarray | None = None) -> "Inverse":
        """Approximate inverse of this and a diagonal matrix `more (M,)`.

        Args:
            start: sites of a similar matrix, which one sweep brings up to date.

        Raises:
            NotSolved: where a layer is singular with the others' diagonals.
        """
        diagonals = self.diagonals()
        sites = diagonals.copy() if start is None else start.copy()
        variance = np.zeros(self.size)
        layers: list[tuple[Group, ...]] = [()] * len(self.layers)
        for _ in range(_SWEEPS if start is None else 1):
            before = variance
            for i, layer in enumerate(self.layers):
                replaced = sites.sum(axis=0) - sites[i] + more
                variance = 1 / np.maximum(replaced, 1e-300)  # where a row has no block of this layer
                layers[i] = tuple(_inverse(group, replaced) for group in layer)
                for group in layers[i]:
                    variance[group.index] = np.einsum("gss->gs", group.values)
                sites[i] = np.clip(1 / variance - replaced, 0.0, diagonals[i])
            if np.median(np.abs(variance - before) / variance) <= _AGREED:
                break
        return Inverse(Blocks(self.size, tuple(layers)), sites, variance)


@dataclass(frozen=True)
class Inverse:
    """Approximate inverse of a sum of layers.

    Attributes:
        layers: inverses of the layers with the others replaced.
        sites: `(L, M)` the diagonal matrices C that replace the layers.
        variance: `(M,)` diagonal of the inverse.
    """

    layers: Blocks
    sites: Float[np.ndarray, "L M"]
    variance: Float[np.ndarray, " M"]


def layered(sets: Sequence[np.ndarray], values: Sequence[np.ndarray], size: int) -> Blocks:
    """The sum of blocks, `values (s, s)` on the rows of a set, `(s,)` each; a layer's sets have no row in common.

    >>> sets = [np.array([0, 1]), np.array([1, 2])]
    >>> len(layered(sets, [np.eye(2), np.eye(2)], 3).layers)
    2
    """
    occupied: list[np.ndarray] = []
    layers: list[dict[int, list[int]]] = []
    for i, rows in enumerate(sets):
        layer = next((k for k, t in enumerate(occupied) if not t[rows].any()), len(occupied))
        if layer == len(occupied):
            occupied.append(np.zeros(size, bool))
            layers.append({})
        occupied[layer][rows] = True
        layers[layer].setdefault(len(rows), []).append(i)

    def group(indices: list[int]) -> Group:
        return Group(np.stack([sets[i] for i in indices]), np.stack([values[i] for i in indices]))

    return Blocks(size, tuple(tuple(group(indices) for indices in sizes.values()) for sizes in layers))


def _inverse(group: Group, more: np.ndarray) -> Group:
    result = group.values.copy()
    at = np.arange(group.index.shape[1])
    result[:, at, at] += more[group.index]
    for own in result:
        factor, info = lapack.dpotrf(own.T, lower=1, clean=0, overwrite_a=1)
        if info:
            raise NotSolved
        lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # LAPACK wrote into `own` itself, one triangle of it.
        half, diagonal = np.tril(lower, -1), np.diag(lower).copy()
        np.add(half, half.T, out=own)
        own[at, at] = diagonal
    return Group(group.index, result)
