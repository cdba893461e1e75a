"""Families of likelihoods that people use: programs, data drawn from them, and exact draws of their posteriors."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import scipy.optimize
from numpyro import distributions as dist

from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import from_draws
from bayesrecon.precision import x64
from bayesrecon.types import Model, Release

RECORDS, CHAINS = 200, 4
FREEDOM, WIDER = 5, 1.1  # of the t law that draws are proposed from, and its scale over the posterior's
ROUNDS = 4  # in which that law is fitted
EDGES = (0.0, 0.5, 1.0, 2.0)  # of the pieces of a constant hazard

Sample = Callable[[np.random.Generator, np.ndarray], dict[str, Any]]


@dataclass(frozen=True)
class Family:
    """A program, data drawn from it, and what its program does not tell of the fields."""

    program: Callable[..., None]
    sample: Sample
    record: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: {"x": (), "y": ()})
    domain: Mapping[str, Any] = field(default_factory=dict)


def line(x: Any) -> Any:
    beta = numpyro.sample("beta", dist.Normal(0, 3).expand((2,)).to_event(1))
    return beta[0] + beta[1] * x


def observed(law: Callable[[Any], Any]) -> Callable[..., None]:
    """The program with `y` distributed as `law(x)`."""

    def program(x: Any, y: Any = None) -> None:
        found = law(x)
        with numpyro.plate("records", x.shape[0]):
            numpyro.sample("y", found, obs=y)

    return program


def positive(name: str, shape: float = 2.0, rate: float = 0.5) -> Any:
    return numpyro.sample(name, dist.Gamma(shape, rate))


def negative_binomial(x: Any) -> Any:
    return dist.NegativeBinomial2(jnp.exp(line(x)), positive("phi"))


def gamma(x: Any) -> Any:
    shape = positive("shape")
    return dist.Gamma(shape, shape * jnp.exp(-line(x)))


def weibull(x: Any) -> Any:
    return dist.Weibull(jnp.exp(line(x)), positive("shape", 2.0, 1.0))


def beta(x: Any) -> Any:
    mean, size = jax.nn.sigmoid(line(x)), positive("size", 2.0, 0.1)
    return dist.Beta(mean * size, (1 - mean) * size)


def ordered(x: Any) -> Any:
    slope = numpyro.sample("slope", dist.Normal(0, 3))
    law = dist.TransformedDistribution(dist.Normal(0, 3).expand((3,)).to_event(1), dist.transforms.OrderedTransform())
    return dist.OrderedLogistic(slope * x, numpyro.sample("cuts", law))


def student(x: Any) -> Any:
    return dist.StudentT(positive("nu", 2.0, 0.1), line(x), numpyro.sample("sigma", dist.HalfNormal(5)))


def zero_inflated(x: Any) -> Any:
    return dist.ZeroInflatedPoisson(numpyro.sample("gate", dist.Beta(1, 1)), jnp.exp(line(x)))


def von_mises(x: Any) -> Any:
    beta = numpyro.sample("beta", dist.Normal(0, 2).expand((2,)).to_event(1))
    return dist.VonMises(beta[0] + 2 * jnp.arctan(beta[1] * x), positive("kappa"))


def truncated(x: Any) -> Any:
    return dist.TruncatedNormal(line(x), numpyro.sample("sigma", dist.HalfNormal(5)), low=0.0)


def hurdle(x: Any, y: Any) -> None:
    rate, chance = jnp.exp(line(x)), numpyro.sample("chance", dist.Beta(1, 1))
    counted = jnp.log(chance) + dist.Poisson(rate).log_prob(y) - jnp.log(-jnp.expm1(-rate))
    numpyro.factor("records", jnp.where(y == 0, jnp.log1p(-chance), counted))


def censored(x: Any, y: Any) -> None:
    law = dist.Normal(line(x), numpyro.sample("sigma", dist.HalfNormal(5)))
    above = jax.scipy.stats.norm.logsf((2.0 - law.loc) / law.scale)
    numpyro.factor("records", jnp.where(y >= 2.0, above, law.log_prob(y)))


def piecewise(x: Any, time: Any, event: Any) -> None:
    slope = numpyro.sample("slope", dist.Normal(0, 3))
    hazard = numpyro.sample("hazard", dist.Gamma(1.0, 1.0).expand((len(EDGES),)).to_event(1))
    start, end = jnp.array(EDGES), jnp.array([*EDGES[1:], jnp.inf])
    spent = jnp.clip(time[:, None] - start, 0, end - start)
    at = hazard[jnp.searchsorted(start, time, side="right") - 1]
    numpyro.factor("records", event * (jnp.log(at) + slope * x) - jnp.exp(slope * x) * (spent @ hazard))


def multinomial(y: Any = None) -> None:
    size = numpyro.sample("alpha", dist.Gamma(2.0, 0.5).expand((3,)).to_event(1))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.DirichletMultinomial(size, 6), obs=y)


def multivariate(y: Any = None) -> None:
    mean = numpyro.sample("mean", dist.Normal(0, 5).expand((3,)).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(5).expand((3,)).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(3, 2.0))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.MultivariateNormal(mean, scale_tril=scale[:, None] * root), obs=y)


def correlated(rng: np.random.Generator, x: np.ndarray) -> dict[str, Any]:
    root = np.array([[1.0, 0, 0], [0.8, 1.2, 0], [-0.5, 0.3, 0.7]])
    return {"y": np.array([1.0, -2.0, 0.5]) + rng.standard_normal((len(x), 3)) @ root.T}


def with_x(draw: Callable[[np.random.Generator, np.ndarray], Any]) -> Sample:
    return lambda rng, x: {"x": x, "y": draw(rng, x)}


def logistic(v: Any) -> Any:
    return 1 / (1 + np.exp(-v))


def survival(rng: np.random.Generator, x: np.ndarray) -> dict[str, Any]:
    time, end = rng.exponential(1.5 * np.exp(-0.5 * x)), rng.uniform(0.5, 4.0, len(x))
    return {"x": x, "time": np.minimum(time, end), "event": (time <= end).astype(int)}


def positive_normal(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    drawn = rng.normal((1 + 0.5 * x)[:, None], 1.5, (len(x), 200))
    return drawn[np.arange(len(x)), (drawn > 0).argmax(axis=1)]


def counted_above_zero(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    drawn = rng.poisson(mean[:, None], (len(mean), 200))
    return drawn[np.arange(len(mean)), (drawn > 0).argmax(axis=1)]


def inside(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    mean = logistic(0.3 + 0.8 * x)
    return np.clip(rng.beta(8 * mean, 8 * (1 - mean)), 1e-9, 1 - 1e-9)


FAMILIES = {
    "negative binomial": Family(
        observed(negative_binomial), with_x(lambda r, x: r.poisson(np.exp(1 + 0.5 * x) * r.gamma(3, 1 / 3, len(x))))
    ),
    "gamma": Family(observed(gamma), with_x(lambda r, x: r.gamma(2.5, np.exp(1 + 0.5 * x) / 2.5))),
    "Weibull": Family(observed(weibull), with_x(lambda r, x: np.exp(1 + 0.5 * x) * r.weibull(1.5, len(x)))),
    "beta": Family(observed(beta), with_x(inside)),
    "ordered logit": Family(
        observed(ordered), with_x(lambda r, x: np.searchsorted([-1.0, 0.5, 2.0], r.logistic(0.8 * x)))
    ),
    "Student t": Family(observed(student), with_x(lambda r, x: 1 + 0.5 * x + 2 * r.standard_t(4, len(x)))),
    "zero-inflated Poisson": Family(
        observed(zero_inflated),
        with_x(lambda r, x: np.where(r.random(len(x)) < 0.3, 0, r.poisson(np.exp(1 + 0.5 * x)))),
    ),
    "hurdle Poisson": Family(
        hurdle,
        with_x(lambda r, x: np.where(r.random(len(x)) < 0.3, 0, counted_above_zero(r, np.exp(1 + 0.5 * x)))),
        domain={"y": "count"},
    ),
    "von Mises": Family(
        observed(von_mises), with_x(lambda r, x: r.vonmises(np.angle(np.exp(1j * (0.5 + 2 * np.arctan(0.4 * x)))), 3.0))
    ),
    "truncated normal": Family(observed(truncated), with_x(positive_normal)),
    "censored normal": Family(
        censored, with_x(lambda r, x: np.minimum(r.normal(1 + 0.5 * x, 1.5), 2.0)), domain={"y": (-np.inf, 2.0)}
    ),
    "piecewise exponential": Family(
        piecewise, survival, {"x": (), "time": (), "event": ()}, {"time": "positive", "event": "binary"}
    ),
    "Dirichlet-multinomial": Family(
        multinomial,
        lambda r, x: {"y": np.stack([r.multinomial(6, p) for p in r.dirichlet([1.0, 2.0, 3.0], len(x))])},
        {"y": (3,)},
    ),
    "normal with LKJ": Family(multivariate, correlated, {"y": (3,)}),
}


# Exact draws


@partial(jax.jit, static_argnames="model")
def log_posterior(model: Model, theta: Any, data: Any) -> Any:
    terms = jax.vmap(model.log_lik, in_axes=(None, 0))(theta, data)
    return terms.sum() + model.log_prior(theta) + model.log_det(theta)


@partial(jax.jit, static_argnames="model")
def curvature(model: Model, theta: Any, data: Any) -> Any:
    return jax.hessian(partial(log_posterior, model))(theta, data)


@partial(jax.jit, static_argnames="model")
def slope(model: Model, theta: Any, data: Any) -> Any:
    return jax.value_and_grad(partial(log_posterior, model))(theta, data)


@partial(jax.jit, static_argnames="model")
def log_posteriors(model: Model, theta: Any, data: Any) -> Any:
    return jax.lax.map(lambda t: log_posterior(model, t, data), theta, batch_size=256)


def exact(model: Model, data: dict[str, Any], draws: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws `(draws, d)` by rejection, under the largest ratio of the densities that was seen; the law that
    is proposed from takes the posterior's own mean and covariance, which the mode does not tell where it is skew."""
    found = scipy.optimize.minimize(
        lambda t: [-np.asarray(v) for v in slope(model, t, data)], np.full(model.dimension, 0.1), jac=True
    )
    centre, covariance = found.x, np.linalg.inv(-np.asarray(curvature(model, found.x, data)))

    def proposed(count: int) -> tuple[np.ndarray, np.ndarray]:
        t = rng.standard_normal((count, model.dimension))
        t *= np.sqrt(FREEDOM / rng.chisquare(FREEDOM, (len(t), 1)))
        log_q = -(FREEDOM + model.dimension) / 2 * np.log1p((t**2).sum(axis=1) / FREEDOM)
        theta = centre + WIDER * t @ np.linalg.cholesky(covariance).T
        ratio = np.asarray(log_posteriors(model, theta, data)) - log_q
        return theta, np.where(np.isfinite(ratio), ratio, -np.inf)

    for _ in range(ROUNDS):
        theta, ratio = proposed(4 * draws)
        weights = np.exp(ratio - ratio.max())
        centre = np.average(theta, axis=0, weights=weights)
        covariance = np.cov(theta.T, aweights=weights).reshape(model.dimension, -1)
    kept: list[np.ndarray] = []
    most = proposed(16 * draws)[1].max()
    while sum(map(len, kept)) < draws:
        theta, ratio = proposed(4 * draws)
        if ratio.max() > most:  # what was kept so far was kept too often where this is
            kept, most = [], ratio.max()
        kept.append(theta[np.log(rng.random(len(theta))) < ratio - most])
    return np.concatenate(kept)[:draws]


def release_of(model: Model, theta: np.ndarray) -> Release:
    params = jax.vmap(model.constrain)(theta)
    return from_draws({k: np.asarray(v).reshape(CHAINS, -1, *v.shape[1:]) for k, v in params.items()}, model)


@cache  # its programs are compiled once, however many data sets there are
def model_of(name: str) -> Model:
    family = FAMILIES[name]
    return from_numpyro(family.program, family.record, domain=family.domain, name=name.replace(" ", "_"))


def simulated(name: str, model: Model, key: int, draws: int, records: int = RECORDS) -> tuple[dict[str, Any], Release]:
    """A data set of the family, and the release of its posterior."""
    rng = np.random.default_rng(key)
    data = FAMILIES[name].sample(rng, rng.normal(0.3, 0.8, records))
    with x64():
        return data, release_of(model, exact(model, data, draws, rng))
