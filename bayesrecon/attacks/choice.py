"""The default attack for a release."""

from collections.abc import Mapping

from bayesrecon.attacks.attack import Attack, attacks
from bayesrecon.divergence.output_embedding import Outputs
from bayesrecon.errors import BayesreconError
from bayesrecon.pairs import ApproximatedPair, DrawsPair, TrainedPair
from bayesrecon.releases import Release, TrainedParameter
from bayesrecon.results.base import Result

_WIDE = 100  # with more parameters, networks are attacked by gradient matching: their kernel has too many features


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
"""Names of attacks by type of release, as functions of the release and the attacker's knowledge. The first type that
matches counts."""


def suited(release: object, knows: Mapping[str, object], **options: object) -> Attack[Result]:
    """The default attack for a release, with the options that are not None.

    Raises `BayesreconError` for an option that this attack does not have.
    """
    name = next((choose(release, knows) for kind, choose in _NAMES.items() if isinstance(release, kind)), "")
    attack = attacks().get(name, attacks()["weighted-records"])  # whose check refuses other objects
    stated = {k: v for k, v in options.items() if v is not None}
    for option in stated:
        if option not in attack.options():
            raise BayesreconError(
                f"{option}= is not an option of {name}, the default attack here; choose one with attack="
            )
    return attack(**stated)
