"""Gaussian linear regression: the program every linear posterior shares, its priors, and columns of tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import GaussianPredictor, Model, Records
from bayesrecon.models.adapter import adapt
from bayesrecon.models.catalogue.later import constraints, dist, numpyro

Design = Callable[[Mapping[str, Any]], Sequence[Any]]
Prior = Callable[[], Any]
Identities = Mapping[str, tuple[Callable[[Mapping[str, Any]], Any], float]]


def flat() -> Any:
    return dist.ImproperUniform(constraints.real, (), ())


def flat_positive() -> Any:
    return dist.ImproperUniform(constraints.positive, (), ())


def half_cauchy() -> Any:
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

    def program(**record: Any) -> None:
        parts = []
        for site, (length, prior) in coefficients.items():
            law = prior() if length is None else prior().expand((length,)).to_event(1)
            parts.append(jnp.atleast_1d(numpyro.sample(site, law)))
        sigma = numpyro.sample("sigma", scale())
        columns = jnp.stack([jnp.asarray(c, float) for c in design(record)], axis=-1)
        mean = columns @ jnp.concatenate(parts)
        with numpyro.plate("records", columns.shape[0]):
            numpyro.sample(response, dist.Normal(mean, sigma), obs=record[response])

    def written(beta: np.ndarray, record: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = np.stack([np.asarray(c, float) for c in design(record)], axis=-1)
        return np.asarray(record[response], float) - columns @ beta, columns, np.ones(len(columns))

    record, width = {**fields, response: ()}, sum(length or 1 for length, _ in coefficients.values())
    known = GaussianPredictor(tuple(range(width)), written, scale=width) if width <= GaussianPredictor.MOST else None
    return adapt(program, record, domain=domain, name=name, settings=settings, identities=identities, gaussian=known)


def array(data: Mapping[str, object], name: str) -> np.ndarray:
    return np.asarray(data[name], float)


def one(x: Array) -> Any:
    return np.ones_like(x, dtype=float) if isinstance(x, np.ndarray) else jnp.ones_like(x, dtype=float)


def linear(*names: str) -> Design:
    return lambda z: [one(z[names[0]]), *(z[n] for n in names)]


def interaction(a: str, b: str) -> Design:
    return lambda z: [one(z[a]), z[a], z[b], z[a] * z[b]]


def pick(*names: str, **derived: Callable[[Mapping[str, Any]], np.ndarray]) -> Callable[[Mapping[str, Any]], Records]:
    def records(data: Mapping[str, object]) -> Records:
        return {**{n: array(data, n) for n in names}, **{n: f(data) for n, f in derived.items()}}

    return records


def log(name: str) -> Callable[[Mapping[str, Any]], np.ndarray]:
    return lambda data: np.log(array(data, name))


def centred(name: str) -> Callable[[Mapping[str, Any]], np.ndarray]:
    return lambda data: array(data, name) - array(data, name).mean()


def standardised(name: str, deviations: float) -> Callable[[Mapping[str, Any]], np.ndarray]:
    def column(data: Mapping[str, object]) -> np.ndarray:
        x = array(data, name)
        return (x - x.mean()) / (deviations * x.std(ddof=1))

    return column


def shifted(name: str, by: float) -> Callable[[Mapping[str, Any]], np.ndarray]:
    return lambda data: array(data, name) - by


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
