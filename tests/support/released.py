"""A small release of every kind, of the same 40 numbers with one normal mean, whose posterior is normal."""

from functools import cache

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import variational
from numpyro.infer.autoguide import AutoDelta, AutoNormal

from bayesrecon.models import from_numpyro
from bayesrecon.posteriors import dirac, from_draws, from_guide, from_log_density, from_table, gaussian
from bayesrecon.types import (
    Approximation,
    LogDensity,
    OptimisedFit,
    OptimisedMode,
    PosteriorDraws,
    StatedLimits,
    Summary,
    TrainedParameter,
    VariationalOptimum,
)

PRIOR = 10.0
Y = 2.0 + np.random.default_rng(0).normal(size=40)
PRECISION = len(Y) + PRIOR**-2
MEAN, SD = Y.sum() / PRECISION, PRECISION**-0.5


def program(y=None):
    mean = numpyro.sample("mean", dist.Normal(0, PRIOR))
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


@cache
def model():
    return from_numpyro(program, {"y": ()}, name="level")


def _guide(kind, params, **more):
    return from_guide(model(), variational.ready(kind(program), jnp.zeros(3)), params, **more)


def _table():
    rows = [["1.00", "0.10"], ["0.50", "0.10"], ["1.20", ""]]
    return pd.DataFrame(rows, ["const", "x1", "sigma"], ["estimate", "std. error"])


_MADE = {
    PosteriorDraws: lambda: from_draws({"mean": MEAN + SD * np.random.default_rng(1).normal(size=(2, 400))}, model()),
    TrainedParameter: lambda: dirac(model(), {"mean": MEAN}),
    Approximation: lambda: gaussian(model(), [MEAN], [[SD**2]]),
    VariationalOptimum: lambda: gaussian(model(), [MEAN], [[SD**2]], fit="full rank"),
    Summary: lambda: gaussian(model(), [MEAN], [[SD**2]], digits=5),
    OptimisedFit: lambda: _guide(AutoNormal, {"mean_auto_loc": MEAN, "mean_auto_scale": SD}, residual=0.01),
    OptimisedMode: lambda: _guide(AutoDelta, {"mean_auto_loc": MEAN}, residual=0.01),
    LogDensity: lambda: from_log_density(
        model(),
        lambda t: -0.5 * ((t[:, 0] - MEAN) / SD) ** 2,
        MEAN + SD * np.random.default_rng(2).normal(size=(60, 1)),
    ),
    StatedLimits: lambda: from_table(_table(), "ols"),
}
KINDS = tuple(_MADE)


@cache
def release_of(kind):
    """The release of a kind."""
    return _MADE[kind]()
