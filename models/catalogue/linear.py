"""The program of Gaussian linear regressions, its priors, and columns of its design matrix."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import GaussianPredictor, Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.latent import Data, latent, observe
from bayesrecon.models.catalogue.lazy_numpyro import constraints, dist

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

Fields = Mapping[str, Array]
"""Fields of records by name, each `(N, *shape)`."""

Design = Callable[[Fields], Sequence[Array]]
"""Function of the fields that returns the columns of the design, each `(N,)`."""

Prior = Callable[[], "Distribution"]

Identities = Mapping[str, tuple[Callable[[Fields], Array], float]]
"""By name: a function of the fields, and the known sum of its values over the records."""


def flat() -> "Distribution":
    return dist.ImproperUniform(constraints.real, (), ())


def flat_positive() -> "Distribution":
    return dist.ImproperUniform(constraints.positive, (), ())


def half_cauchy() -> "Distribution":
    return dist.HalfCauchy(2.5)


def gaussian_linear(
    name: str,
    *,
    fields: Mapping[str, tuple[int, ...]],
    response: str,
    design: Design,
    coefficients: Mapping[str, tuple[int | None, Prior]],
    scale: Prior = flat_positive,
    domain: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    identities: Identities | None = None,
) -> Model:
    """A linear regression as a `Model`.

    Args:
        fields: covariate fields and their shapes; the response is added.
        design: columns of the design from the covariate fields, each `(N,)`.
        coefficients: `{site: (length or None for a scalar, prior)}` in the order of the columns.
        scale: prior of the site `sigma`.
    """

    def program(**record: Array) -> None:
        parts = []
        for site, (length, prior) in coefficients.items():
            distribution = prior() if length is None else prior().expand((length,)).to_event(1)
            parts.append(jnp.atleast_1d(latent(site, distribution)))
        sigma = latent("sigma", scale())
        columns = jnp.stack([jnp.asarray(c, float) for c in design(record)], axis=-1)
        mean = columns @ jnp.concatenate(parts)
        observe(response, dist.Normal(mean, sigma), record[response], columns.shape[0])

    def predictor(beta: np.ndarray, record: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = np.stack([np.asarray(c, float) for c in design(record)], axis=-1)
        return np.asarray(record[response], float) - columns @ beta, columns, np.ones(len(columns))

    record, width = {**fields, response: ()}, sum(length or 1 for length, _ in coefficients.values())
    gaussian = (
        GaussianPredictor(tuple(range(width)), predictor, scale=width) if width <= GaussianPredictor.MOST else None
    )
    return adapt(program, record, domain=domain, name=name, settings=settings, identities=identities, gaussian=gaussian)


def array(data: Data, name: str) -> np.ndarray:
    """A column of numbers of posteriordb's data."""
    return np.asarray(data[name], float)


def ones(x: Array) -> Array:
    return np.ones_like(x, dtype=float) if isinstance(x, np.ndarray) else jnp.ones_like(x, dtype=float)


def linear(*names: str) -> Design:
    """An intercept and these fields."""
    return lambda z: [ones(z[names[0]]), *(z[n] for n in names)]


def interaction(a: str, b: str) -> Design:
    """An intercept, two fields and their product."""
    return lambda z: [ones(z[a]), z[a], z[b], z[a] * z[b]]


def pick(*names: str, **derived: Callable[[Data], np.ndarray]) -> Callable[[Data], Records]:
    """Records of columns of the data, and of columns that are computed from the data."""

    def records(data: Data) -> Records:
        return {**{n: array(data, n) for n in names}, **{n: f(data) for n, f in derived.items()}}

    return records


def log(name: str) -> Callable[[Data], np.ndarray]:
    return lambda data: np.log(array(data, name))


def standardised(name: str, deviations: float) -> Callable[[Data], np.ndarray]:
    def column(data: Data) -> np.ndarray:
        x = array(data, name)
        return (x - x.mean()) / (deviations * x.std(ddof=1))

    return column


def shifted(name: str, origin: float) -> Callable[[Data], np.ndarray]:
    return lambda data: array(data, name) - origin


def zero_mean(*names: str) -> Identities:
    """Identities of covariates that the program centres by their own mean."""
    return {f"sum({n})": (lambda z, n=n: z[n], 0.0) for n in names}


def unit_variance(deviations: float, *names: str) -> Identities:
    """Identities of covariates divided by a multiple of their own sample standard deviation (N - 1)."""
    square = deviations**2
    scaled = {f"sum({n}^2)": (lambda z, n=n: square * z[n] ** 2 - 1, -1.0) for n in names}
    return {**zero_mean(*names), **scaled}


def linear_regression(
    covariates: Sequence[str] = ("x",),
    response: str = "y",
    coefficient_scale: float = 1e3,
    sigma_scale: float = 1e3,
) -> Model:
    """`response ~ Normal(alpha + sum_j beta_j covariate_j, sigma)` with wide normal priors, for tables."""
    covariates = tuple(covariates)
    if not covariates or response in covariates or len(set(covariates)) < len(covariates):
        raise BayesreconError("linear_regression needs distinct covariates that do not include the response")
    return gaussian_linear(
        "linear_regression",
        fields=dict.fromkeys(covariates, ()),
        response=response,
        design=linear(*covariates),
        coefficients={
            "alpha": (None, lambda: dist.Normal(0, coefficient_scale)),
            "beta": (len(covariates), lambda: dist.Normal(0, coefficient_scale)),
        },
        scale=lambda: dist.HalfNormal(sigma_scale),
        settings={
            "covariates": covariates,
            "response": response,
            "coefficient_scale": coefficient_scale,
            "sigma_scale": sigma_scale,
        },
    )
