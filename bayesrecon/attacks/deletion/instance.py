"""The deleted instance of a classifier, from the points whose label changed (Gao et al. 2022, algorithm 4.3).

In a nearest-neighbour classifier, a deletion changes labels only inside the deleted record's own cell. Let records be
binary with unique labels, and points uniform in {0, 1}^d. Then every coordinate of a point in the cell agrees with the
record with probability 1/2 or more (lemma 4.4), because flipping a coordinate that differs keeps the point in the cell.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from bayesrecon.errors import BayesreconError

MEDIAN, MEAN = "median", "mean"


@dataclass(frozen=True, eq=False)
class Changed:
    """The points whose label changed.

    Attributes:
        rows: rows of the points, `(c,)`. If there are none, `x` and `label` are None.
        x: `(p,)`, the centre of these points.
        label: the class that lost most of them.
    """

    rows: np.ndarray
    x: Float[np.ndarray, " p"] | None = None
    label: int | None = None


def deleted_instance(
    points: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    centre: str = MEDIAN,
) -> Changed:
    """Reconstruct the deleted instance: the centre of the points whose label changed.

    Args:
        points: `(m, p)`, chosen without the deleted record.
        before, after: `(m, K)`, answers of both models: probabilities or scores of classes. The largest is the label.
        centre: "median" or "mean" of every coordinate. For zeros and ones, the median is the majority, or 1/2 if there
            are as many zeros as ones.

    Raises:
        BayesreconError: the shapes do not match, or `centre` is unknown.

    >>> points = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    >>> before, after = np.eye(2)[[0, 0, 1, 1]], np.eye(2)[[1, 1, 1, 1]]
    >>> found = deleted_instance(points, before, after)
    >>> found.rows.tolist(), found.x.tolist(), found.label
    ([0, 1], [0.0, 0.5], 0)
    """
    points, before, after = np.asarray(points), np.asarray(before, float), np.asarray(after, float)
    if points.ndim != 2 or before.ndim != 2 or before.shape != after.shape or len(before) != len(points):
        shapes = f"{points.shape}, {before.shape}, {after.shape}"
        raise BayesreconError(f"expected points (m, p) and answers (m, K) of both models, got {shapes}")
    if centre not in (MEDIAN, MEAN):
        raise BayesreconError(f"centre={centre!r}: expected {MEDIAN} or {MEAN}")
    labels = before.argmax(axis=1)
    rows = np.flatnonzero(labels != after.argmax(axis=1))
    if not len(rows):
        return Changed(rows)
    label = int((after - before)[rows].sum(axis=0).argmin())
    return Changed(rows, (np.median if centre == MEDIAN else np.mean)(points[rows], axis=0), label)
