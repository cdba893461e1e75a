"""Tables of regressions whose correlations were not printed."""

from collections.abc import Mapping, Sequence

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.factors import Factor, factors_by_name
from bayesrecon.inexact import UNTOLD, Limits
from bayesrecon.model import Model
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.posteriors.printed.design_cells import parts_of
from bayesrecon.posteriors.printed.estimates import field_name
from bayesrecon.posteriors.printed.footers import Footer
from bayesrecon.posteriors.printed.least_squares import Untold
from bayesrecon.posteriors.printed.orthogonal import Orthogonal, orthogonal
from bayesrecon.posteriors.printed.own_slopes import OwnSlopes
from bayesrecon.posteriors.printed.powers import Squared, with_square
from bayesrecon.posteriors.printed.splines import Splines, bases
from bayesrecon.posteriors.printed.weighted_counts import UntoldWeights
from bayesrecon.releases import Release, StatedLimits

Printed = Sequence[tuple[float, float]]
"""Numbers with half the unit of the last digit of each."""


def without_correlations_of(
    model: Model,
    labels: Sequence[str],
    estimates: Printed,
    errors: Printed,
    name: str | None,
    factors: Sequence[Factor] = (),
    below: Footer | None = None,
) -> Release:
    """The release of a regression's estimates and standard errors, both in the order of its parameters.

    Args:
        labels: of the coefficients but the intercept.
        factors: that a formula tells besides those that the labels tell.
        below: what the numbers below the table say.

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
    plain: Limits | None = None
    scale, below = None, below or Footer()
    if model.name == "ols":
        *estimates, scale = estimates
        if np.isnan(scale[0]):
            scale = below.scale(len(estimates))
            theta[-1] = 1.0 if scale is None else scale[0]  # nothing that was released where it is not known
        if scale is not None and scale[0] <= 0:
            raise BayesreconError("the residual standard error is not positive")
        if scale is not None:
            plain = Untold(covariates, y, tuple(estimates), tuple(errors[: len(estimates)]), scale)
        if scale is not None and orthogonal(labels):
            plain = Orthogonal(covariates, y, tuple(estimates), errors[0], scale)
        what = "n has a lower limit and moments wide ones; with total= all but the sign of the covariate's mean is told"
        if len(covariates) > 1:
            what = f"n and var({y}) have lower limits, with total= every variance"
        lost = "n and every mean, variance and covariance"
    else:
        plain = UntoldWeights(model.name, covariates, y, tuple(estimates), tuple(errors))
        what = "n has a lower limit" if model.name == "logit" else f"with total= mean({y}) has a lower limit"
        lost = "more"
        if len(covariates) == 1:
            lost = f"n, if {covariates[0]} is 0 or 1, and more"
            what += f"; with domain={{{covariates[0]!r}: 'binary'}} n and the means are told, if it is one"
    fields = {part: field_name(part) for label in labels for part in parts_of(label)}
    stated = tuple(_as_fields(f, fields) for f in (*factors, *factors_by_name(list(fields))))
    limits = Coded(
        model.name,
        tuple(labels),
        fields,
        y,
        tuple(estimates),
        tuple(errors[: len(estimates)]),
        scale,
        stated,
        plain,
        below,
        _shapes(model, labels, fields, estimates, errors[: len(estimates)], scale, stated, below),
    )
    title = name or f"{model.name}, estimates and standard errors"
    if stated:
        listed = "; ".join(f"{f.name} is {', '.join(f.columns)}" for f in stated)
        what, lost = f"levels of factors are counted by the errors ({listed}, by their names)", "more"
    if with_square(labels) is not None:
        what += f"; {' and '.join(labels)} are a covariate and its square, which binds their moments where n is known"
    if bases(labels) and model.name != "poisson":
        what += "; columns of bs() lie between 0 and 1"
    note = f"{UNTOLD}: {what}; with correlations= {lost} would be determined"
    return StatedLimits(theta[None], model, limits, name=title, notes=(note,))


def _shapes(
    model: Model,
    labels: Sequence[str],
    fields: Mapping[str, str],
    estimates: Printed,
    errors: Printed,
    scale: tuple[float, float] | None,
    factors: tuple[Factor, ...],
    below: Footer,
) -> tuple[Limits, ...]:
    """What the columns tell as functions of one covariate: a square, splines, slopes of its own in every level."""
    found: list[Limits] = []
    if bases(labels):
        found.append(Splines(model.name, tuple(labels), tuple(errors), scale))
    if model.name != "ols" or scale is None:
        return tuple(found)
    if any(len(parts_of(label)) > 1 for label in labels):
        found.append(OwnSlopes(tuple(labels), fields, tuple(errors), scale, factors))
    if (at := with_square(labels)) is not None:
        covariates, order = model.settings["covariates"], (0, 1 + at[0], 1 + at[1])
        of_three, errors_of = (tuple(given[i] for i in order) for given in (estimates, errors))
        found.append(
            Squared(covariates[at[0]], covariates[at[1]], model.settings["response"], of_three, errors_of, scale, below)
        )
    return tuple(found)


def _as_fields(factor: Factor, fields: dict[str, str]) -> Factor:
    return Factor(factor.name, tuple(fields.get(c, c) for c in factor.columns), factor.levels, factor.contrast)
