"""Releases of mixed models that statsmodels fitted by maximum likelihood.

Let `ratio` be the variance of the intercepts over that of the errors. `MixedLM` prints a covariance C of the
coefficients and the ratio: the inverse of minus the Hessian of the likelihood with the scale profiled out. The entries
of `C^-1` for two coefficients, or for a coefficient and the ratio, equal those of minus the full Hessian, because the
score of each coefficient is zero and the scale multiplies it. The diagonal entry of the ratio does not, and is left
out.

Random slopes and variance components keep their fitted distribution. The block of `C^-1` of the coefficients is then
`X' V^-1 X / scale`, summed over groups whose rows have the covariance `scale V`.
"""

from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.normal import laplace, pack
from bayesrecon.posteriors.fits.mixed_likelihoods import correlated, mixed, uneven
from bayesrecon.posteriors.printed.estimates_in_files import Estimates, field_name
from bayesrecon.releases import Approximation, Release

_TOLERANCE = 1e-5  # at which statsmodels' optimisers stop: the slope of the mean log likelihood per row
_MOST_ROWS = 100_000  # largest number of rows, which bounds the possible sizes of groups
_FAR = 0.1  # remaining error of the ratio, in standard errors, above which it is at the boundary


def from_mixed(result: Any, response: str | None, name: str | None) -> Release:
    """The release of a `MixedLM` of statsmodels. Its records are groups.

    If groups have several sizes, or there are random slopes or variance components, the numbers of groups and rows and
    the smallest and largest group come from the summary. Without them, no mean over groups is determined.

    Raises:
        BayesreconError: the fit is by REML, has only groups of one row, has a variance of intercepts at zero, has not
            converged or has no covariance.
    """
    fitted = result.model
    if getattr(fitted, "reml", True) or getattr(result, "method", "ML") == "REML":
        raise BayesreconError(
            "MixedLM by REML is not supported: its likelihood does not factorise over groups; fit with reml=False"
        )
    if not getattr(result, "converged", True):
        raise BayesreconError("this MixedLM has not converged; fit it with another method=")
    names, design = [str(n) for n in fitted.exog_names], np.asarray(fitted.exog, float)
    constant = [i for i in range(len(names)) if np.all(design[:, i] == 1)]
    order = [*constant, *(i for i in range(len(names)) if i not in constant)]
    if len(constant) > 1:
        raise BayesreconError("the design has two intercepts")
    name = name or "MixedLM"
    covariates = [field_name(names[i]) for i in order[len(constant) :]]
    response, sizes = response or field_name(str(fitted.endog_names)), [len(y) for y in fitted.endog_li]
    coefficient, sigma = np.asarray(result.fe_params, float)[order], float(np.sqrt(result.scale))
    covariance, p = np.asarray(result.cov_params(), float), len(order)
    if not np.isfinite(covariance).all():
        raise BayesreconError("this MixedLM has no covariance of its estimates")
    if fitted.k_vc or fitted.k_re != 1 or np.any(np.concatenate(fitted.exog_re_li) != 1):
        model = correlated(covariates, response, bool(constant), sizes)
        # The part of minus the Hessian that remains for a fixed distribution of the random effects.
        block = np.linalg.inv(np.linalg.inv(covariance)[np.ix_(order, order)])
        return _release(model.in_constrained_coordinates, np.append(coefficient, sigma), block, p, 0.0, name)
    ratio = float(np.asarray(result.cov_re)[0, 0] / result.scale)
    if len(set(sizes)) > 1:
        model = uneven(covariates, response, bool(constant), sizes, ratio)
    else:
        model = mixed(covariates, response, bool(constant), sizes[0])
    positions = [*order, p]
    block = covariance[np.ix_(positions, positions)]
    # The optimiser moves the root of the ratio.
    slope = _TOLERANCE * len(fitted.endog) / (2 * np.sqrt(max(ratio, 1e-300)))
    if not slope * np.sqrt(block[-1, -1]) < _FAR:
        raise BayesreconError(
            "the variance of the intercepts is zero: estimates on the boundary are not stationary; fit OLS"
        )
    mean = np.concatenate([coefficient, [ratio, sigma]])
    return _release(model.in_constrained_coordinates, mean, block, p, slope, name)


def from_known_covariance(estimates: Estimates) -> Release:
    """The release of a linear mixed model with one grouping factor and a fixed distribution of random effects.

    With `sigma^2 V` the covariance of a group's rows, the estimates `b` are those of generalised least squares,
    `sum_g X_g' V^-1 (y_g - X_g b) = 0`. Their covariance is `sigma^2 (sum_g X_g' V^-1 X_g)^-1`. The variance of maximum
    likelihood is `sum_g r_g' V^-1 r_g / n`, also for a fit by REML with its own V (Pinheiro and Bates 2000, section
    2.2). The numbers of rows and groups are known, but not the rows of each group.

    Raises:
        BayesreconError: no fit has these numbers.
    """
    values, covariance, labels = estimates.values, estimates.covariance, list(estimates.labels)
    if values is None or covariance is None or not 0 < estimates.groups < estimates.rows <= _MOST_ROWS:
        raise BayesreconError("a mixed model with so many groups and rows is not supported")
    order = sorted(range(len(labels)), key=lambda i: labels[i] != "const")
    covariates = [labels[i] for i in order if labels[i] != "const"]
    sizes = [1] * (estimates.groups - 1) + [estimates.rows - estimates.groups + 1]  # the widest possible range
    model = correlated(covariates, estimates.response, "const" in labels, sizes).in_constrained_coordinates
    mean = np.append(values[order], np.sqrt(estimates.scale))
    return _release(model, mean, covariance[np.ix_(order, order)], len(order), 0.0, estimates.where)


def _release(model: Model, mean: np.ndarray, block: np.ndarray, p: int, slope: float, name: str) -> Release:
    """A release with equations of all scores, and of the Hessian's entries that involve a coefficient.

    Args:
        model: the model of a group.
        mean: the estimates, the scale last.
        block: covariance of the coefficients and of the ratio, if it is a parameter. The scale has no released error,
            and gets a unit of its own.
        p: number of coefficients.
        slope: bound on the remaining score of the ratio.
        name: name for display.
    """
    d = len(mean)
    covariance = np.zeros((d, d))
    covariance[:-1, :-1] = 0.5 * (block + block.T)
    covariance[-1, -1] = (0.1 * mean[-1]) ** 2
    try:
        root = np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise BayesreconError("the covariance of the estimates is not positive definite") from None
    rows, columns = np.tril_indices(d)
    hessian_directions = np.zeros((d + len(rows), 0))
    # One column for each coefficient, and one for the ratio.
    scaled = np.diag(np.sqrt(np.diag(covariance)))[:, :-1]
    scaled[:p, :p] = np.linalg.cholesky(covariance[:p, :p])
    for i in range(p):
        for j in range(i, d - 1):
            change = np.outer(scaled[:, i], scaled[:, j])
            change = np.linalg.solve(root, np.linalg.solve(root, change + change.T).T)
            step = root @ (np.tril(change, -1) + 0.5 * np.diag(np.diag(change)))
            direction = np.concatenate([np.zeros(d), step[rows, columns]])
            hessian_directions = np.column_stack([hessian_directions, direction])
    score_directions = np.zeros((len(hessian_directions), d))
    score_directions[:d] = root
    phi, directions = pack(model, mean, covariance)[None], np.column_stack([score_directions, hessian_directions])
    release = Approximation(phi, laplace(model, False), directions, model, name=name)
    if not slope:
        return release
    shift = np.zeros((len(directions), 1))
    shift[:d, 0] = covariance[:, p] * slope
    return release.printed(phi, directions, shift)
