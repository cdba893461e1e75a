"""Densities that can be evaluated as trained parameters of derived models.

Where q is the posterior itself, its logarithm at any points theta_1 ... theta_T obeys

    log q(theta_t) - log pi0(theta_t) - log det(theta_t) = sum_n l(theta_t, x_n) + c.

Let e `(T,)` be the errors of log q at the points. These are the equations of a stationary point at e = 0 of

    sum_n <e', l(., x_n)> + <e', log pi0 + log det - log q> - |e'|^2 / 2,      e' = e - mean(e).

So the release is a trained parameter of a model whose record term is `<e', l(., z)>`. If log q has the error e, the
stationary point is at e, whatever the data.
"""

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.model import Model, Parameter, Params, Records


def evaluated(model: Model, points: np.ndarray, log_density: np.ndarray) -> Model:
    """The derived model of a log density `(T,)` at points `(T, d)` in unconstrained coordinates.

    >>> from bayesrecon.models.registry import load
    >>> evaluated(load("kidscore_momiq"), np.zeros((5, 3)), np.zeros(5)).dimension
    5
    """
    points = np.asarray(points, float)
    log_ratio = np.asarray(_log_prior(model, points)) - log_density

    def centred(params: Params) -> jax.Array:
        return params["error"] - jnp.mean(params["error"])

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        return centred(params) @ jax.vmap(model.log_lik, in_axes=(0, None))(jnp.asarray(points), record)

    def log_prior_at(params: Params) -> jax.Array:
        return centred(params) @ (log_ratio - log_ratio.mean()) - 0.5 * jnp.sum(centred(params) ** 2)

    return Model(
        name=f"{model.name}, log density",
        parameters=(Parameter("error", (len(points),)),),
        fields=model.fields,
        log_lik_at=log_lik_at,
        log_prior_at=log_prior_at,
        identities=model.identities,
    )


def contrasts(count: int) -> np.ndarray:
    """Orthonormal directions `(T, T - 1)` without the constant, which log densities do not have (Helmert).

    >>> np.allclose(contrasts(4).T @ contrasts(4), np.eye(3)), np.allclose(contrasts(4).sum(axis=0), 0)
    (True, True)
    """
    result = np.triu(np.ones((count, count - 1)))
    size = np.arange(1, count)
    result[size, size - 1] = -size
    return result / np.sqrt(size * (size + 1))


def _log_prior(model: Model, points: np.ndarray) -> jax.Array:
    """Log prior density in unconstrained coordinates, `(T,)`."""
    return jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(jnp.asarray(points))
