"""Exact draws of the posteriors of shipped Gaussian linear regressions, whatever the prior of their scale."""

import jax
import numpy as np

from bayesrecon.precision import in_float64

_POINTS, _WIDE = 4001, 12.0  # of the logarithm of the scale, and posterior standard deviations on either side


class Regression:
    """The posterior of records under a model with a `GaussianPredictor` and a normal or flat prior of the coefficients.

    `sigma` is drawn from its marginal density on a fine grid, the coefficients given it from their normal law.
    """

    @in_float64
    def __init__(self, model, records):
        self.at, scale = list(model.gaussian.coefficients), model.gaussian.scale
        self.scale, d = scale, model.dimension
        r, x, s = (np.asarray(a) for a in model.gaussian.design(np.zeros(len(self.at)), records))
        r, x = r / s, x / s[:, None]
        prior = jax.jit(lambda t: model.log_prior(t) + model.log_det(t))
        zero = np.zeros(d)
        slope, bend = np.asarray(jax.grad(prior)(zero))[self.at], -np.asarray(jax.hessian(prior)(zero))
        bend = bend[np.ix_(self.at, self.at)]
        n, beta = len(r), np.linalg.lstsq(x, r, rcond=None)[0]
        residual = np.sum((r - x @ beta) ** 2)
        centre, sd = 0.5 * np.log(residual / n), 1 / np.sqrt(2 * max(n - len(beta), 2))
        self.u = centre + np.linspace(-_WIDE, 2 * _WIDE, _POINTS) * sd
        theta = np.zeros((_POINTS, d))
        theta[:, scale] = self.u
        logs = np.asarray(jax.vmap(prior)(theta))
        gram, cross = x.T @ x, x.T @ r
        self.means, self.roots, log_p = [], [], []
        for u, log_prior in zip(self.u, logs, strict=True):
            precision = gram * np.exp(-2 * u) + bend
            mean = np.linalg.solve(precision, cross * np.exp(-2 * u) + slope)
            root = np.linalg.cholesky(precision)
            quadratic = 0.5 * mean @ precision @ mean - 0.5 * np.exp(-2 * u) * (r @ r)
            log_p.append(log_prior - n * u + quadratic - np.log(np.diag(root)).sum())
            self.means.append(mean)
            self.roots.append(np.linalg.inv(root))
        p = np.exp(np.array(log_p) - max(log_p))
        self.means, self.roots = np.array(self.means), np.array(self.roots)
        self.cdf = np.concatenate([[0.0], np.cumsum(0.5 * (p[1:] + p[:-1]))])
        self.cdf /= self.cdf[-1]

    def sample(self, draws, rng):
        """`(draws, d)` in unconstrained coordinates."""
        u = np.interp(rng.random(draws), self.cdf, self.u)
        near = np.clip(np.searchsorted(self.u, u), 0, len(self.u) - 1)
        normal = rng.normal(size=(draws, len(self.at)))
        theta = np.empty((draws, len(self.at) + 1))
        theta[:, self.at] = self.means[near] + np.einsum("tji,tj->ti", self.roots[near], normal)
        theta[:, self.scale] = u
        return theta
