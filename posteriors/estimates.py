"""Estimates that lie in a file with other things: what a printed table would say, with all digits."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of one fit.

    Attributes:
        where: the fit's place.
        what: it is, in words.
        places: of its numbers.
        kind: "ols", "logit" or "poisson", whose equations are known; "" for others.
        labels: of the estimates, "const" for an intercept.
        response: its name, as a field can have it.
        values: the estimates `(p,)`.
        covariance: of them `(p, p)`; None where the file does not have it.
        scale: residual variance, 1 where there is none.
        closed: why they are not attacked, "" where they are.
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
    closed: str = ""
    of_draws: bool = False
