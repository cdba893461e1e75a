"""Pairs of releases around a deletion, one type for each kind of pair."""

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from bayesrecon.errors import BayesreconError


def shortly(what: str) -> str:
    """A description up to its first colon or comma.

    >>> shortly("limits of statistics, without equations of the data")
    'limits of statistics'
    """
    return what.partition(":")[0].partition(",")[0]


class Unchanged(BayesreconError):
    """Two releases that do not differ by more than two from the same records do."""


@dataclass(frozen=True, eq=False)
class Deletion:
    """Two releases around a deletion: `before` was computed with the record, and `after` without it."""

    what: ClassVar[str] = "two releases around a deletion"

    before: Any
    after: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class DrawsPair(Deletion):
    """A pair of posterior draws."""

    what: ClassVar[str] = "posterior draws around a deletion"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TrainedPair(Deletion):
    """A pair of trained parameters."""

    what: ClassVar[str] = "trained parameters around a deletion"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class ApproximatedPair(Deletion):
    """A pair of approximations, which include summaries, fits and log densities."""

    what: ClassVar[str] = "approximations around a deletion"


def paired(before: Any, after: Any) -> Deletion:
    """A checked pair, of the type that belongs to the kind of the two releases.

    Raises:
        BayesreconError: the releases differ in model, settings or kind, or they are identical; or one of them is no
            single release of parameters.
    """
    for name, release in (("before", before), ("after", after)):
        if getattr(release, "pair", None) is None:
            raise BayesreconError(
                f"{name} is {shortly(release.what)}; supply posterior draws, trained parameters or an approximation"
            )
    if before.about is not after.about:
        sizes = before.theta.shape[1], after.theta.shape[1]
        if before.model.name == after.model.name and sizes[0] != sizes[1]:
            raise BayesreconError(
                f"before has {sizes[0]} parameters and after {sizes[1]}, so their models differ by more than a record; "
                "retrain with the same features and classes"
            )
        first, second = before.model.settings, after.model.settings
        changed = [f"{k} {first[k]} and {second[k]}" for k in first if k in second and first[k] != second[k]]
        if before.model.name == after.model.name and changed:
            raise BayesreconError(
                f"before and after were trained differently ({', '.join(changed)}), which moves the parameters "
                "more than a record does; retrain with one setting"
            )
        raise BayesreconError(
            f"the two releases belong to different models ({before.model.name} and {after.model.name}); "
            "read both with the same model object"
        )
    if before.pair is not after.pair:
        raise BayesreconError(
            f"one release holds {shortly(before.what)} and the other {shortly(after.what)}; supply two of one kind"
        )
    same_parameters = before.model is after.model and before.theta.shape == after.theta.shape
    if same_parameters and np.array_equal(before.theta, after.theta):
        raise Unchanged("before and after are identical: nothing was deleted, or one file was given twice")
    return before.pair(before, after)
