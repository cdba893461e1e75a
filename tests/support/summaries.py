"""Modes and covariances of posteriors, found by Newton's method from the records themselves."""

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints
from numpyro.distributions.transforms import biject_to

from bayesrecon.precision import x64
from bayesrecon.types import Field, Model, Parameter
from tests.support.conjugate import PRIOR_SCALE, RATE, SHAPE


def _log_lik(params, record):
    residual = record["y"] - params["beta"][0] - record["x"] @ params["beta"][1:]
    return -0.5 * (jnp.log(params["variance"]) + residual**2 / params["variance"])


def _log_prior(params):
    v, beta = params["variance"], params["beta"]
    coefficients = -0.5 * len(beta) * jnp.log(v) - 0.5 * jnp.sum(beta**2) / (PRIOR_SCALE**2 * v)
    return coefficients - (SHAPE + 1) * jnp.log(v) - RATE / v


MODEL = Model(
    name="regression",
    parameters=(
        Parameter("beta", (2,)),
        Parameter("variance", (), biject_to(constraints.positive), (0.0, float("inf"))),
    ),
    fields={"x": Field((1,)), "y": Field()},
    log_lik_at=_log_lik,
    log_prior_at=_log_prior,
)
"""The conjugate regression, written out: quick to compile."""

RNG = np.random.default_rng(5)
X = RNG.normal(3, 2, (80, 1))
DATA = {"x": X, "y": 1 + 0.5 * X[:, 0] + RNG.normal(0, 1.5, 80)}
TRUTH = {
    "n": 80.0,
    "mean(x[1])": X.mean(),
    "mean(y)": DATA["y"].mean(),
    "var(x[1])": X.var(),
    "var(y)": DATA["y"].var(),
    "cov(x[1],y)": np.cov(X[:, 0], DATA["y"], ddof=0)[0, 1],
}


def mode(model, records, start, jacobian=True):
    """The mode of the posterior and the inverse of minus the Hessian there."""
    with x64():

        def log_posterior(t):
            terms = jax.vmap(model.log_lik, in_axes=(None, 0))(t, records).sum()
            return terms + model.log_prior(t) + (model.log_det(t) if jacobian else 0.0)

        derivatives = jax.jit(lambda t: (jax.grad(log_posterior)(t), jax.hessian(log_posterior)(t)))
        at = np.asarray(start, float)
        for _ in range(50):
            slope, hessian = (np.asarray(x) for x in derivatives(at))
            step = np.linalg.solve(hessian, slope)
            at = at - step
            if np.abs(step).max() < 1e-13:
                break
        return at, np.linalg.inv(-np.asarray(derivatives(at)[1]))


def start():
    """Near the mode of the conjugate regression on `DATA`, in the model's own order."""
    return np.array([1.0, 0.5, np.log(2.0)])


def cut(mean, covariance, digits):
    """The same as printed: mean and standard deviations to so many digits, correlations to so many decimals."""
    from bayesrecon.digits import round_to

    sd = np.sqrt(np.diag(covariance))
    correlation = np.round(covariance / np.outer(sd, sd), digits)
    np.fill_diagonal(correlation, 1.0)
    sd = round_to(sd, digits)
    return round_to(mean, digits), correlation * np.outer(sd, sd)
