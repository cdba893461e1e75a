"""What a private release computed from the data, as text in a file, and how a shift reads as an epsilon."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json

TIMES, LEVEL = " * ", " = "
"""Between the factors of a feature's name, and between an entry and the level of which it is the indicator."""


@dataclass(frozen=True)
class Mechanism:
    """What was computed from the data: noisy totals. Everything here is public.

    Attributes:
        epsilon, delta: differential privacy of the release.
        rho: the same as zero-concentrated differential privacy.
        neighbours: the pairs of data sets that cannot be told apart, such as "add or remove a record".
        features: names of the features whose totals these are; the scaled entries of a field lie in [-1, 1].
        ranges: `{field: (low, high)}`, to which values were clipped.
        totals: the noisy totals of these features.
        sd: standard deviation of the noise of each total.
    """

    epsilon: float
    delta: float
    rho: float
    neighbours: str
    features: tuple[str, ...]
    ranges: Mapping[str, tuple[float, float]]
    totals: tuple[float, ...]
    sd: tuple[float, ...]

    def to_json(self) -> str:
        """All fields as text, for the attribute of a file."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The mechanism of a text of `to_json`, which may come from an untrusted file.

        Raises:
            BayesreconError: it is not one.
        """
        try:
            given: Json = json.loads(text)
            numbers: Json = {name: _number(given[name]) for name in ("epsilon", "delta", "rho")}
            lists: Json = {name: tuple(map(_number, given[name])) for name in ("totals", "sd")}
            names = tuple(map(_word, given["features"]))
            ranges = {_word(k): (_number(low), _number(high)) for k, (low, high) in given["ranges"].items()}
            if set(given) != {f.name for f in fields(cls)} or len({len(names), *map(len, lists.values())}) > 1:
                raise ValueError
            return cls(**numbers, **lists, neighbours=_word(given["neighbours"]), features=names, ranges=ranges)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BayesreconError("the attribute that describes the noise of private draws is damaged") from None

    @property
    def words(self) -> str:
        """The guarantee in words."""
        return (
            f"({self.epsilon:.4g}, {self.delta:.4g})-differentially private ({self.rho:.4g}-zCDP) for data sets that "
            f"differ if you {self.neighbours}"
        )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _word(value: Any) -> str:
    if not (isinstance(value, str) and len(value) <= 400 and value.isprintable()):
        raise ValueError
    return value


def epsilon_of_shift(mu: float, delta: float = 1e-6) -> float:
    """The epsilon at which shifting a normal distribution by mu standard deviations is (epsilon, delta)-private.

        delta = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu)

    (Balle and Wang 2018, theorem 5).

    >>> [round(epsilon_of_shift(mu), 1) for mu in (0.43, 1.6, 5.2)]
    [1.9, 8.4, 37.5]
    """
    from scipy.optimize import brentq
    from scipy.special import log_ndtr, ndtr

    def excess(epsilon: float) -> float:
        first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return float(ndtr(first) - math.exp(epsilon + float(log_ndtr(second)))) - delta

    high = mu * (mu / 2 + 10.0)  # there delta is below the probability of ten standard deviations
    crossing: Any = brentq(excess, 0.0, high) if mu and excess(0.0) > 0 else 0.0
    return float(crossing)
