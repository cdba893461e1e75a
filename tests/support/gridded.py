"""Two-parameter posteriors that are sampled on a fine grid."""

from functools import cache

import numpy as np
import numpyro
from numpyro.distributions import Bernoulli, ImproperUniform, constraints

from bayesrecon.models import from_numpyro, load
from bayesrecon.posteriors import from_draws


def grid_draws(log_density, first, second, draws, rng):
    """Draws of a two-parameter posterior on a fine grid, jittered within its cells."""
    weights = np.exp(log_density - log_density.max()).ravel()
    cells = rng.choice(weights.size, draws, p=weights / weights.sum())
    rows, columns = np.divmod(cells, len(second))
    a = first[rows] + rng.uniform(-0.5, 0.5, draws) * (first[1] - first[0])
    b = second[columns] + rng.uniform(-0.5, 0.5, draws) * (second[1] - second[0])
    return a, b


def newton(gradient, hessian, start):
    theta = np.array(start, float)
    for _ in range(50):
        theta = theta - np.linalg.solve(hessian(theta), gradient(theta))
    return theta, np.sqrt(np.diag(np.linalg.inv(-hessian(theta))))


@cache
def switching():
    """A logistic regression with a flat prior: who switched to another well, by its distance."""

    def program(dist, switched):
        beta = numpyro.sample("beta", ImproperUniform(constraints.real_vector, (), (2,)))
        with numpyro.plate("records", dist.shape[0]):
            numpyro.sample("switched", Bernoulli(logits=beta[0] + beta[1] * dist), obs=switched)

    return from_numpyro(program, {"dist": (), "switched": ()}, domain={"dist": "positive"})


def logistic(rng, records=600, draws=4000):
    x = rng.gamma(2.0, 20.0, records).clip(0, 250)
    design = np.column_stack([np.ones(records), x])
    y = rng.random(records) < 1 / (1 + np.exp(-(0.6 - 0.012 * x)))
    chance = lambda t: 1 / (1 + np.exp(-design @ t))  # noqa: E731
    mode, sd = newton(
        lambda t: design.T @ (y - chance(t)),
        lambda t: -(design.T * (chance(t) * (1 - chance(t)))) @ design,
        [0.0, 0.0],
    )
    a, b = (m + s * np.linspace(-6, 6, 200) for m, s in zip(mode, sd, strict=True))
    release = from_draws({"beta": logistic_draws(x, y, a, b, draws, rng)[None]}, switching())
    return {"dist": x, "switched": y.astype(int)}, release, {"dist": (0, 250)}


def logistic_draws(x, y, intercepts, slopes, draws, rng):
    """`(draws, 2)` draws of an intercept and a slope under a flat prior on the grid."""
    log_density = intercepts[:, None] * y.sum() + slopes * (x * y).sum()
    for row, intercept in zip(log_density, intercepts, strict=True):
        row -= np.log(1 + np.exp(intercept + slopes[:, None] * x)).sum(axis=-1)
    return np.stack(grid_draws(log_density, intercepts, slopes, draws, rng), axis=-1)


def poisson(rng, records=300, draws=4000):
    x = rng.normal(0.5, 0.8, records).clip(-3, 4)
    y = rng.poisson(np.exp(0.5 + 0.4 * x))
    design = np.column_stack([np.ones(records), x])
    mode, sd = newton(
        lambda t: design.T @ (y - np.exp(design @ t)) - t / 100,
        lambda t: -(design.T * np.exp(design @ t)) @ design - np.eye(2) / 100,
        [0.5, 0.3],
    )
    a, b = (m + s * np.linspace(-6, 6, 200) for m, s in zip(mode, sd, strict=True))
    eta = a[:, None, None] + b[:, None] * x
    log_density = (y * eta - np.exp(eta)).sum(axis=-1) - (a[:, None] ** 2 + b**2) / 200
    first, second = grid_draws(log_density, a, b, draws, rng)
    release = from_draws({"alpha": first[None], "beta": second[None, :, None]}, load("poisson_regression"))
    return {"x": x, "y": y}, release, {"x": (-3, 4), "y": (0, 60)}
