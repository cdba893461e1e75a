"""The result of `sanitise` with an epsilon: draws from a posterior that knows its noise, and what is guaranteed."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame

ATTRIBUTE = "bayesrecon_guaranteed"
"""The attribute that marks a file of such draws, and holds their `Mechanism`."""

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
            numbers = {name: _number(given[name]) for name in ("epsilon", "delta", "rho")}
            lists = {name: tuple(map(_number, given[name])) for name in ("totals", "sd")}
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


@dataclass(frozen=True, repr=False)
class Guaranteed(Result):
    """Draws that may be published with a guarantee of differential privacy.

    Everything except what the ledger says (`account` to `spent_epsilon`) is computed from public inputs and from the
    noisy totals, so it may be published with the draws.

    Attributes:
        model: name of the model.
        mechanism: what was computed from the data, and what is guaranteed.
        draws: number of draws.
        means, sds: mean and standard deviation of each parameter's entry in these draws, by name.
        account, part: whose account of the ledger the release counts in.
        spent_rho: total rho of the account with this release, the largest over its parts.
        spent_epsilon: the epsilon of all these releases together, at this delta.
        release: the draws, a release like any other; None in a result that was loaded, and after a trial.
    """

    model: str
    mechanism: Mechanism
    draws: int
    means: Mapping[str, float]
    sds: Mapping[str, float]
    account: str | None = None
    part: str | None = None
    spent_rho: float | None = None
    spent_epsilon: float | None = None
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    release: Any = field(default=None, init=False, compare=False)

    @property
    def condition(self) -> str:
        return "if the ranges were public knowledge"

    @property
    def headline(self) -> str:
        return f"{self.model}: {self.draws} draws, {self.mechanism.words}"

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes that describe the draws in a file."""
        return {ATTRIBUTE: self.mechanism.to_json()}

    @property
    def sentence(self) -> str:
        """A sentence for the paper in which the draws appear."""
        ranges = ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in self.mechanism.ranges.items())
        return (
            f"The {self.draws} published draws are {self.mechanism.words} (bayesrecon sanitise). They are draws of the "
            f"posterior given {len(self.mechanism.totals)} noisy totals over records clipped to public ranges "
            f"({ranges}); the posterior takes the noise into account, but not the clipping."
        )

    def having(self, release: Any, **changes: Any) -> Self:
        """The same result with these draws, and other changes."""
        result = replace(self, **changes)
        object.__setattr__(result, "release", release)
        return result

    def hidden(self) -> Self:
        """The result of a trial, without the draws and everything else that was computed from the data."""
        blank = {"totals": (0.0,) * len(self.mechanism.totals)}
        return replace(self, means={}, sds={}, mechanism=replace(self.mechanism, **blank))

    def to_dict(self) -> Json:
        """Plain types only, without the draws."""
        names = [f.name for f in fields(self) if f.name not in ("mechanism", "release", "warnings", "failures")]
        return self._document(
            **{name: getattr(self, name) for name in names},
            mechanism=json.loads(self.mechanism.to_json()),
            sentence=self.sentence,
        )

    def to_dataframe(self) -> "DataFrame":
        """One row per entry of a parameter, with its mean and standard deviation."""
        import pandas as pd

        frame = pd.DataFrame({"mean": dict(self.means), "sd": dict(self.sds)}, dtype=float)
        return frame.rename_axis("parameter")


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
    return float(brentq(excess, 0.0, high)) if mu and excess(0.0) > 0 else 0.0


def summaries(values: Mapping[str, np.ndarray]) -> tuple[dict[str, float], dict[str, float]]:
    """Means and standard deviations of draws by name."""
    return {k: float(v.mean()) for k, v in values.items()}, {k: float(v.std(ddof=1)) for k, v in values.items()}
