"""Weights of draws that stand beside them: importance weights, and how often a chain was in each of its states."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError, Note, near

NAMES = ("weight", "weights", "mult", "multiplicity", "log_weight", "log_weights")
"""Variables with one number per draw that are read as weights, unless the model has a parameter of that name."""

_FEWEST = 100  # effective draws, below which a few of the draws are nearly all that count
_OFTEN, _NUMBERS = 100, 2**25  # states are repeated up to so many times on average, and up to so many numbers in all


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of draws.

    Attributes:
        name: name of the variable.
        values: `(chains, draws)`, not negative.
    """

    name: str
    values: np.ndarray

    @property
    def counted(self) -> bool:
        """Whether they are whole numbers: visits to a state."""
        return not self.name.startswith("log") and bool((self.values == np.round(self.values)).all())


def weight_names(names: Iterable[str], parameters: Iterable[str]) -> list[str]:
    """Variables that are taken as weights by default.

    >>> weight_names(["mu", "weight"], ["mu"]), weight_names(["weight"], ["weight"])
    (['weight'], [])
    """
    return [name for name in names if name in NAMES and name not in parameters]


def weights_among(values: Mapping[str, Any], parameters: Iterable[str], requested: str | bool = True) -> Weights | None:
    """The weights among variables `(chains, draws, *shape)`.

    Args:
        values: by name.
        parameters: names that the model has.
        requested: the name of the weights; True looks for one of `NAMES`, False for none.

    Raises:
        BayesreconError: no such variable, several, or values that are no weights.

    >>> weights_among({"mu": np.zeros((1, 3)), "log_weight": np.log([[1.0, 2.0, 1.0]])}, ["mu"]).values.tolist()
    [[0.5, 1.0, 0.5]]
    """
    if requested is False:
        return None
    if isinstance(requested, str):
        if requested not in values:
            raise BayesreconError(
                f"weights={requested!r}: the draws have no variable of this name{near(requested, values)}"
            )
        candidates = [requested]
    else:
        candidates = [name for name in weight_names(values, parameters) if _one_per_draw(values[name])]
    if len(candidates) > 1:
        raise BayesreconError(
            f"the draws hold {' and '.join(candidates)}, which both look like weights; choose one with weights="
        )
    if not candidates:
        return None
    (name,) = candidates
    given = np.asarray(values[name], float)
    if not _one_per_draw(given):
        raise BayesreconError(f"weights={name!r}: its shape is {given.shape}, but one number per draw is needed")
    given = given.reshape(given.shape[:2])
    if name.startswith("log"):
        given = np.exp(given - given.max()) if np.isfinite(given.max()) else given
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise BayesreconError(
            f"{name} holds the weights of the draws, but some are negative or not finite; weights=False "
            "(--weights none) gives all draws equal weight"
        )
    return Weights(name, given)


def weighted(release: Any, weights: Weights, kept: np.ndarray) -> Any:
    """The release with weights, and a note of them.

    Args:
        kept: `(T,)` positions of its draws among those of the weights, chain by chain.
    """
    own = weights.values.reshape(-1)[kept]
    if not own.any():
        raise BayesreconError(f"{weights.name} holds the weights of the draws, but all are zero")
    if np.ptp(own) == 0:
        return release
    own = own / own.sum()
    effective = 1 / np.sum(own**2)
    if effective < min(_FEWEST, len(own)):
        raise BayesreconError(
            f"the effective sample size of {len(own)} draws weighted by {weights.name} is {effective:.0f}, below "
            f"{_FEWEST}: draw from a distribution closer to the posterior, or pass weights=False (--weights none) if "
            "these are not weights"
        )
    if weights.counted:
        meaning = f"each state is repeated as often as {weights.name} says"
    else:
        meaning = f"draws are weighted by {weights.name}: effective sample size {effective:.0f} of {len(own)}"
    note = Note(f"{meaning}; weights=False (--weights none) gives all draws equal weight")
    return replace(release, weights=own, notes=(*release.notes, note))


def in_runs(release: Any, weights: Weights, kept: np.ndarray) -> Any:
    """The draws with every state repeated as often as the chain stayed in it, which errors are computed from.

    As it is where weights are no counts, or there would be too many.
    """
    count = weights.values.reshape(-1)[kept]
    if not weights.counted or np.ptp(count) == 0:
        return release
    total = count.sum()
    if total > _OFTEN * len(count) or total * release.model.dimension > _NUMBERS:
        return release
    rows = np.repeat(np.arange(len(count)), count.astype(int))
    repeated = release.take(rows)
    return replace(repeated, weights=np.full(len(rows), 1 / len(rows)))


def _one_per_draw(values: Any) -> bool:
    return np.ndim(values) >= 2 and int(np.prod(np.shape(values)[2:])) == 1
