"""Small NumPyro programs, and the check of a model against NumPyro's own density."""

import jax
import numpy as np
import numpyro
from numpyro import distributions as dist
from numpyro.infer.util import log_density, potential_energy

from bayesrecon.precision import x64


def draw_records(model, size, seed=0):
    rng = np.random.default_rng(seed)
    return {k: f.domain.draw(rng, (size, *f.shape), 1.0, 0.5) for k, f in model.fields.items()}


def agrees_with_numpyro(model, seed=0):
    """The terms of the records, the prior and the Jacobian add up to what NumPyro makes of all records at once."""
    with x64():
        records = draw_records(model, 5, seed)
        theta = 0.5 * np.random.default_rng(seed + 1).standard_normal(model.dimension)

        @jax.jit
        def both(theta, records):
            params = model.constrain(theta)
            terms = jax.vmap(model.log_lik, (None, 0))(theta, records)
            ours = terms.sum() + model.log_prior(theta)
            theirs, _ = log_density(model.program, (), records, params)
            energy = potential_energy(model.program, (), records, model.split(theta))
            return ours, theirs, ours + model.log_det(theta), -energy, model.unconstrain(params), params

        ours, theirs, free, energy, back, params = jax.tree.map(np.asarray, both(theta, records))
    np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(free, energy, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(back, theta, rtol=1e-10, atol=1e-10)
    for p in model.parameters:
        assert params[p.name].shape == p.shape
        if p.bounds is not None:
            assert ((params[p.name] >= p.bounds[0]) & (params[p.name] <= p.bounds[1])).all()


XY = {"x": (), "y": ()}


def observe(mean, y, scale=1.0):
    with numpyro.plate("records", y.shape[0]):
        numpyro.sample("y", dist.Normal(mean, scale), obs=y)


def slope(law=None):
    return numpyro.sample("b", dist.Normal(0, 1) if law is None else law)


def plain(x, y):
    observe(slope() * x, y)
