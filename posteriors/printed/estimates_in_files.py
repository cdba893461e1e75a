"""Estimates that lie in a file with other things: what a printed table would say, with all digits."""

import re
from dataclasses import dataclass

import numpy as np

WEIGHTED = "the fit has weights"
"""Why estimates are not attacked, where their rows do not count alike."""


def last_step(deviances: float, deviance: float) -> float:
    """Length in standard errors of a step near the optimum by which the deviance fell by so much: of `delta' I delta`
    the root, where arithmetic leaves the deviance its digits.

    >>> last_step(1e-8, 0.0)
    0.0001
    """
    return float(np.sqrt(max(deviances, 0.0) + _DIGITS * abs(deviance)))


_DIGITS = 1e-14  # of a sum of many terms, whose own are 2e-16


def field_name(name: str) -> str:
    """A name as a field of a record can have it.

    >>> field_name("log(age)")
    'log_age_'
    """
    return re.sub(r"\W", "_", name) or "x"


@dataclass(frozen=True)
class Statistic:
    """A statistic of the data that follows from what a fit keeps.

    Attributes:
        name: as `recover` would call it, such as "n[ill=1]" or "mean(age)".
        estimate: of it.
        lower, upper: between which it lies for certain; the ends may be infinite.
    """

    name: str
    estimate: float | None
    lower: float
    upper: float

    @property
    def se(self) -> float | None:
        """Zero where it is exact; otherwise there are limits alone."""
        return 0.0 if self.lower == self.upper else None


def exactly(name: str, value: float) -> Statistic:
    """One that is told with all its digits.

    >>> exactly("n", 60).se
    0.0
    """
    return Statistic(name, float(value), float(value), float(value))


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of one fit.

    Attributes:
        where: the fit's place.
        what: it is, in words.
        places: places of its numbers.
        kind: "ols", "logit", "poisson" or "mixed" (linear mixed), whose equations are known; "" for others.
        labels: labels of the estimates, "const" for an intercept.
        response: its name, as a field can have it.
        values: the estimates `(p,)`.
        covariance: of them `(p, p)`; None if the file does not have it.
        scale: residual variance, 1 where there is none; of a mixed model that of maximum likelihood.
        last_step: length of the last step of the fit, as `posteriors.printed.summaries.of_estimator` takes it.
        groups, rows: of a mixed model, how many there are.
        penalty: matrix S `(p, p)` of a penalised fit, whose log likelihood loses `b' S b / 2`; None for others.
        statistics: statistics that follow from the object itself, where no table says them.
        because: in words, how they do.
        unsupported: why they are not attacked; empty if they are.
        of_draws: whether they summarise draws.
    """

    where: str
    what: str
    places: tuple[str, ...]
    kind: str = ""
    labels: tuple[str, ...] = ()
    response: str = "y"
    values: np.ndarray | None = None
    covariance: np.ndarray | None = None
    scale: float = 1.0
    last_step: float = 0.0
    groups: int = 0
    rows: int = 0
    penalty: np.ndarray | None = None
    statistics: tuple[Statistic, ...] = ()
    because: str = ""
    unsupported: str = ""
    of_draws: bool = False
