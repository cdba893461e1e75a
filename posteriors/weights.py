"""Weights of draws: importance weights, and the number of visits of a chain to each state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError, Note, near

NAMES = ("weight", "weights", "mult", "multiplicity", "log_weight", "log_weights")
"""Variables with one number per draw that are read as weights, unless the model has a parameter of that name."""

_FEWEST = 100  # smallest effective sample size that is accepted
_REPETITIONS, _NUMBERS = 100, 2**25  # largest mean number of repetitions per state, and of numbers of all draws


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
        """Whether weights are whole numbers, the visits to each state."""
        return not self.name.startswith("log") and bool((self.values == np.round(self.values)).all())


def weight_names(names: Iterable[str], parameters: Iterable[str]) -> list[str]:
    """Variables that are taken as weights by default.

    >>> weight_names(["mu", "weight"], ["mu"]), weight_names(["weight"], ["weight"])
    (['weight'], [])
    """
    return [name for name in names if name in NAMES and name not in parameters]


def weights_among(
    values: Mapping[str, Array], parameters: Iterable[str], requested: str | bool = True
) -> Weights | None:
    """The weights among variables of draws, or None.

    Args:
        values: `{name: (chains, draws, *shape)}`.
        parameters: names of the model's parameters, which are not weights.
        requested: the name of the weights. True looks for one of `NAMES`, False for none.
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
    numbers = np.asarray(values[name], float)
    if not _one_per_draw(numbers):
        raise BayesreconError(f"weights={name!r}: its shape is {numbers.shape}, but one number per draw is needed")
    numbers = numbers.reshape(numbers.shape[:2])
    if name.startswith("log"):
        numbers = np.exp(numbers - numbers.max()) if np.isfinite(numbers.max()) else numbers
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise BayesreconError(
            f"{name} holds the weights of the draws, but some are negative or not finite; weights=False "
            "(--weights none) gives all draws equal weight"
        )
    return Weights(name, numbers)


def weighted(release: Any, weights: Weights, positions: np.ndarray) -> Any:
    """The release with weights, and a note about them.

    Args:
        release: the draws.
        weights: weights of these and perhaps other draws.
        positions: `(T,)`, positions of the release's draws among those of the weights, chain by chain.
    """
    numbers = weights.values.reshape(-1)[positions]
    if not numbers.any():
        raise BayesreconError(f"{weights.name} holds the weights of the draws, but all are zero")
    if np.ptp(numbers) == 0:
        return release
    numbers = numbers / numbers.sum()
    effective = 1 / np.sum(numbers**2)
    if effective < min(_FEWEST, len(numbers)):
        raise BayesreconError(
            f"the effective sample size of {len(numbers)} draws weighted by {weights.name} is {effective:.0f}, below "
            f"{_FEWEST}: draw from a distribution closer to the posterior, or pass weights=False (--weights none) if "
            "these are not weights"
        )
    if weights.counted:
        meaning = f"each state is repeated as often as {weights.name} says"
    else:
        meaning = f"draws are weighted by {weights.name}: effective sample size {effective:.0f} of {len(numbers)}"
    note = Note(f"{meaning}; weights=False (--weights none) gives all draws equal weight")
    return replace(release, weights=numbers, notes=(*release.notes, note))


def in_runs(release: Any, weights: Weights, positions: np.ndarray) -> Any:
    """The release with each state repeated as often as the chain visited it, so that errors can be computed.

    It is unchanged if weights are not counts, or if there would be too many draws.

    Args:
        release, weights, positions: as in `weighted`.
    """
    counts = weights.values.reshape(-1)[positions]
    if not weights.counted or np.ptp(counts) == 0:
        return release
    total = counts.sum()
    if total > _REPETITIONS * len(counts) or total * release.model.dimension > _NUMBERS:
        return release
    rows = np.repeat(np.arange(len(counts)), counts.astype(int))
    repeated = release.take(rows)
    return replace(repeated, weights=np.full(len(rows), 1 / len(rows)))


def _one_per_draw(values: Array) -> bool:
    return np.ndim(values) >= 2 and int(np.prod(np.shape(values)[2:])) == 1
