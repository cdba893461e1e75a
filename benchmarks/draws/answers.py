"""Answers of made-up persons to made-up items, and draws of the posterior of a two-parameter logistic model given them.

Hamiltonian Monte Carlo with a random number of steps, in coordinates that are nearly white (those of the information at
the parameters that the answers were made from: whoever owns the answers may know them, and any coordinates are right).
A thousand parameters and 50,000 answers take minutes, and successive draws are all but independent.
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.models import load
from bayesrecon.precision import x64
from bayesrecon.types import PosteriorDraws

_STEP = 1.2  # times d^(-1/4)
_SETTLING = 300  # draws of every chain that are thrown away
_LEAST = 1.0  # precision of a standard normal distribution, that of every raw coordinate a priori
_SPREAD = 0.3  # of the logarithms of the slopes


def design(persons, items):
    """Every person answers every item."""
    person, item = np.indices((persons, items)) + 1
    return {"person": person.ravel(), "item": item.ravel()}


def posterior(persons, items, draws, seed, chains=4):
    """A release with draws of the posterior, and the answers, records of the model `irt_2pl`."""
    model, rng = load("irt_2pl", persons=persons, items=items), np.random.default_rng(seed)
    where, at = {}, 0
    for p in model.parameters:
        size = int(np.prod(p.shape, dtype=int))
        where[p.name] = slice(at, at + size) if p.shape else at
        at += size
    truth = rng.normal(size=model.dimension)
    truth[[where[k] for k in ("sigma_theta", "mu_b", "sigma_b")]] = 0.0
    truth[where["sigma_a"]] = np.log(_SPREAD)
    with x64():
        probability = 1 / (1 + np.exp(-np.asarray(_logits(where, truth))))
        y = rng.random((persons, items)) < probability
        log_density = partial(_log_density, where, jnp.asarray(y, float))
        values, vectors = np.linalg.eigh(-np.asarray(jax.jit(jax.hessian(log_density))(truth)))
        factor = (vectors / np.sqrt(np.maximum(values, _LEAST))) @ vectors.T
        run = jax.jit(partial(_chain, log_density, count=_SETTLING + draws // chains))
        parts = []
        for key in jax.random.split(jax.random.key(seed), chains):
            path, accepted = run(jnp.asarray(truth), jnp.asarray(factor), key)
            print(f"{persons} x {items}: {float(accepted):.0%} of the proposals accepted", flush=True)
            parts.append(np.asarray(path)[_SETTLING:])
    theta, chain = np.concatenate(parts), np.repeat(np.arange(chains), draws // chains)
    name = f"{persons} persons, {items} items"
    records = {**design(persons, items), "y": y.ravel().astype(int)}
    return PosteriorDraws(theta, model, np.full(len(theta), 1 / len(theta)), chain, name=name), records


def _logits(where, t):
    theta = jnp.exp(t[where["sigma_theta"]]) * t[where["theta_raw"]]
    a = jnp.exp(jnp.exp(t[where["sigma_a"]]) * t[where["a_raw"]])
    b = t[where["mu_b"]] + jnp.exp(t[where["sigma_b"]]) * t[where["b_raw"]]
    return a * (theta[:, None] - b)


def _log_density(where, y, t):
    """In unconstrained coordinates, up to a constant; half-Cauchy distributions of scale 2 for the scales."""
    eta = _logits(where, t)
    likelihood = jnp.sum(y * eta - jax.nn.softplus(eta))
    raw = sum(jnp.sum(t[where[k]] ** 2) for k in ("theta_raw", "a_raw", "b_raw")) + (t[where["mu_b"]] / 5) ** 2
    scales = jnp.stack([t[where[k]] for k in ("sigma_theta", "sigma_a", "sigma_b")])
    return likelihood - 0.5 * raw + jnp.sum(scales - jnp.log1p(jnp.exp(2 * scales) / 4))


def _chain(log_density, centre, factor, key, count):
    """`(count, d)` draws, and the share of proposals that were accepted."""
    size = len(centre)
    step = _STEP * size**-0.25
    most = max(2, round(np.pi / step))
    slope = jax.value_and_grad(lambda z: -log_density(centre + factor @ z))

    def draw(state, key):
        z, value, gradient = state
        one, two, three, four = jax.random.split(key, 4)
        momentum = jax.random.normal(one, (size,))
        length = jax.random.randint(two, (), most // 4 + 1, most + 1)
        e = step * jax.random.uniform(three, (), minval=0.7, maxval=1.1)

        def leap(_, carry):
            x, p, _, g = carry
            p = p - e / 2 * g
            x = x + e * p
            v, g = slope(x)
            return x, p - e / 2 * g, v, g

        x, p, v, g = jax.lax.fori_loop(0, length, leap, (z, momentum, value, gradient))
        change = value - v + 0.5 * (momentum @ momentum - p @ p)
        accepted = jnp.log(jax.random.uniform(four)) < change
        z, value, gradient = (jnp.where(accepted, new, old) for new, old in ((x, z), (v, value), (g, gradient)))
        return (z, value, gradient), (centre + factor @ z, accepted)

    start = jnp.zeros(size)
    _, (path, accepted) = jax.lax.scan(draw, (start, *slope(start)), jax.random.split(key, count))
    return path, accepted.mean()


if __name__ == "__main__":
    *numbers, path = sys.argv[1:]
    release, records = posterior(*map(int, numbers))
    np.savez(path, theta=np.asarray(release.theta), chain=np.asarray(release.chain), y=records["y"])
