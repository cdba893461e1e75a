"""The result of `sanitise` with an epsilon: draws from a posterior that knows its noise, and what is guaranteed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayesrecon.results.base import Result
from bayesrecon.results.mechanism import Mechanism

if TYPE_CHECKING:
    from pandas import DataFrame

ATTRIBUTE = "bayesrecon_guaranteed"
"""The attribute that marks a file of such draws, and holds their `Mechanism`."""


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

    _derived = ("sentence",)

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

    def to_dataframe(self) -> "DataFrame":
        """One row per entry of a parameter, with its mean and standard deviation."""
        import pandas as pd

        frame = pd.DataFrame({"mean": dict(self.means), "sd": dict(self.sds)}, dtype=float)
        return frame.rename_axis("parameter")


def summaries(values: Mapping[str, np.ndarray]) -> tuple[dict[str, float], dict[str, float]]:
    """Means and standard deviations of draws by name."""
    return {k: float(v.mean()) for k, v in values.items()}, {k: float(v.std(ddof=1)) for k, v in values.items()}
