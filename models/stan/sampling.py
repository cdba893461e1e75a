"""The NumPyro program of a Stan program, which NUTS runs."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from bayesrecon.arrays import Array
from bayesrecon.model import Model, Params, Records
from bayesrecon.models.stan.record_term import Parts


def numpyro_program(parts: Parts, model: Model) -> Callable[..., None]:
    """A program of latent variables with flat priors in unconstrained coordinates, and a factor for the log density."""

    def program(**batch: Array) -> None:
        import numpyro
        from numpyro.distributions import ImproperUniform, constraints

        params, total = {}, jnp.zeros(())
        for p in model.parameters:
            x = jnp.asarray(numpyro.sample(f"{p.name}__free", ImproperUniform(constraints.real, (), p.free_shape)))
            y = p.transform(x)
            total = total + jnp.sum(p.transform.log_abs_det_jacobian(x, y))
            params[p.name] = numpyro.deterministic(p.name, y)
        numpyro.factor("density", total + _log_density(parts, model, params, batch))

    return program


def _log_density(parts: Parts, model: Model, params: Params, batch: Records) -> jax.Array:
    """The log density of all records, by one run of the program if records are known and have no units."""
    known = not any(isinstance(v, Tracer) for v in batch.values())
    if parts.unit is None and known and parts.count is not None:
        records = {k: np.asarray(v) for k, v in batch.items()}
        run = parts.run_joint(params, records, len(next(iter(records.values()))))
        return run.total() + parts.coordinates.values(params)[1]
    terms = jax.vmap(model.log_lik_at, in_axes=(None, 0))(params, batch)
    return jnp.sum(terms) + model.log_prior_at(params)
