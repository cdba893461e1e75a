"""Programs, and standardised data drawn for them, that variational fits are counted over."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayesrecon.models import from_numpyro


def linear(x, y=None):
    sigma = numpyro.sample("sigma", dist.HalfNormal(5.0))
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1] + 1]).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Normal(beta[0] + x @ beta[1:], sigma), obs=y)


def poisson(x, y=None):
    beta = numpyro.sample("beta", dist.Normal(0, 3).expand([x.shape[1] + 1]).to_event(1))
    with numpyro.plate("records", x.shape[0]):
        numpyro.sample("y", dist.Poisson(jnp.exp(beta[0] + x @ beta[1:])), obs=y)


def simulated(kind, n, p, rng):
    if kind == "linear":
        x = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
        y = x @ rng.normal(size=p) + rng.normal(size=n) * rng.gamma(3.0)
        return (x - x.mean(axis=0)) / x.std(axis=0), (y - y.mean()) / y.std()
    x = (rng.random((n, p)) < rng.uniform(0.3, 0.7, size=p)).astype(float)
    return x, rng.poisson(np.exp(0.3 * rng.normal() + x @ (0.7 * rng.normal(size=p))))


PROGRAMS = {"linear": linear, "poisson": poisson}


def model_of(kind, p):
    return from_numpyro(PROGRAMS[kind], {"x": (p,), "y": ()}, domain=None if kind == "linear" else {"x": "binary"})


def tallied(found):
    """Of pairs of what `recover` found of a fit and the truth: fits without a result, how often intervals hold, the
    root mean square of z, and the median half-width of the intervals of n, relative to it."""
    told = [(one, truth) for one, truth in found if not one.failures]
    stated = [(r, truth[r.name]) for one, truth in told for r in one if r.verdict == "determined" and r.name in truth]
    z = [(r.estimate - true) / r.se for r, true in stated]
    widths = [(one["n"].upper - one["n"].lower) / 2 / truth["n"] for one, truth in told if one["n"].upper is not None]
    return {
        "silent": len(found) - len(told), "held": sum(bool(r.lower <= true <= r.upper) for r, true in stated),
        "stated": len(stated), "z": float(np.sqrt(np.mean(np.square(z)))) if z else None,
        "width": float(np.median(widths)) if widths else None,
    }  # fmt: skip
