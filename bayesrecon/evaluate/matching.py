"""Reconstructed records against true ones, one to one."""

from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from bayesrecon.errors import BayesreconError


class Matching(NamedTuple):
    """Pairs of an assignment: `truth[i]` is matched with `guess[i]` at `cost[i]`, `(P,)` each."""

    truth: np.ndarray
    guess: np.ndarray
    cost: np.ndarray


def cosine_similarity(a: Any, b: Any) -> np.ndarray:
    """`<a, b> / (|a| |b|)` over the last axis; NaN where either vanishes.

    Args:
        a, b: `(..., p)`, broadcast against each other.

    >>> float(cosine_similarity([1.0, 0.0], [1.0, 1.0]).round(4))
    0.7071
    """
    a, b = np.asarray(a, float), np.asarray(b, float)
    length = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    product = np.sum(a * b, axis=-1)
    return np.divide(product, length, out=np.full(np.shape(product), np.nan), where=length > 0)


def match(truth: Any, guess: Any, *, cost: str = "euclidean", scale: Any = 1.0) -> Matching:
    """The assignment of smallest total cost; nothing is matched twice.

    Nearest neighbours flatter a reconstruction that repeats one good record; an assignment does not.

    Args:
        truth: `(N, p)`.
        guess: `(M, p)`. The smaller side is matched completely.
        cost: "euclidean" or "cosine" (one minus the similarity).
        scale: divides every column of both, before distances.

    Raises:
        BayesreconError: what is no table of finite numbers, different numbers of columns, or another cost.

    >>> match([[0.0], [1.0]], [[0.1], [0.2]]).guess.tolist()
    [0, 1]
    """
    first, second = as_table(truth, "truth") / scale, as_table(guess, "guess") / scale
    if first.shape[1] != second.shape[1]:
        raise BayesreconError(f"truth has {first.shape[1]} columns and guess {second.shape[1]}")
    if cost == "euclidean":
        # Squared distances of images by products, not by differences of all pairs.
        square = (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * first @ second.T
        matrix = np.sqrt(np.maximum(square, 0.0))
    elif cost == "cosine":
        matrix = 1 - np.nan_to_num(_directions(first) @ _directions(second).T)
    else:
        raise BayesreconError(f"cost={cost!r}: expected 'euclidean' or 'cosine'")
    rows, columns = scipy.optimize.linear_sum_assignment(matrix)
    return Matching(rows, columns, matrix[rows, columns])


def _directions(x: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 0)


def as_table(values: Any, name: str) -> np.ndarray:
    values = np.asarray(values, float)
    if values.ndim < 2 or not len(values):
        raise BayesreconError(f"{name} has shape {values.shape}; expected (records, fields)")
    values = values.reshape(len(values), -1)
    if not np.isfinite(values).all():
        raise BayesreconError(f"{name} holds missing or infinite values")
    return values
