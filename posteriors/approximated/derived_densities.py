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

from bayesrecon.model import Model, Parameter


def evaluated(model: Model, points: np.ndarray, log_density: np.ndarray) -> Model:
    """The derived model of a log density `(T,)` at points `(T, d)` in unconstrained coordinates.

    >>> from bayesrecon.models.registry import load
    >>> evaluated(load("kidscore_momiq"), np.zeros((5, 3)), np.zeros(5)).dimension
    5
    """
    at = np.asarray(points, float)
    base = np.asarray(_base(model, at)) - log_density

    def centred(params: dict[str, jax.Array]) -> jax.Array:
        return params["error"] - jnp.mean(params["error"])

    return Model(
        name=f"{model.name}, log density",
        parameters=(Parameter("error", (len(at),)),),
        fields=model.fields,
        log_lik_at=lambda params, z: centred(params) @ jax.vmap(model.log_lik, in_axes=(0, None))(jnp.asarray(at), z),
        log_prior_at=lambda params: centred(params) @ (base - base.mean()) - 0.5 * jnp.sum(centred(params) ** 2),
        identities=model.identities,
    )


def contrasts(count: int) -> np.ndarray:
    """Orthonormal directions `(T, T - 1)` without the constant, which log densities do not have (Helmert).

    >>> np.allclose(contrasts(4).T @ contrasts(4), np.eye(3)), np.allclose(contrasts(4).sum(axis=0), 0)
    (True, True)
    """
    result = np.triu(np.ones((count, count - 1)))
    at = np.arange(1, count)
    result[at, at - 1] = -at
    return result / np.sqrt(at * (at + 1))


def _base(model: Model, points: np.ndarray) -> jax.Array:
    return jax.vmap(lambda t: model.log_prior(t) + model.log_det(t))(jnp.asarray(points))
