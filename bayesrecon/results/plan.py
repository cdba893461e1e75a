"""The result of `plan`: what thinner or rounder releases would leave."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.results.base import Result


@dataclass(frozen=True)
class Outlook:
    """One statistic of the private data and what an attacker would get of it.

    Attributes:
        estimate: from all draws.
        se: `{number of draws: predicted standard error}`.
        shift: `{significant digits: predicted change of the estimate}` when all draws are rounded; zero where `recover`
            makes good for it.
    """

    name: str
    estimate: float
    se: dict[int, float]
    shift: dict[int, float]

    def error(self, draws: int, digits: int | None = None) -> float:
        """Predicted root mean squared error with so many draws, rounded to so many digits."""
        return float(np.hypot(self.se[draws], self.shift[digits] if digits is not None else 0.0))


@dataclass(frozen=True, repr=False)
class Plan(Result):
    """What thinning and rounding would leave, per statistic; index it by name."""

    release: str
    draws: int
    outlooks: tuple[Outlook, ...]
    failures: tuple[str, ...] = ()
    model: str = ""

    def __getitem__(self, name: str) -> Outlook:
        for outlook in self.outlooks:
            if outlook.name == name:
                return outlook
        raise KeyError(name)

    def most_draws(self, name: str, precision: float) -> int:
        """The largest number of draws that still leaves a standard error of at least `precision`.

        Between and beyond the planned numbers the error falls as one over the square root of the draws.
        """
        if not precision > 0:
            raise BayesreconError(f"precision={precision}: the standard error to keep must be positive")
        planned = self[name].se
        nearest = min(planned, key=lambda t: abs(np.log(planned[t] / precision)))
        return int(nearest * (planned[nearest] / precision) ** 2)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return self._document(**{k: v for k, v in asdict(self).items() if k != "failures"})

    def to_dataframe(self) -> Any:
        """One row per statistic; columns `se @ T draws` and `shift @ k digits`."""
        import pandas as pd

        rows = {
            o.name: {
                "estimate": o.estimate,
                **{f"se @ {t} draws": s for t, s in o.se.items()},
                **{f"shift @ {k} digits": s for k, s in o.shift.items()},
            }
            for o in self.outlooks
        }
        return pd.DataFrame.from_dict(rows, orient="index")

    def plot(self, ax: Any = None) -> Any:
        """Predicted errors against the number of draws; see `bayesrecon.plots.plot_plan`."""
        return self.drawn("plot_plan", ax=ax)

    @property
    def headline(self) -> str:
        return f"{self.release}: what thinning and rounding {self.draws} draws would leave"
