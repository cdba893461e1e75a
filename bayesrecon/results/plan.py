"""The result of `plan`: what an attacker would recover from fewer draws, fewer digits or summaries."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.diagnostics import Z95
from bayesrecon.errors import BayesreconError
from bayesrecon.results.base import Result, by_name

if TYPE_CHECKING:
    from pandas import DataFrame

EXACT = 15
"""Significant digits that stand for full precision."""


def _digits(count: int) -> str:
    return f"{'all' if count == EXACT else count} digits"


@dataclass(frozen=True)
class Outlook:
    """One statistic of the private data, and what an attacker would recover of it from each release.

    Attributes:
        estimate: estimate from all draws.
        se: `{number of draws: predicted standard error}`.
        shift: `{significant digits: predicted change of the estimate}` if all draws are rounded. Zero if `recover`
            corrects for the rounding.
        moments: `{number of draws: predicted standard error}` if the mean and covariance of the draws are published.
        mode: `{significant digits: half width of the interval}` if a mode with its covariance is published. `EXACT`
            stands for full precision.
        variational: like `mode`, for a converged full-rank normal variational fit.
        mean_field: like `mode`, for a converged variational fit with independent coordinates.
        sanitised: `{worth: predicted standard error}` of sanitised draws, for any number of published draws
            (`sanitise`). Worths that are not supported are left out.

    In the last five, None means that the attack recovers nothing. It does not prove that nothing can be recovered.
    """

    name: str
    estimate: float
    se: dict[int, float]
    shift: dict[int, float]
    moments: dict[int, float | None] = field(default_factory=dict)
    mode: dict[int, float | None] = field(default_factory=dict)
    variational: dict[int, float | None] = field(default_factory=dict)
    mean_field: dict[int, float | None] = field(default_factory=dict)
    sanitised: dict[int, float | None] = field(default_factory=dict)

    def half_width(self, draws: int) -> float:
        """Half the width of the 95 % interval from this number of draws."""
        return Z95 * self.se[draws]

    def error(self, draws: int, digits: int | None = None) -> float:
        """Predicted root mean squared error from this number of draws, rounded to this number of digits."""
        return float(np.hypot(self.se[draws], self.shift[digits] if digits is not None else 0.0))


@dataclass(frozen=True)
class Series:
    """What each of several sanitised releases to come may be worth, in draws.

    Attributes:
        releases: their number.
        account: name of the ledger's account.
        spent: worth that the account has spent.
        budget: its budget, the one that was stated, or else the smallest one that allows all releases.
        least: smallest worth that is supported.
        each: worth that each may have if they may be about the same people; None if the budget does not allow all.
        apart: worth that each may have if it is a part of its own, which shares nobody with the others; None if the
            budget does not allow any.
    """

    releases: int
    account: str
    spent: float
    budget: float
    least: float
    each: float | None
    apart: float | None

    @property
    def worths(self) -> set[int]:
        """What an attacker may hold of one person: one release, all of them, or one of a part of its own."""
        together = () if self.each is None else (self.each, self.releases * self.each)
        return {int(worth) for worth in (*together, self.apart) if worth is not None}

    @property
    def fitting(self) -> int:
        """The number of releases about the same people that the budget allows at the smallest worth."""
        return int(max(0.0, self.budget - self.spent) // self.least)

    @property
    def needed(self) -> int:
        """The smallest budget for all releases if they may be about the same people."""
        return math.ceil(self.spent + self.releases * self.least)

    @property
    def sentence(self) -> str:
        """What each may be worth, in words."""
        start = (
            f"{self.releases} releases of account {self.account}, which has spent {self.spent:.12g} of a budget of "
            f"{self.budget:.12g} draws' worth: "
        )
        apart = "if each is a part that shares nobody with the others, " + (
            "none is allowed" if self.apart is None else f"each may be worth {self.apart:.12g}"
        )
        if self.each is None:
            together = f"{self.fitting} of them fit, worth {self.least:.12g} each; all need budget={self.needed}"
        else:
            together = (
                f"each may be worth {self.each:.12g}, and together they are worth {self.releases * self.each:.12g}"
            )
        return f"{start}if they may be about the same people, {together}; {apart}"


@dataclass(frozen=True)
class Price:
    """What a guarantee would cost the readers of the draws (`sanitise(epsilon=...)`).

    Attributes:
        epsilon, delta: the guarantee, for a record that is added or removed.
        widths: `{coordinate: ratio}`, the predicted width of an interval, in widths of the plain posterior.
        nats: predicted divergence of the published posterior from the plain one.
    """

    epsilon: float
    delta: float
    widths: dict[str, float]
    nats: float

    @property
    def sentence(self) -> str:
        """The price in words."""
        low, high = min(self.widths.values()), max(self.widths.values())
        return (
            f"epsilon {self.epsilon:g} at delta {self.delta:g}: intervals {low:.3g} to {high:.3g} times as wide as "
            f"those of the plain posterior, {self.nats:.2g} nats"
        )


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """An attacker's error of each statistic after thinning, rounding or other remedies. Index it by name."""

    plotted_by = "diagnosis.plot_plan"

    release: str
    draws: int
    outlooks: tuple[Outlook, ...]
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    model: str = ""
    series: Series | None = None
    """What each of the `releases` to come may be worth."""
    prices: tuple[Price, ...] = ()
    """What each epsilon would cost."""

    def __getitem__(self, name: str) -> Outlook:
        return by_name(self.outlooks, name, "statistic")

    def most_draws(self, name: str, precision: float) -> int:
        """The largest number of draws for which the standard error is at least `precision`.

        Between and beyond the planned numbers, the error is proportional to one over the square root of the number of
        draws.
        """
        if not precision > 0:
            raise BayesreconError(f"precision={precision}: the standard error to keep must be positive")
        planned = self[name].se
        nearest = min(planned, key=lambda t: abs(np.log(planned[t] / precision)))
        return int(nearest * (planned[nearest] / precision) ** 2)

    def as_protective(self, name: str, worth: int) -> dict[str, float | None]:
        """The size of each other remedy that leaves as large an error of a statistic as sanitised draws do.

        Args:
            worth: worth of the sanitised draws, one that was planned for.

        Returns:
            `{remedy: size}`; None if no planned size suffices. `draws` and `draws of mean and covariance` are the
            largest numbers that may be published. `digits` of the draws, and `mode, digits`,
            `variational fit, digits` and `mean field, digits`, are the largest planned numbers. `digits` overstates the
            protection, because an attacker who knows the rounding step can undo much of the shift.

        Raises:
            BayesreconError: the worth was not planned for, or its distribution is not known.
        """
        outlook = self[name]
        error = outlook.sanitised.get(worth)
        if not error:
            planned = ", ".join(str(w) for w, s in outlook.sanitised.items() if s) or "none"
            raise BayesreconError(f"worth={worth}: sanitised draws were planned for a worth of {planned}")
        sizes: dict[str, float | None] = {"draws": self.most_draws(name, error)}
        moments = {t: s for t, s in outlook.moments.items() if s}
        if moments:
            nearest = min(moments, key=lambda t: abs(np.log(moments[t] / error)))
            sizes["draws of mean and covariance"] = int(nearest * (moments[nearest] / error) ** 2)
        widths_by_remedy = {
            "mode, digits": outlook.mode,
            "variational fit, digits": outlook.variational,
            "mean field, digits": outlook.mean_field,
        }
        for remedy, errors, multiple in (
            ("digits", outlook.shift, 1.0),
            *((w, widths, Z95) for w, widths in widths_by_remedy.items()),
        ):
            if errors:
                sizes[remedy] = max((k for k, s in errors.items() if s and s >= multiple * error), default=None)
        return sizes

    def to_dataframe(self) -> "DataFrame":
        """One row per statistic.

        Columns are `se @ T draws` and `shift @ k digits`; for summaries `se @ moments of T` and
        `half width @ mode, k digits`, the latter also with `variational fit` and `mean field`; and
        `se @ sanitised, worth W`.
        """
        import pandas as pd

        rows = {
            o.name: {
                "estimate": o.estimate,
                **{f"se @ {t} draws": s for t, s in o.se.items()},
                **{f"shift @ {k} digits": s for k, s in o.shift.items()},
                **{f"se @ moments of {t}": s for t, s in o.moments.items()},
                **{f"half width @ mode, {_digits(k)}": s for k, s in o.mode.items()},
                **{f"half width @ variational fit, {_digits(k)}": s for k, s in o.variational.items()},
                **{f"half width @ mean field, {_digits(k)}": s for k, s in o.mean_field.items()},
                **{f"se @ sanitised, worth {w}": s for w, s in o.sanitised.items()},
            }
            for o in self.outlooks
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    @property
    def headline(self) -> str:
        return f"{self.release}: an attacker's errors from {self.draws} draws, fewer draws or digits, or summaries"
