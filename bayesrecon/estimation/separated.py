"""Independent records if most coordinates belong to one group each, and a few are shared by all groups.

Sorted by groups, the matrix of scores is an arrow matrix with blocks L_g above the shared rows S_g. Let N_g span the
null space of L_g. Then

    | L_1          |
    |      L_2     |      rank = sum_g rank L_g + rank [S_1 N_1, S_2 N_2, ...],   L_g N_g = 0.
    | S_1  S_2 ... |

So no matrix with all records and all coordinates has to be decomposed. The rank does not depend on the metric, so the
coordinates are not whitened.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

_NONE = -1  # marks that a record has no coordinate here
_SHARED = 0.25  # a coordinate that a larger share of the records touches is shared
_LARGEST = 0.5  # if one group has a larger share of the records, the decomposition is not worthwhile
# Relative size below which a remainder is rounding, and the smallest gap between features and rounding, as for spectra.
_ROUNDING, _GAP = 1e-9, 1e3


@dataclass(frozen=True)
class _Eliminated:
    """A group after elimination of its own coordinates.

    Attributes:
        determined: records that are independent in the group's own coordinates.
        others: the other records.
        remainder: remainder of the others in the shared rows, `(rows, others)`.
    """

    determined: np.ndarray
    others: np.ndarray
    remainder: np.ndarray


def independent(index: np.ndarray, slopes: np.ndarray) -> np.ndarray | None:
    """Positions of records whose scores span those of all records; None if there is no clear gap.

    Args:
        index: `(q, M)` the coordinates that records touch; -1 for none.
        slopes: `(q, C, M)` scores in these coordinates, for records scaled to length one.
    """
    count, atoms = index.shape[1], slopes.shape[1]
    coordinates, touched = np.unique(index[index != _NONE], return_counts=True)
    shared = coordinates[touched > _SHARED * count]
    groups = _groups(index, coordinates[touched <= _SHARED * count])
    if groups is None:
        return None
    eliminated = []
    for group in groups:
        touched_by_group, slopes_of_group = index[:, group], slopes[:, :, group]
        own_coordinates = np.setdiff1d(touched_by_group[touched_by_group != _NONE], shared)
        reduced = _eliminated(
            group,
            _rows(touched_by_group, slopes_of_group, own_coordinates),
            _rows(touched_by_group, slopes_of_group, shared),
        )
        if reduced is None:
            return None
        eliminated.append(reduced)
    remainder = np.concatenate([one.remainder for one in eliminated], axis=1)
    others = np.concatenate([one.others for one in eliminated])
    chosen: list[np.ndarray] = [one.determined for one in eliminated]
    if remainder.size:
        pivoted: Any = scipy.linalg.qr(remainder, mode="r", pivoting=True, check_finite=False)
        rank = _ending(np.abs(np.diag(pivoted[0])), 1.0)
        if rank is None or rank >= min(len(shared) * atoms, len(others)):
            return None
        chosen.append(others[pivoted[1][:rank]])
    return np.sort(np.concatenate(chosen))


def _groups(index: np.ndarray, own: np.ndarray) -> list[np.ndarray] | None:
    """Groups of records that are connected through common coordinates in `own`; None if there are too few groups."""
    count = index.shape[1]
    colours, records = np.nonzero(np.isin(index, own))
    columns = count + np.searchsorted(own, index[colours, records])
    size = count + len(own)
    graph = scipy.sparse.csr_array((np.ones(len(records)), (records, columns)), (size, size))
    labels = scipy.sparse.csgraph.connected_components(graph, directed=False)[1][:count]
    order = np.argsort(labels, kind="stable")
    groups = np.split(order, 1 + np.flatnonzero(np.diff(labels[order])))
    return groups if max(map(len, groups)) <= _LARGEST * count else None


def _rows(index: np.ndarray, slopes: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """Slopes of records `(q, C, M)` along some coordinates, a row for each and every atom, `(k C, M)`."""
    rows = np.zeros((len(coordinates), *slopes.shape[1:]))
    for touched, slope in zip(index, slopes, strict=True):
        for i, coordinate in enumerate(coordinates):
            rows[i][:, touched == coordinate] += slope[:, touched == coordinate]
    return rows.reshape(-1, slopes.shape[2])


def _eliminated(group: np.ndarray, own: np.ndarray, shared: np.ndarray) -> _Eliminated | None:
    if not own.size:
        return _Eliminated(group[:0], group, shared)
    pivoted: Any = scipy.linalg.qr(own, mode="r", pivoting=True, check_finite=False)
    triangle, order = pivoted
    diagonal = np.abs(np.diag(triangle))
    rank = _ending(diagonal, diagonal[0])
    if rank is None or rank >= min(own.shape):  # as many features as records: there may be more
        return None
    determined, others = order[:rank], order[rank:]
    share = scipy.linalg.solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:], check_finite=False)
    return _Eliminated(group[determined], group[others], shared[:, others] - shared[:, determined] @ share)


def _ending(diagonal: np.ndarray, size: float) -> int | None:
    """The number of features among decreasing sizes; None if there is no clear gap between features and rounding."""
    rank = int((diagonal > _ROUNDING * size).sum())
    if rank in (0, len(diagonal)):
        return rank
    return rank if diagonal[rank - 1] >= _GAP * diagonal[rank] else None
