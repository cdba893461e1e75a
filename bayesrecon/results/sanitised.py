"""The results of `sanitise`: draws of a tilted posterior with what they hide and cost, and draws with a guarantee."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import entry
from bayesrecon.results.base import Result, by_name
from bayesrecon.results.mechanism import Mechanism, epsilon_of_shift

if TYPE_CHECKING:
    from pandas import DataFrame

    from bayesrecon.model import Model
    from bayesrecon.releases import Release


ATTRIBUTE = "bayesrecon_sanitised"
"""The attribute that marks a sanitised file."""

MEASURE = "bayesrecon_measure"
"""The attribute that names the measure: a keyed digest, which only says whether two files have the same one."""

NAME_OF_MEASURE = re.compile("[0-9a-f]{32}")

NO_END = 10**6
"""A mode counts as this many draws; larger numbers change the results only by rounding."""


@dataclass(frozen=True)
class Hidden:
    """What the best unbiased attacker can still learn about one statistic of the data.

    Attributes:
        scatter: standard deviation of the recovered value over tilts, for any number of published draws; None if the
            draws do not determine the statistic.
        se: `scatter` together with the error of these draws.
        equivalent_draws: number of independent draws from the posterior itself that would give the error `scatter`.
        verdict: verdict of `recover` on the statistic.
    """

    name: str
    scatter: float | None
    se: float | None
    equivalent_draws: float | None
    verdict: str


@dataclass(frozen=True)
class Change:
    """How far the summaries of one parameter move: root mean square over tilts, in posterior standard deviations.

    Attributes:
        mean: change of the mean.
        sd: change of the standard deviation.
        low, high: changes of the 5 % and 95 % quantiles.
    """

    name: str
    mean: float
    sd: float
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class Sanitised(Result):
    """Draws from the posterior of data that were randomly altered once; index it by a statistic's name.

    Everything except `shifts`, `units`, `bits` and what the ledger says (`account` to `left`) is computed from the
    sanitised draws, so it reveals no more than they do.

    Attributes:
        release: the draws (a release like any other), or the mode with its covariance; None in a result that was
            loaded, and after a dry run.
        source: name of what was sanitised.
        draws: number of draws; 0 for a mode with its covariance.
        worth: number of independent draws of the posterior, `1 / k^2`, where k is the standard deviation of the tilts.
        cap: the cap on the tilts, as a multiple: the scatter of this many times as many predicted records as the data
            have.
        cost: average cost of the tilts to a reader, in nats, to second order.
        measured_cost: the same cost without the approximation, measured over tilts other than the one used.
        directions: number of directions that are tilted by k (effective rank).
        statistics, changes: what is hidden, and what readers notice.
        typical_shifts: median, 95 % quantile and maximum of the shift by one record, for records as the posterior
            predicts them.
        shifts: `(N,)`, the shift by each private record, if the data were given. Do not publish it.
        units: `{column: {value: shift}}`, the shift by all records together that share a value in a column. It has the
            fields with three or more levels and the column that `records` names. Do not publish it.
        bits: for some private records, evenly spaced in their table: upper bounds in bits on what anybody learns about
            the response who knows all other records and everything else about this one. Do not publish it.
        bits_of_draws: the same bounds for the original draws.
        measure: name of the measure, which files carry: releases with other names have independent measures. It is a
            keyed digest of data, model and worth; None if `unsafe_seed` was used, and after a dry run.
        account, part: whose account the release counts in; None if `unsafe_seed` was used.
        spent: total worth of the account with this release, in draws: the largest over its parts.
        budget: the largest total worth of the account.
        left: what further releases of this part may be worth together.
    """

    _derived = ("sentence", "like_epsilon")

    source: str
    model: str
    draws: int
    worth: float
    cap: int
    cost: float
    measured_cost: float
    directions: float
    statistics: tuple[Hidden, ...]
    changes: tuple[Change, ...]
    typical_shifts: tuple[float, float, float]
    shifts: np.ndarray | None = None
    units: Mapping[str, Mapping[Any, float]] | None = None
    bits: np.ndarray | None = None
    bits_of_draws: np.ndarray | None = None
    measure: str | None = None
    account: str | None = None
    part: str | None = None
    spent: float | None = None
    budget: float | None = None
    left: float | None = None
    warnings: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    release: Any = field(default=None, init=False)
    _moments: tuple[np.ndarray, np.ndarray] | None = field(default=None, init=False, compare=False)

    def __getitem__(self, name: str) -> Hidden:
        return by_name(self.statistics, name, "statistic")

    def of_mode(self, mode: "Release", mean: np.ndarray, covariance: np.ndarray) -> "Sanitised":
        """The same result for a mode with its covariance, which has no draws and thus no sampling error."""
        statistics = tuple(replace(statistic, se=statistic.scatter) for statistic in self.statistics)
        result = replace(self, draws=0, source=mode.name.removesuffix(", sanitised"), statistics=statistics)
        object.__setattr__(result, "release", mode)
        object.__setattr__(result, "_moments", (mean, covariance))
        return result

    def in_account(self, **said: Any) -> "Sanitised":
        """The same result with what the ledger says."""
        result = replace(self, **said)
        object.__setattr__(result, "release", self.release)
        object.__setattr__(result, "_moments", self._moments)
        return result

    def without_release(self) -> "Sanitised":
        """The same result without the draws or the mode."""
        return replace(self)

    @property
    def like_epsilon(self) -> str:
        """What the typical shifts by a record would be in epsilon, in words."""
        median, quantile, largest = (f"{epsilon_of_shift(shift):.2g}" for shift in self.typical_shifts)
        return (
            f"shifts of these sizes tell as much as differential privacy of epsilon {median}, {quantile} and {largest} "
            "at delta 1e-6 may, but nothing is guaranteed: another record may move the release by more"
        )

    @property
    def published(self) -> str:
        """What is published, as text."""
        return f"{self.draws} sanitised draws" if self.draws else "a sanitised mode with its covariance"

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes that describe the draws in a file."""
        named = {} if self.measure is None else {MEASURE: self.measure}
        return {ATTRIBUTE: f"worth {self.worth:g} draws, cap {self.cap}", **named}

    @property
    def sentence(self) -> str:
        """A sentence for the paper in which the draws appear."""
        largest_change = max((max(c.mean, c.sd, c.low, c.high) for c in self.changes), default=0.0)
        return (
            f"The {self._subject} of the posterior of data that were altered at random, once, to "
            f"protect statistics of the data (bayesrecon sanitise, worth {self.worth:g} draws). Over such alterations "
            f"the published distribution diverges from the posterior by {self.measured_cost:.2g} nats on average; "
            "means, standard deviations and 5 % and 95 % quantiles of parameters move by up to "
            f"{largest_change:.2g} posterior standard deviations (root mean square). "
            f"{'The draws are' if self.draws else 'It is'} not anonymous, and the alteration is not differentially "
            "private."
        )

    @property
    def _subject(self) -> str:
        return f"{self.draws} published draws are" if self.draws else "published mode with its covariance is"

    @property
    def headline(self) -> str:
        return (
            f"{self.source}: {self.published}, worth {self.worth:g} draws of the posterior; cost {self.cost:.2g} nats"
        )

    def table(self) -> "DataFrame":
        """A table of the tilted posterior. It is computed from the sanitised draws, so it reveals no more than they do.

        Returns:
            A DataFrame with one row per parameter: its `mean`, `sd`, 5 % and 95 % quantiles, and its covariances with
            all parameters, one column each. For a mode, one row per unconstrained coordinate: its `mode`, `sd` and
            covariances.

        Raises:
            BayesreconError: the result was loaded from a file, so it has no draws.
        """
        import pandas as pd

        if self.release is None:
            raise BayesreconError("a loaded result, or that of a trial, has no draws; summarise those of the file")
        if self._moments is not None:
            return _table_of_mode(self.release.about.coordinates, *self._moments)
        values = entries_of(self.release.model, np.asarray(self.release.theta))
        draws = np.stack(list(values.values()), axis=1)
        covariance = np.atleast_2d(np.cov(draws.T))
        low, high = np.quantile(draws, (0.05, 0.95), axis=0)
        columns = {"mean": draws.mean(axis=0), "sd": draws.std(axis=0, ddof=1), "5 %": low, "95 %": high}
        result = pd.DataFrame(columns, index=pd.Index(list(values), name="parameter"))
        return result.join(pd.DataFrame(covariance, index=result.index, columns=[f"cov({name})" for name in values]))

    def to_dataframe(self) -> "DataFrame":
        """One row per statistic."""
        import pandas as pd

        rows = pd.DataFrame(
            [asdict(statistic) for statistic in self.statistics], columns=list(Hidden.__dataclass_fields__)
        )
        return rows.set_index("name")


def _table_of_mode(coordinates: Sequence[str], mean: np.ndarray, covariance: np.ndarray) -> "DataFrame":
    import pandas as pd

    index = pd.Index(list(coordinates), name="coordinate")
    table = pd.DataFrame({"mode": mean, "sd": np.sqrt(np.diag(covariance))}, index)
    return table.join(pd.DataFrame(covariance, index, [f"cov({name})" for name in coordinates]))


GUARANTEED = "bayesrecon_guaranteed"
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
        return {GUARANTEED: self.mechanism.to_json()}

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


def entries_of(model: "Model", theta: np.ndarray) -> dict[str, np.ndarray]:
    """Draws `(T,)` of every entry of every parameter by its name, from unconstrained ones `(T, d)`."""
    import jax

    from bayesrecon.precision import x64

    with x64():
        arrays = {k: np.asarray(v) for k, v in jax.vmap(model.constrain)(theta).items()}
    return {
        entry(p.name, index): arrays[p.name][(slice(None), *index)]
        for p in model.parameters
        for index in np.ndindex(p.shape)
    }


def summaries(values: Mapping[str, np.ndarray]) -> tuple[dict[str, float], dict[str, float]]:
    """Means and standard deviations of draws by name."""
    return {k: float(v.mean()) for k, v in values.items()}, {k: float(v.std(ddof=1)) for k, v in values.items()}
