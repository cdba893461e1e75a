"""PyMC models and the NumPyro programs that are the same, with data and draws near their posteriors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pymc as pm
import pytensor.tensor as pt

from bayesrecon.models import from_numpyro
from bayesrecon.types import Model

N, GROUPS = 120, 5


@dataclass(frozen=True)
class Twin:
    """One model, written twice.

    Attributes:
        pymc: of the data.
        numpyro: the same as a NumPyro program.
        data: of a generator.
        shapes: of the fields other than numbers.
        domain: of the NumPyro program's fields, where it differs from what the law tells.
    """

    pymc: Callable[[dict[str, np.ndarray]], Any]
    numpyro: Callable[..., None]
    data: Callable[[np.random.Generator], dict[str, np.ndarray]]
    shapes: dict[str, tuple[int, ...]]
    domain: dict[str, Any]

    def model(self) -> Model:
        return from_numpyro(self.numpyro, self.shapes, domain=self.domain or None)


class Law(dist.Distribution):
    """A density that is written out."""

    def __init__(self, support, shape, log_density):
        self._support, self._log_density = support, log_density
        super().__init__(event_shape=shape)

    @property
    def support(self):
        return self._support

    def log_prob(self, value):
        return self._log_density(value)


def plate(x: Any) -> Any:
    return numpyro.plate("records", x.shape[0])


def linear(d):
    with pm.Model() as model:
        x = pm.Data("x", d["x"])
        beta, sigma = pm.Normal("beta", 0, 10, shape=2), pm.HalfNormal("sigma", 5)
        pm.Normal("y", beta[0] + beta[1] * x, sigma, observed=d["y"])
    return model


def linear_numpyro(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([2]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(5))
    with plate(x):
        numpyro.sample("y", dist.Normal(beta[0] + beta[1] * x, sigma), obs=y)


def logistic(d):
    with pm.Model() as model:
        beta, alpha = pm.Normal("beta", 0, 3, shape=2), pm.Normal("alpha", 0, 3)
        pm.Bernoulli("y", logit_p=alpha + pm.math.dot(d["x"], beta), observed=d["y"])
    return model


def logistic_numpyro(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0, 3).expand([2]).to_event(1))
    alpha = numpyro.sample("alpha", dist.Normal(0, 3))
    with plate(x):
        numpyro.sample("y", dist.Bernoulli(logits=alpha + x @ beta), obs=y)


def hierarchical(d):
    with pm.Model(coords={"school": range(GROUPS)}) as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 2)
        a, sigma = pm.Normal("a", mu, tau, dims="school"), pm.HalfNormal("sigma", 5)
        pm.Normal("y", a[d["school"]] + 0.5 * pm.Data("x", d["x"]), sigma, observed=d["y"])
    return model


def hierarchical_numpyro(x, school, y=None):
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("schools", GROUPS):
        a = numpyro.sample("a", dist.Normal(mu, tau))
    sigma = numpyro.sample("sigma", dist.HalfNormal(5))
    with plate(x):
        numpyro.sample("y", dist.Normal(a[school] + 0.5 * x, sigma), obs=y)


def negative_binomial(d):
    with pm.Model() as model:
        beta, alpha = pm.Normal("beta", 0, 3, shape=2), pm.Gamma("alpha", 2, 0.5)
        pm.NegativeBinomial("y", mu=pt.exp(beta[0] + beta[1] * d["x"]), alpha=alpha, observed=d["y"])
    return model


def negative_binomial_numpyro(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0, 3).expand([2]).to_event(1))
    alpha = numpyro.sample("alpha", dist.Gamma(2, 0.5))
    with plate(x):
        numpyro.sample("y", dist.NegativeBinomial2(jnp.exp(beta[0] + beta[1] * x), alpha), obs=y)


def ordered(d):
    order = pm.distributions.transforms.ordered
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 3)
        cuts = pm.Normal("cuts", 0, 3, shape=3, transform=order, initval=[-1.0, 0.0, 1.0])
        pm.OrderedLogistic("y", eta=beta * d["x"], cutpoints=cuts, compute_p=False, observed=d["y"])
    return model


def ordered_numpyro(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0, 3))
    law = Law(dist.constraints.ordered_vector, (3,), lambda c: dist.Normal(0, 3).log_prob(c).sum(-1))
    cuts = numpyro.sample("cuts", law)
    with plate(x):
        numpyro.sample("y", dist.OrderedLogistic(beta * x, cuts), obs=y)


def mixture(d):
    with pm.Model() as model:
        w, mu = pm.Dirichlet("w", np.ones(2)), pm.Normal("mu", [-2.0, 2.0], 1, shape=2)
        sigma = pm.HalfNormal("sigma", 2)
        pm.Mixture("y", w, pm.Normal.dist(mu, sigma), observed=d["y"])
    return model


def mixture_numpyro(y=None):
    w = numpyro.sample("w", dist.Dirichlet(jnp.ones(2)))
    mu = numpyro.sample("mu", dist.Normal(jnp.array([-2.0, 2.0]), 1).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    with plate(y):
        law = dist.MixtureSameFamily(dist.Categorical(w), dist.Normal(mu, sigma))
        numpyro.sample("y", law, obs=y)


def correlated(d):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3, shape=2)
        sizes = pm.Exponential.dist(1.0, size=2)
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sizes)
        pm.MvNormal("y", mu, chol=chol, observed=d["y"])
    return model


def correlated_numpyro(y=None):
    """The packed factor has a lower triangle and a positive diagonal; the prior is that of its standard deviations and
    of its correlation, with the Jacobian from them."""
    mu = numpyro.sample("mu", dist.Normal(0, 3).expand([2]).to_event(1))

    def log_prob(root):
        size = jnp.sqrt((root**2).sum(axis=-1))
        of_correlation = dist.LKJCholesky(2, 2.0).log_prob(root / size[..., None])
        angle = root[..., 1, 1] / size[..., 1]  # d(l21, l22) / d(size, l21 / size)
        return of_correlation + dist.Exponential(1.0).log_prob(size).sum(-1) - jnp.log(size[..., 1] / angle)

    root = numpyro.sample("root", Law(dist.constraints.lower_cholesky, (2, 2), log_prob))
    with plate(y):
        numpyro.sample("y", dist.MultivariateNormal(mu, scale_tril=root), obs=y)


def censored(d):
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 3, shape=2), pm.HalfNormal("sigma", 3)
        law = pm.Normal.dist(beta[0] + beta[1] * d["x"], sigma)
        pm.Censored("y", law, lower=None, upper=2.0, observed=d["y"])
    return model


def censored_numpyro(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 3).expand([2]).to_event(1))
    law = dist.Normal(beta[0] + beta[1] * x, numpyro.sample("sigma", dist.HalfNormal(3)))
    above = jax.scipy.stats.norm.logsf((2.0 - law.loc) / law.scale)
    with numpyro.plate("rows", x.shape[0]):
        numpyro.factor("records", jnp.where(y >= 2.0, above, law.log_prob(y)))


def with_x(draw):
    def data(rng):
        x = rng.normal(0.3, 0.8, N)
        return {"x": x, "y": draw(rng, x)}

    return data


def schools(rng):
    d = with_x(lambda rng, x: 0.5 * x)(rng)
    school = rng.integers(0, GROUPS, N)
    return {"x": d["x"], "school": school, "y": d["y"] + rng.normal(size=GROUPS)[school] + rng.normal(size=N)}


def two_columns(rng):
    x = rng.normal(size=(N, 2))
    return {"x": x, "y": (rng.random(N) < 1 / (1 + np.exp(-0.5 - x @ [1.0, -0.7]))).astype(int)}


NUMBERS = {"x": (), "y": ()}
TWINS = {
    "linear": Twin(linear, linear_numpyro, with_x(lambda r, x: 1 + 2 * x + r.normal(size=N)), NUMBERS, {}),
    "logistic": Twin(logistic, logistic_numpyro, two_columns, {"x": (2,), "y": ()}, {}),
    "hierarchical": Twin(
        hierarchical, hierarchical_numpyro, schools, {"x": (), "school": (), "y": ()}, {"school": range(GROUPS)}
    ),
    "negative binomial": Twin(
        negative_binomial,
        negative_binomial_numpyro,
        with_x(lambda r, x: r.poisson(np.exp(1 + 0.5 * x) * r.gamma(3, 1 / 3, N))),
        NUMBERS,
        {},
    ),
    "ordered": Twin(
        ordered,
        ordered_numpyro,
        with_x(lambda r, x: np.searchsorted([-1.0, 0.5, 2.0], r.logistic(0.8 * x))),
        NUMBERS,
        {},
    ),
    "mixture": Twin(
        mixture,
        mixture_numpyro,
        lambda r: {"y": np.where(r.random(N) < 0.4, -2.0, 2.0) + r.normal(size=N)},
        {"y": ()},
        {},
    ),
    "correlated": Twin(
        correlated,
        correlated_numpyro,
        lambda r: {"y": r.multivariate_normal([1.0, -1.0], [[2.0, 0.8], [0.8, 1.0]], N)},
        {"y": (2,)},
        {},
    ),
    "censored": Twin(
        censored,
        censored_numpyro,
        with_x(lambda r, x: np.minimum(r.normal(1 + 0.5 * x, 1.5), 2.0)),
        NUMBERS,
        {"y": (-np.inf, 2.0)},
    ),
}
