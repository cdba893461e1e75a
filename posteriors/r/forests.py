"""Forests of classes of the package randomForest: how many records of each class there are.

Rows of the confusion matrix count the records of a class that some tree did not draw. Each leaf of a tree drew at least
one record of the class that it predicts, and no record twice: with k leaves and n records of a class, at least
`2 k - n` of its leaves hold a single one of their class.
"""

from collections.abc import Iterator

import numpy as np

from bayesrecon.posteriors.printed.estimates_in_files import Estimates, Statistic, exactly
from bayesrecon.posteriors.r.parts import one_number, vector_of
from bayesrecon.posteriors.r.places import Place
from bayesrecon.posteriors.r.r_objects import RObjects

_DRAWN, _FEW_DRAWN = 0.65, 0.75  # bounds of the probability that a tree draws a record, if there are many and if few
_MANY, _IN_CLASS = 12, 5  # smallest number of records, and of each class, for the first: a tree draws two classes
_NEGLIGIBLE = 1e-6  # expected number of records that all trees drew, below which there are none
_OTHER_SAMPLING = {"sampsize", "replace", "strata", "keep.inbag", "..."}  # arguments that change how trees draw
_TERMINAL = -1
_BECAUSE = (
    "rows of its confusion matrix count the records of each class that a tree did not draw, and every leaf drew a "
    "record of its class"
)


def forest(objects: RObjects, place: Place, description: str, unsupported: str) -> Estimates:
    """Statistics of a classification forest; none for others."""
    statistics = tuple(_statistics(objects, place.node))
    return Estimates(
        place.where,
        description,
        (place.where,),
        statistics=statistics,
        because=_BECAUSE if statistics else "",
        unsupported=unsupported,
    )


def _statistics(objects: RObjects, node: int) -> Iterator[Statistic]:
    labels = objects.texts(objects.element(node, "classes"))
    if objects.texts(objects.element(node, "type")) != ["classification"] or len(set(labels)) < len(labels):
        return  # an unsupervised forest has classes of real and synthetic records
    counts = _counts(objects, node, "confusion", labels)
    least = _leaves(objects, node, len(labels))
    if counts is not None:
        complete = _every_record(objects, node, counts)
        for label, count in zip(labels, counts.tolist(), strict=True):
            yield Statistic(f"n[class={label}]", count if complete else None, count, count if complete else np.inf)
        total = float(counts.sum())
        yield Statistic("n", total if complete else None, total, total if complete else np.inf)
        if complete and least is not None:
            alone = np.maximum(2 * least - counts[None, :], 0).astype(int)
            t = int(alone.sum(axis=1).argmax())
            most = int(least[t].sum())
            if alone[t].any():
                yield Statistic(
                    f"leaves of tree {t + 1} with one record of their class", None, float(alone[t].sum()), most
                )
    elif least is not None:
        for label, count in zip(labels, least.max(axis=0).tolist(), strict=True):
            yield Statistic(f"n[class={label}]", None, float(count), np.inf)
    tested = _counts(objects, objects.element(node, "test"), "confusion", labels)
    if tested is not None:
        for label, count in zip(labels, tested.tolist(), strict=True):
            yield exactly(f"n[tested class={label}]", count)


def _counts(objects: RObjects, node: int, name: str, labels: list[str]) -> np.ndarray | None:
    """Sums of the rows of a confusion matrix; None if its last column is not the error of each class."""
    table = np.asarray(objects.array(objects.element(node, name)), float)
    k = len(labels)
    if k < 2 or table.shape != (k, k + 1) or np.any(table[:, :k] < 0) or np.any(table[:, :k] % 1):
        return None
    if not np.isfinite(table[:, :k]).all():
        return None
    counts = table[:, :k].sum(axis=1)
    right = np.diag(table[:, :k])
    full = counts > 0
    if not np.allclose(table[full, k], 1 - right[full] / counts[full], rtol=0, atol=1e-9):
        return None
    return counts


def _every_record(objects: RObjects, node: int, counts: np.ndarray) -> bool:
    """Whether the confusion matrix counts all records, because each was left out by some tree.

    A class with one record needs the larger bound: every tree draws a record of at least two classes.
    """
    counted = float(counts.sum())
    times = vector_of(objects, node, "oob.times")
    if len(times):
        return bool(np.all(times > 0)) and len(times) == counted
    call = objects.element(node, "call")
    if objects.kind(call) != "call":
        return False  # every tree may have drawn all records
    arguments = {name for name, _ in objects.elements(call)}
    trees = one_number(objects, node, "ntree")
    drawn = _DRAWN if counted >= _MANY and counts.min() >= _IN_CLASS else _FEW_DRAWN
    if trees is None or trees < 1 or arguments & _OTHER_SAMPLING or counts.min() < 1:
        return False
    return counted * drawn**trees < _NEGLIGIBLE


def _leaves(objects: RObjects, node: int, classes: int) -> np.ndarray | None:
    """Numbers of leaves `(trees, classes)` that predict each class; None if the forest was not saved."""
    trees = objects.element(node, "forest")
    status, predicted = (
        np.asarray(objects.array(objects.element(trees, k)), float) for k in ("nodestatus", "nodepred")
    )
    sizes = vector_of(objects, trees, "ndbigtree")
    if status.ndim != 2 or status.shape != predicted.shape or status.shape[1] != len(sizes) or not len(sizes):
        return None
    if not np.isfinite(sizes).all() or np.any((sizes < 1) | (sizes > len(status))):
        return None
    used = np.arange(len(status))[:, None] < sizes[None, :]
    ends = used & (status == _TERMINAL)
    if np.any(ends & ~np.isin(predicted, np.arange(1, classes + 1))) or np.any(~ends.any(axis=0)):
        return None
    return np.stack([(ends & (predicted == k + 1)).sum(axis=0) for k in range(classes)], axis=1)
