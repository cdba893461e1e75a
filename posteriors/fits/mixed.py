"""Releases of mixed models that statsmodels fitted by maximum likelihood.

Let `ratio` be the variance of the intercepts over that of the errors. `MixedLM` prints a covariance C of the
coefficients and the ratio: the inverse of minus the Hessian of the likelihood with the scale profiled out. The entries
of `C^-1` for two coefficients, or for a coefficient and the ratio, equal those of minus the full Hessian, because the
score of each coefficient is zero and the scale multiplies it. The diagonal entry of the ratio does not, and is left
out.

Random slopes and variance components keep their fitted distribution. The block of `C^-1` of the coefficients is then
`X' V^-1 X / scale`, summed over groups whose rows have the covariance `scale V`.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Parameter, Params, Records
from bayesrecon.posteriors.approximated.normal import laplace, pack
from bayesrecon.posteriors.printed.estimates_in_files import Estimates, field_name
from bayesrecon.releases import Approximation, Release

_TOLERANCE = 1e-5  # at which statsmodels' optimisers stop: the slope of the mean log likelihood per row
_MOST_ROWS = 100_000  # largest number of rows, which bounds the possible sizes of groups
_FAR = 0.1  # remaining error of the ratio, in standard errors, above which it is at the boundary


def from_mixed(result: Any, response: str | None, name: str | None) -> Release:
    """The release of a `MixedLM` of statsmodels. Its records are groups.

    If groups have several sizes, or there are random slopes or variance components, the numbers of groups and rows and
    the smallest and largest group come from the summary. Without them, no mean over groups is determined.
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


# Models of linear mixed models by maximum likelihood, whose records are groups.
#
# With an intercept for each group, its m rows are normal with covariance `sigma^2 (1 + ratio 11')`. With the mean
# residual of the group, and W the sum of squared residuals about it,
#
#     log p = -(m log sigma^2 + log(1 + m ratio) + (W + m / (1 + m ratio) mean residual^2) / sigma^2) / 2
#
# (Pinheiro and Bates 2000, section 2.2). So the rows of a group enter through their means and scatter. If groups have
# several sizes, a fit depends on sums over groups of `w`, of `w` times the means, and of the scatter plus `w` times the
# products of means, with `w = m / (1 + m ratio)` at the fitted ratio. Other random effects enter through the covariance
# of a group's rows (`correlated`).


def mixed(covariates: Sequence[str], response: str, intercept: bool, size: int) -> Model:
    """The model of a fit over groups of `size` rows each.

    Fields of a group: the mean of each covariate and of the response, and `within`, the sums of products of their
    deviations from these means. `within` is the lower triangle of a `(c, c)` matrix, row by row, the response last.
    """
    _check((*covariates, response, "within"))
    if size < 2:
        raise BayesreconError(f"groups of {size} row do not separate the variances within and between groups")
    return _mixed(tuple(covariates), response, bool(intercept), int(size))


def uneven(covariates: Sequence[str], response: str, intercept: bool, sizes: Sequence[int], fitted: float) -> Model:
    """The model of a fit over groups of several sizes, whose summary prints how many groups and rows there are.

    Fields of a group: `weight`, `w = m / (1 + m fitted)` for its m rows; of each covariate and of the response, w times
    its mean; and `products`, `(c (c + 1) / 2,)`: sums of products of deviations from the means, and w times the means'.

    Args:
        sizes: rows of each group, of which their number, sum, smallest and largest count.
        fitted: the ratio at which the weights are taken.
    """
    _check((*covariates, response, "weight", "products"))
    names, count = (*covariates, response), len(covariates) + 1

    def log_lik(params: Params, record: Records) -> jax.Array:
        weight = jnp.asarray(record["weight"], float)
        means = jnp.stack([jnp.asarray(record[name], float) for name in names]) / weight
        scatter = _symmetric(record["products"], count) - weight * jnp.outer(means, means)
        return _log_lik(params, intercept, weight / (1 - weight * fitted), means, scatter)

    low, high = (m / (1 + m * fitted) for m in (min(sizes), max(sizes)))
    return Model(
        name="mixed",
        parameters=_parameters(count - 1 + intercept),
        fields={
            "weight": Field(domain=Domain("interval", low, high, closed=True)),
            **{name: Field() for name in names},
            "products": Field((_entries(count),)),
        },
        log_lik_at=log_lik,
        log_prior_at=lambda params: jnp.zeros(()),
        settings={"covariates": tuple(covariates), "response": response, "intercept": intercept},
        identities={
            "groups": (lambda z: jnp.ones_like(z["weight"]), float(len(sizes))),
            "rows": (lambda z: z["weight"] / (1 - z["weight"] * fitted), float(sum(sizes))),
        },
    )


def correlated(covariates: Sequence[str], response: str, intercept: bool, sizes: Sequence[int]) -> Model:
    """The model of a fit with random slopes or variance components, given their distribution.

    With `sigma^2 V` the covariance of a group's rows and R the columns of the design and the response, a group enters
    by its number of rows m and by `R' V^-1 R`:

        log p = -(m log sigma^2 + residual' V^-1 residual / sigma^2) / 2

    (generalised least squares). Fields of a group: `rows`, m, where it varies; and `products`, the lower triangle of
    `R' V^-1 R` row by row, a column of ones first if there is an intercept, the response last.

    Args:
        sizes: rows of each group, of which their number, sum, smallest and largest count.

    >>> correlated(["dose"], "y", True, [2, 4, 3]).fields["products"].shape
    (6,)
    """
    _check((*covariates, response, "rows", "products"))
    count = len(covariates) + 1 + intercept

    def log_lik(params: Params, record: Records) -> jax.Array:
        contrast, variance = jnp.append(-params["coefficient"], 1.0), params["sigma"] ** 2
        squares = contrast @ _symmetric(record["products"], count) @ contrast
        size = jnp.asarray(record["rows"], float) if several else sizes[0]
        return -0.5 * (size * jnp.log(variance) + squares / variance)

    coefficient, _, sigma = _parameters(count - 1)
    fields, several = {"products": Field((_entries(count),))}, len(set(sizes)) > 1
    identities: dict[str, tuple[Callable[[Records], Array], float]] = {
        "groups": (lambda z: jnp.ones_like(z["products"][..., 0]), float(len(sizes)))
    }
    if several:
        levels = tuple(float(m) for m in range(min(sizes), max(sizes) + 1))
        fields = {"rows": Field(domain=Domain("levels", levels=levels)), **fields}
        identities["rows"] = (lambda z: z["rows"], float(sum(sizes)))
    return Model(
        name="mixed",
        parameters=(coefficient, sigma),
        fields=fields,
        log_lik_at=log_lik,
        log_prior_at=lambda params: jnp.zeros(()),
        settings={"covariates": tuple(covariates), "response": response, "intercept": intercept},
        identities=identities,
    )


def _check(names: tuple[str, ...]) -> None:
    if len(set(names)) < len(names):
        reserved = " or ".join(repr(name) for name in names if name in ("within", "weight", "rows", "products"))
        raise BayesreconError(f"covariates must be distinct, must not include the response, and must not be {reserved}")


@cache  # releases of one model belong together by the model object
def _mixed(covariates: tuple[str, ...], response: str, intercept: bool, size: int) -> Model:
    count = len(covariates) + 1

    def log_lik(params: Params, record: Records) -> jax.Array:
        means = jnp.stack([jnp.asarray(record[name], float) for name in (*covariates, response)])
        return _log_lik(params, intercept, size, means, _symmetric(record["within"], count))

    return Model(
        name="mixed",
        parameters=_parameters(count - 1 + intercept),
        fields={**{name: Field() for name in (*covariates, response)}, "within": Field((_entries(count),))},
        log_lik_at=log_lik,
        log_prior_at=lambda params: jnp.zeros(()),
        settings={"covariates": covariates, "response": response, "intercept": intercept, "size": size},
    )


def _parameters(coefficients: int) -> tuple[Parameter, ...]:
    positive = (0.0, float("inf"))
    return (
        Parameter("coefficient", (coefficients,)),
        Parameter("ratio", (), bounds=positive),
        Parameter("sigma", (), bounds=positive),
    )


def _entries(count: int) -> int:
    return count * (count + 1) // 2


def _symmetric(lower: Array, count: int) -> jax.Array:
    """The symmetric matrix of a lower triangle, row by row."""
    half = jnp.zeros((count, count)).at[np.tril_indices(count)].set(jnp.asarray(lower, float))
    return half + half.T - jnp.diag(jnp.diag(half))


def _log_lik(params: Params, intercept: bool, size: Array | float, means: Array, scatter: Array) -> jax.Array:
    """Log likelihood of a group of `size` rows, from the means and the scatter of covariates and response."""
    slopes, constant = params["coefficient"][int(intercept) :], params["coefficient"][0] if intercept else 0.0
    contrast = jnp.append(-slopes, 1.0)
    ratio, variance = params["ratio"], params["sigma"] ** 2
    between = size / (1 + size * ratio) * (contrast @ means - constant) ** 2
    squares = contrast @ scatter @ contrast + between
    return jnp.asarray(-0.5 * (size * jnp.log(variance) + jnp.log1p(size * ratio) + squares / variance))
