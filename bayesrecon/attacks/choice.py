"""The attack that suits a release, chosen in one place."""

from collections.abc import Mapping
from typing import Any

from bayesrecon.attacks.attack import Attack, attacks
from bayesrecon.errors import BayesreconError
from bayesrecon.kernels.output_embedding import Outputs
from bayesrecon.pairs import ApproximatedPair, DrawsPair, TrainedPair
from bayesrecon.releases import Release, TrainedParameter

_WIDE = 100  # parameters from which a trained model is matched by its gradient: its kernel has as many features


def _of_trained(release: TrainedParameter, knows: Mapping[str, object]) -> str:
    network = release.model.linear is None and release.model.dimension >= _WIDE
    return "gradient-matching" if network and not knows.get("known") else "weighted-records"


_NAMES = {
    DrawsPair: lambda release, knows: "tilt",
    TrainedPair: lambda release, knows: "hrec",
    ApproximatedPair: lambda release, knows: "difference",
    Outputs: lambda release, knows: "linear-decoding",
    TrainedParameter: lambda release, knows: "single-records" if knows.get("unit") else _of_trained(release, knows),
    Release: lambda release, knows: "single-records" if knows.get("unit") else "weighted-records",
}
"""By the kind of a release, the first that it is of, and what is known of its data."""


def suited(release: object, knows: Mapping[str, object], **options: Any) -> Attack[Any]:
    """The attack that suits a release, with options that are not None.

    Raises `BayesreconError` for an option that it does not have.
    """
    name = next((choose(release, knows) for kind, choose in _NAMES.items() if isinstance(release, kind)), "")
    made = attacks().get(name, attacks()["weighted-records"])  # which refuses what is no release
    given = {k: v for k, v in options.items() if v is not None}
    for option in given:
        if option not in made.options():
            raise BayesreconError(f"{option}= has no part in {name}, which suits this release and what is known of it")
    return made(**given)
