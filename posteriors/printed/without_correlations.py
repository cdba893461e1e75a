"""Tables of regressions without the correlations of their estimates."""

from collections.abc import Mapping, Sequence

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.factors import Factor, factors_by_name
from bayesrecon.inexact import NO_CORRELATIONS, Limits
from bayesrecon.model import Model
from bayesrecon.posteriors.printed.coded_tables import Coded
from bayesrecon.posteriors.printed.design_cells import parts_of
from bayesrecon.posteriors.printed.estimates_in_files import field_name
from bayesrecon.posteriors.printed.footers import Footer
from bayesrecon.posteriors.printed.least_squares import WithoutCorrelations
from bayesrecon.posteriors.printed.orthogonal import Orthogonal, orthogonal
from bayesrecon.posteriors.printed.own_slopes import OwnSlopes
from bayesrecon.posteriors.printed.power_names import powers, presumed_square, with_square
from bayesrecon.posteriors.printed.powers import SeparatePower, Squared
from bayesrecon.posteriors.printed.presumed_shapes import Presumed
from bayesrecon.posteriors.printed.splines import Splines, bases
from bayesrecon.posteriors.printed.weighted_counts import WithoutCorrelationsWeighted
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
    footer: Footer | None = None,
    described: bool = False,
) -> Release:
    """The release of a regression's estimates and standard errors, both in the order of its parameters.

    Args:
        labels: labels of the coefficients but the intercept.
        factors: that a formula tells besides those that the labels tell.
        footer: footer of the table.
        described: whether a formula says what columns are, so that their names suggest nothing more.

    Raises:
        BayesreconError: a table of another model, or without an intercept.
    """
    if model.name not in ("ols", "logit", "poisson") or not model.settings["intercept"]:
        raise BayesreconError(
            "tables without the correlations of their estimates are supported for least squares, logistic and "
            "Poisson regressions with an intercept; supply correlations="
        )
    theta = np.array([value for value, _ in estimates])
    covariates, y = tuple(str(c) for c in model.settings["covariates"]), str(model.settings["response"])
    plain: Limits | None = None
    scale, footer = None, footer or Footer()
    if model.name == "ols":
        *estimates, scale = estimates
        if np.isnan(scale[0]):
            scale = footer.scale(len(estimates))
            theta[-1] = 1.0 if scale is None else scale[0]  # nothing that was released where it is not known
        if scale is not None and scale[0] <= 0:
            raise BayesreconError("the residual standard error is not positive")
        if scale is not None:
            plain = WithoutCorrelations(covariates, y, tuple(estimates), tuple(errors[: len(estimates)]), scale)
        if scale is not None and orthogonal(labels):
            plain = Orthogonal(covariates, y, tuple(estimates), errors[0], scale)
        known = "n has a lower bound and moments have wide bounds"
        known += "; with total= everything but the sign of the covariate's mean is determined"
        if len(covariates) > 1:
            known = f"n and var({y}) have lower bounds; with total= so does every variance"
        lost = "n and every mean, variance and covariance"
    else:
        plain = WithoutCorrelationsWeighted(model.name, covariates, y, tuple(estimates), tuple(errors))
        known = "n has a lower bound" if model.name == "logit" else f"with total= mean({y}) has a lower bound"
        lost = "more"
        if len(covariates) == 1:
            lost = f"n, if {covariates[0]} is 0 or 1, and more"
            known += (
                f"; if {covariates[0]} is binary, domain={{{covariates[0]!r}: 'binary'}} determines n and the means"
            )
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
        footer,
        _shapes(model, labels, fields, estimates, errors[: len(estimates)], scale, stated, footer),
        () if described else _presumed(model, labels, estimates, errors[: len(estimates)], scale, footer),
    )
    title = name or f"{model.name}, estimates and standard errors"
    if stated:
        listed = "; ".join(f"{f.name} is {', '.join(f.columns)}" for f in stated)
        known, lost = (
            f"counts of factor levels follow from the standard errors (factors recognised by their names: {listed})",
            "more",
        )
    known += "".join(f"; {line}" for line in _of_shapes(model.name, labels, limits.presumed))
    note = f"{NO_CORRELATIONS}: {known}; with correlations= {lost} would be determined"
    return StatedLimits(theta[None], model, limits, name=title, notes=(note,))


def _shapes(
    model: Model,
    labels: Sequence[str],
    fields: Mapping[str, str],
    estimates: Printed,
    errors: Printed,
    scale: tuple[float, float] | None,
    factors: tuple[Factor, ...],
    footer: Footer,
) -> tuple[Limits, ...]:
    """Limits from columns that are functions of one covariate: a square, splines, a slope in every level."""
    result: list[Limits] = []
    if bases(labels) or bases(labels, natural=True):
        result.append(Splines(model.name, tuple(labels), tuple(errors), scale))
    if model.name != "ols" or scale is None:
        return tuple(result)
    if any(len(parts_of(label)) > 1 for label in labels):
        result.append(OwnSlopes(tuple(labels), fields, tuple(errors), scale, factors))
    if (at := with_square(labels)) is not None:
        result.append(_squared(model, at, estimates, errors, scale, footer))
        return tuple(result)
    columns = dict(zip(labels, model.settings["covariates"], strict=True))
    for line, (x, power) in powers(labels).items():
        plain = next((label for label in labels if label.strip().removeprefix("c.") == x), None)
        if power == 2 and plain is not None:
            at_plain = 1 + list(labels).index(plain)
            result.append(SeparatePower(columns[plain], columns[line], errors[at_plain], scale))
    return tuple(result)


def _squared(
    model: Model,
    at: tuple[int, int],
    estimates: Printed,
    errors: Printed,
    scale: tuple[float, float],
    footer: Footer,
) -> Squared:
    """Limits from a covariate and its square, at these positions among the covariates."""
    covariates, order = model.settings["covariates"], (0, 1 + at[0], 1 + at[1])
    of_three, errors_of = (tuple(given[i] for i in order) for given in (estimates, errors))
    names = covariates[at[0]], covariates[at[1]], model.settings["response"]
    return Squared(*names, of_three, errors_of, scale, footer)


def _presumed(
    model: Model,
    labels: Sequence[str],
    estimates: Printed,
    errors: Printed,
    scale: tuple[float, float] | None,
    footer: Footer,
) -> tuple[Presumed, ...]:
    """A square that is known only by its name."""
    at = presumed_square(labels)
    if at is None or model.name != "ols" or scale is None:
        return ()
    square = _squared(model, at, estimates, errors, scale, footer)
    return (Presumed(square, square.square, f"{square.square} is the square of {square.covariate}"),)


def _of_shapes(kind: str, labels: Sequence[str], presumed: Sequence[Presumed]) -> list[str]:
    """A line for each function of a covariate: what it constrains, or that it is not used."""
    result = []
    if kind == "ols" and with_square(labels) is not None:
        pair = " and ".join(labels)
        result.append(f"{pair} are a covariate and its square, which constrains their moments if n is known")
    elif raised := powers(labels):
        effect = "beside other columns they give only lower bounds of means of squares"
        effect = effect if kind == "ols" and any(power == 2 for _, power in raised.values()) else "these are not used"
        result.append(f"{', '.join(raised)}: powers of a covariate; {effect}")
    result += [f"if n is known, it is assumed from the name that {assumption.words}" for assumption in presumed]
    if kind != "poisson" and bases(labels):
        result.append("columns of bs() lie between 0 and 1")
    if kind != "poisson" and bases(labels, natural=True):
        result.append("squares of the columns of ns() sum to at most 1")
    return result


def _as_fields(factor: Factor, fields: dict[str, str]) -> Factor:
    return Factor(factor.name, tuple(fields.get(c, c) for c in factor.columns), factor.levels, factor.contrast)
