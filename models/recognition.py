"""Which programs are Gaussian linear regressions: read from what they compute, not off their names.

Their location is an affine function of parameters, their scale a multiple of a power of one (`bayesrecon.operations`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import GaussianPredictor, Model, Parameter, Params, Records
from bayesrecon.operations import CALLS, FREE, Mark, marked, operations_of

Response = tuple[jax.Array, jax.Array, jax.Array]
"""Location, scale and value of the observed site, each one entry a record."""

_AT_ONCE = 512  # records whose design is computed together: one program serves pools and probes
_DENSE = 0.5  # of the coefficients in a record, from which records touch most of them
_POINTS, _ALIKE = (-1.3, 0.0, 2.1), 1e-6  # where transforms are compared, and how closely: single precision will do
_INLINED = CALLS | {"custom_jvp_call", "custom_vjp_call"}  # derivatives are not asked for here


def gaussian_predictor(
    model: Model, response: Callable[[Params, Records], Response], params: Params, batch: Records
) -> GaussianPredictor | None:
    """The Gaussian linear regression that a program is, None if it is none.

    Args:
        response: location, scale and value of the site that is normal given the parameters.
        params, batch: any values of the right shapes.
    """
    names = sorted(params)
    trace = jax.make_jaxpr(lambda values, z: response(dict(zip(names, values, strict=True)), z))
    closed = trace([params[n] for n in names], batch)
    program = operations_of(closed, _INLINED)
    marks = marked(program, {k: Mark.of(n) for k, n in zip(program.arguments, names, strict=False)})
    location, scale, value = (marks.get(k, FREE) for k in program.results)
    owned = {p.name: p for p in model.parameters}
    owners = [p.name for p in model.parameters for _ in range(p.size)]
    coefficients = tuple(i for i, owner in enumerate(owners) if owner in location.names)
    sigma = [i for i, owner in enumerate(owners) if owner in scale.names]
    if value.names or not location.affine or scale.names & location.names:
        return None
    if not all(_acts_as(owned[n], _same) for n in location.names):
        return None
    if sigma and (not scale.power or len(sigma) > 1):
        return None
    if not all(_acts_as(owned[n], _same if scale.logged else np.exp) for n in scale.names):
        return None
    if not 0 < len(coefficients) <= GaussianPredictor.MOST_DENSE:
        return None
    at, dimension = np.array(coefficients), model.dimension

    @jax.jit
    def padded(beta: Array, records: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        def residual(values: Array) -> tuple[jax.Array, jax.Array]:
            result, width, seen = response(model.constrain(jnp.zeros(dimension).at[at].set(values)), records)
            return seen - result, width

        slope, width = jax.jacfwd(residual, has_aux=True)(beta)
        return residual(beta)[0], -slope, width

    def design(beta: np.ndarray, records: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        count, columns = len(next(iter(records.values()))), []
        for start in range(0, count, _AT_ONCE):
            rows = np.minimum(np.arange(start, start + _AT_ONCE), count - 1)
            columns.append(padded(beta, {k: np.asarray(v)[rows] for k, v in records.items()}))
        r, x, s = (np.concatenate(parts)[:count] for parts in zip(*columns, strict=True))
        return r, x, s

    if len(coefficients) > GaussianPredictor.MOST:
        (_, x, _) = design(np.zeros(len(coefficients)), batch)
        if np.count_nonzero(x) < _DENSE * x.size:
            return None
    return GaussianPredictor(coefficients, design, sigma[0] if sigma else None, scale.power or 1.0)


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _acts_as(parameter: Parameter, function: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether a parameter is this function of its free coordinate, entry by entry, whatever library made it."""
    if parameter.free_shape != parameter.shape:
        return False
    for x in _POINTS:
        free = np.full(parameter.shape, x) + 0.1 * np.arange(parameter.size).reshape(parameter.shape) / parameter.size
        if not np.allclose(parameter.transform(jnp.asarray(free)), function(free), rtol=_ALIKE, atol=_ALIKE):
            return False
    return True
