"""Models of linear mixed models by maximum likelihood, whose records are groups.

With an intercept for each group, its m rows are normal with covariance `sigma^2 (1 + ratio 11')`. With the mean
residual of the group, and W the sum of squared residuals about it,

    log p = -(m log sigma^2 + log(1 + m ratio) + (W + m / (1 + m ratio) mean residual^2) / sigma^2) / 2

(Pinheiro and Bates 2000, section 2.2). So the rows of a group enter through their means and scatter. If groups have
several sizes, a fit depends on sums over groups of `w`, of `w` times the means, and of the scatter plus `w` times the
products of means, with `w = m / (1 + m ratio)` at the fitted ratio. Other random effects enter through the covariance
of a group's rows (`correlated`).
"""

from collections.abc import Callable, Sequence
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.domains import Domain
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Parameter, Params, Records


def mixed(covariates: Sequence[str], response: str, intercept: bool, size: int) -> Model:
    """The model of a fit over groups of `size` rows each.

    Fields of a group: the mean of each covariate and of the response, and `within`, the sums of products of their
    deviations from these means. `within` is the lower triangle of a `(c, c)` matrix, row by row, the response last.

    Raises:
        BayesreconError: names that are not distinct, or groups of fewer than two rows.

    >>> mixed(["dose"], "y", True, 4).coordinates
    ('coefficient[1]', 'coefficient[2]', 'ratio', 'sigma')
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

    Raises:
        BayesreconError: names that are not distinct.

    >>> model = uneven(["dose"], "y", True, [2, 4, 3], 0.5)
    >>> sorted(model.fields), sorted(model.identities)
    (['dose', 'products', 'weight', 'y'], ['groups', 'rows'])
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

    Raises:
        BayesreconError: names that are not distinct.

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
