"""Imputation of rounded draws in their cells, with the posterior that is fitted to them.

A rounded draw determines the cell in which the original draw lay. Given the data measure w, the density of the draw in
its cell is known up to a constant. So draws are imputed in their cells, and the measure is fitted to them, until
the equations `E[g(theta; w)] = 0` hold for draws that were imputed with w itself. This is a stochastic EM algorithm
(Celeux and Diebolt 1985) for estimating equations (Elashoff and Ryan 2004). It is exact for cells of any size.

The imputed draws depend on w. With the kernel K in the basis, the equations therefore have the derivative

    d E[g_j] / d w_k = K_jk + E[Cov(g_j, l_k | cell)] = ((1 + C K^-1) K)_jk,

and errors are those of draws that were not rounded, times `(1 + C K^-1)^-1`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.divergence.dense import log_likelihoods
from bayesrecon.estimation.rounding import Rounding, atoms
from bayesrecon.estimation.span import Fit
from bayesrecon.model import Model
from bayesrecon.releases import Release

_PROPOSALS = 8  # for every draw between two fits: most of them are accepted
_FIRST_PROPOSALS = 32  # the same before the first fit
_PASSES = (2, 6)  # fits, at least and at most
_CONVERGED = 0.01  # of what the first fit has wrong, that may be left
# Eigenvalue of 1 + C K^-1 below which the cells leave too much open for the fixed point to be trusted.
LEAST_EIGENVALUE = 0.3

Fitted = Callable[[Release], Fit]


def imputed(
    release: Release, rounding: Rounding, fitted: Fitted, rng: np.random.Generator
) -> tuple[Release, Fit] | None:
    """The release with imputed draws, and the fit to them; None if the cells are too large.

    Args:
        fitted: function that fits a release.
    """
    filled = _Filled(release, rounding)
    # As drawn from a normal distribution with the draws' moments, less the noise of the cells; two independent ones.
    density = filled.normal()
    states = [filled.resampled(filled.uniform(rng), density, rng, _FIRST_PROPOSALS) for _ in range(2)]
    # What is wrong falls by the share of a square's variance that is noise, in every pass.
    falls = np.log(min(0.9, 2 * rounding.share / (1 - rounding.share)))
    solved = fitted(filled.release(states[0]))
    for _ in range(int(np.clip(np.ceil(np.log(_CONVERGED) / falls), *_PASSES)) - 1):
        density = filled.posterior(solved)
        states = [filled.resampled(x, density, rng, _PROPOSALS) for x in states]
        solved = fitted(filled.release(states[0]))
    first, second = (filled.release(x) for x in states)
    feedback = _feedback(solved, first, second)
    return None if feedback is None else (first, replace(solved, feedback=feedback))


def _feedback(solved: Fit, first: Release, second: Release) -> np.ndarray | None:
    """The transpose of `(1 + C K^-1)^-1`, `(r, r)`, from two draws in every cell."""
    basis, eye = solved.basis, np.eye(solved.basis.size)
    embedding: Any = solved.embedding
    g, value = [], []
    for one in (first, second):
        g.append(np.asarray(replace(embedding, release=one).influence(basis, solved.y, eye)[0]))
        value.append(log_likelihoods(one.model, np.asarray(one.theta), basis))
    weights = np.asarray(first.weights)
    within = ((g[0] - g[1]) * weights[:, None]).T @ (value[0] - value[1]) / 2
    derivative = np.eye(basis.size) + within @ solved.response
    if np.linalg.eigvals(derivative).real.min() < LEAST_EIGENVALUE:
        return None
    return np.asarray(np.linalg.inv(derivative).T)


class _Filled:
    """Draws anywhere in their cells: `x (T, d)` in the coordinates in which they were rounded."""

    def __init__(self, release: Release, rounding: Rounding):
        self.rounded = release
        self.low, self.width = rounding.low, rounding.high - rounding.low
        self.constrained = rounding.constrained
        # So few coordinates are moved at once that most proposals are accepted.
        x, noise = rounding.low + self.width / 2, (self.width**2).mean(axis=0) / 12
        weights = np.asarray(release.weights)
        self.mean = weights @ x
        self.sd = np.sqrt(weights @ (x - self.mean) ** 2)
        t = (x - self.mean) / self.sd
        correlation = (t * weights[:, None]).T @ t - np.diag(noise / self.sd**2)
        self.precision = np.linalg.inv(correlation)
        self.share = float(min(1.0, 1 / max(1e-300, (np.diag(self.precision) * noise / self.sd**2).sum())))

    def uniform(self, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(self.low + self.width * rng.random(self.low.shape))

    def release(self, x: np.ndarray) -> Release:
        return replace(self.rounded, theta=np.asarray(atoms(self.rounded.model, self.constrained, x)))

    def normal(self) -> Callable[[np.ndarray], np.ndarray]:
        """Log density of the normal distribution with the moments of the draws less the noise."""

        def density(x: np.ndarray) -> np.ndarray:
            t = (x - self.mean) / self.sd
            return -0.5 * np.einsum("ti,ij,tj->t", t, self.precision, t, optimize=True)

        return density

    def posterior(self, solved: Fit) -> Callable[[np.ndarray], np.ndarray]:
        """Log density of the fitted posterior."""
        model = self.rounded.model

        def density(x: np.ndarray) -> np.ndarray:
            theta = np.asarray(atoms(model, self.constrained, x))
            return log_likelihoods(model, theta, solved.basis) @ solved.y + np.asarray(
                _log_base(model, self.constrained, theta)
            )

        return density

    def resampled(
        self, x: np.ndarray, density: Callable[[np.ndarray], np.ndarray], rng: np.random.Generator, proposals: int
    ) -> np.ndarray:
        """Metropolis steps in the cells, each a fresh place for some of the coordinates."""
        log_density = density(x)
        for _ in range(int(np.ceil(proposals / self.share))):
            proposed = np.where(rng.random(x.shape) < self.share, self.uniform(rng), x)
            proposed_density = density(proposed)
            accepted = np.log(rng.random(len(x))) < proposed_density - log_density
            x, log_density = np.where(accepted[:, None], proposed, x), np.where(accepted, proposed_density, log_density)
        return x


@partial(jax.jit, static_argnames=("model", "constrained"))
def _log_base(model: Model, constrained: tuple[bool, ...], theta: Array) -> Array:
    """Log density of the prior, `(T,)`, in the coordinates in which draws were rounded."""

    def one(t: Array) -> Array:
        free, total = model.split(t), model.log_prior(t)
        for p, own in zip(model.parameters, constrained, strict=True):
            if not own:
                total += jnp.sum(p.transform.log_abs_det_jacobian(free[p.name], p.transform(free[p.name])))
        return total

    return jax.vmap(one)(theta)
