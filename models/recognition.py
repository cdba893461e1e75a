"""Recognises Gaussian linear regressions by the operations of a program.

The location of such a program is an affine function of parameters, and its scale is a multiple of a power of one
parameter (`bayesrecon.operations`).
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import GaussianPredictor, Model, Parameter, Params, Records
from bayesrecon.operations import CALLS, FREE, Mark, marked, operations_of

Response = tuple[jax.Array, jax.Array, jax.Array]
"""Location, scale and value of the observed site, `(N,)` each."""

_BATCH = 512  # records whose design is computed together, so that one compiled program serves any number of records
_DENSE = 0.5  # share of coefficients in a record from which the design counts as dense
_POINTS, _TOLERANCE = (-1.3, 0.0, 2.1), 1e-6  # where transforms are compared; the tolerance allows single precision
_INLINED = CALLS | {"custom_jvp_call", "custom_vjp_call"}  # their rules for derivatives are not needed


def gaussian_predictor(
    model: Model, response: Callable[[Params, Records], Response], params: Params, batch: Records
) -> GaussianPredictor | None:
    """The form of a program as a Gaussian linear regression; None if it is none.

    Args:
        response: function that returns location, scale and value of the observed normal site.
        params, batch: any parameters and records of the right shapes.
    """
    names = sorted(params)
    trace = jax.make_jaxpr(lambda values, z: response(dict(zip(names, values, strict=True)), z))
    closed = trace([params[n] for n in names], batch)
    program = operations_of(closed, _INLINED)
    marks = marked(program, {k: Mark.of(n) for k, n in zip(program.arguments, names, strict=False)})
    location, scale, value = (marks.get(k, FREE) for k in program.results)
    by_name = {p.name: p for p in model.parameters}
    names_of_coordinates = [p.name for p in model.parameters for _ in range(p.size)]
    coefficients = tuple(i for i, owner in enumerate(names_of_coordinates) if owner in location.names)
    sigma = [i for i, owner in enumerate(names_of_coordinates) if owner in scale.names]
    if value.names or not location.affine or scale.names & location.names:
        return None
    if not all(_transform_is(by_name[n], _identity) for n in location.names):
        return None
    if sigma and (not scale.power or len(sigma) > 1):
        return None
    if not all(_transform_is(by_name[n], _identity if scale.logged else np.exp) for n in scale.names):
        return None
    if not 0 < len(coefficients) <= GaussianPredictor.MOST_DENSE:
        return None
    at, dimension = np.array(coefficients), model.dimension

    @jax.jit
    def on_batch(beta: Array, records: Records) -> tuple[jax.Array, jax.Array, jax.Array]:
        def residual(values: Array) -> tuple[jax.Array, jax.Array]:
            result, width, observed = response(model.constrain(jnp.zeros(dimension).at[at].set(values)), records)
            return observed - result, width

        slope, width = jax.jacfwd(residual, has_aux=True)(beta)
        return residual(beta)[0], -slope, width

    def design(beta: np.ndarray, records: Records) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        count, columns = len(next(iter(records.values()))), []
        for start in range(0, count, _BATCH):
            rows = np.minimum(np.arange(start, start + _BATCH), count - 1)
            columns.append(on_batch(beta, {k: np.asarray(v)[rows] for k, v in records.items()}))
        r, x, s = (np.concatenate(parts)[:count] for parts in zip(*columns, strict=True))
        return r, x, s

    if len(coefficients) > GaussianPredictor.MOST:
        (_, x, _) = design(np.zeros(len(coefficients)), batch)
        if np.count_nonzero(x) < _DENSE * x.size:
            return None
    return GaussianPredictor(coefficients, design, sigma[0] if sigma else None, scale.power or 1.0)


def _identity(x: np.ndarray) -> np.ndarray:
    return x


def _transform_is(parameter: Parameter, function: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Whether the transform of a parameter is this elementwise function, from whatever library it is."""
    if parameter.free_shape != parameter.shape:
        return False
    for x in _POINTS:
        free = np.full(parameter.shape, x) + 0.1 * np.arange(parameter.size).reshape(parameter.shape) / parameter.size
        if not np.allclose(parameter.transform(jnp.asarray(free)), function(free), rtol=_TOLERANCE, atol=_TOLERANCE):
            return False
    return True
