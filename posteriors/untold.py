"""Tables of regressions whose correlations were not printed."""

from collections.abc import Sequence

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.inexact import Limits
from bayesrecon.model import Model
from bayesrecon.models.least_squares import Untold
from bayesrecon.models.weighted_counts import UntoldWeights
from bayesrecon.releases import Release, StatedLimits

Printed = Sequence[tuple[float, float]]
"""Numbers with half the unit of the last digit of each."""


def without_correlations_of(model: Model, estimates: Printed, errors: Printed, name: str | None) -> Release:
    """The release of a regression's estimates and standard errors, both in the order of its parameters.

    Raises:
        BayesreconError: a table of another model, or without an intercept.
    """
    if model.name not in ("ols", "logit", "poisson") or not model.settings["intercept"]:
        raise BayesreconError(
            "what a table without the correlations of its estimates says is known for least squares, logistic and "
            "Poisson regressions with an intercept; supply correlations="
        )
    theta = np.array([value for value, _ in estimates])
    covariates, y = tuple(str(c) for c in model.settings["covariates"]), str(model.settings["response"])
    limits: Limits
    if model.name == "ols":
        if theta[-1] <= 0:
            raise BayesreconError("the residual standard error is not positive")
        limits = Untold(covariates, y, tuple(estimates[:-1]), tuple(errors[:-1]), estimates[-1])
        what = "n has a lower limit and moments wide ones; with total= all but the sign of the covariate's mean is told"
        if len(covariates) > 1:
            what = f"n and var({y}) have lower limits, with total= every variance"
        lost = "n and every mean, variance and covariance"
    else:
        limits = UntoldWeights(model.name, covariates, y, tuple(estimates), tuple(errors))
        what = "n has a lower limit" if model.name == "logit" else f"with total= mean({y}) has a lower limit"
        lost = "more"
        if len(covariates) == 1:
            lost = f"n, if {covariates[0]} is 0 or 1, and more"
            what += f"; with domain={{{covariates[0]!r}: 'binary'}} n and the means are told, if it is one"
    note = f"the correlations of the estimates were not given: {what}; with correlations= {lost} would be determined"
    title = name or f"{model.name}, estimates and standard errors"
    return StatedLimits(theta[None], model, limits, name=title, notes=(note,))
