"""One-to-one matching of reconstructed records with true ones."""

from typing import NamedTuple

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from bayesrecon.errors import BayesreconError


class Matching(NamedTuple):
    """Pairs of an assignment: `truth[i]` is matched with `guess[i]` at `cost[i]`, `(P,)` each."""

    truth: np.ndarray
    guess: np.ndarray
    cost: np.ndarray


def cosine_similarity(a: ArrayLike, b: ArrayLike) -> np.ndarray:
    """Cosine similarity `<a, b> / (|a| |b|)` over the last axis; NaN where a or b is zero.

    Args:
        a, b: `(..., p)`, broadcast against each other.

    >>> float(cosine_similarity([1.0, 0.0], [1.0, 1.0]).round(4))
    0.7071
    """
    first, second = np.asarray(a, float), np.asarray(b, float)
    length = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    product = np.sum(first * second, axis=-1)
    return np.divide(product, length, out=np.full(np.shape(product), np.nan), where=length > 0)


def match(truth: ArrayLike, guess: ArrayLike, *, cost: str = "euclidean", scale: ArrayLike = 1.0) -> Matching:
    """The assignment of smallest total cost; nothing is matched twice.

    Nearest neighbours would flatter a reconstruction that repeats one good record.

    Args:
        truth: `(N, p)`.
        guess: `(M, p)`. The smaller side is matched completely.
        cost: "euclidean" or "cosine" (one minus the similarity).
        scale: units of the columns: both tables are divided by it first.

    Raises:
        BayesreconError: the arguments are not tables of finite numbers or differ in columns, or the cost is another.

    >>> match([[0.0], [1.0]], [[0.1], [0.2]]).guess.tolist()
    [0, 1]
    """
    units = np.asarray(scale, float)
    first, second = as_table(truth, "truth") / units, as_table(guess, "guess") / units
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


def as_table(values: ArrayLike, name: str) -> np.ndarray:
    """Records as an array `(N, p)` of finite numbers. `name` is for error messages."""
    array = np.asarray(values, float)
    if array.ndim < 2 or not len(array):
        raise BayesreconError(f"{name} has shape {array.shape}; expected (records, fields)")
    table = array.reshape(len(array), -1)
    if not np.isfinite(table).all():
        raise BayesreconError(f"{name} holds missing or infinite values")
    return table
