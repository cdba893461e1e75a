"""The smallest value of a function of one record over a stated domain.

Both certificates need it: a linear functional of a measure of mass B is at least B times its smallest value at a
record. The search evaluates a pool of candidates and descends from the best ones, inside the box.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from bayesrecon.model import Records

CANDIDATES = 4096
"""Number of candidates. With too few, the smallest value is missed and a certificate is too strong."""

REFINED = 8  # number of descents: the best candidate need not lie in the deepest valley

Ends = tuple[float | np.ndarray, float | np.ndarray]
"""Smallest and largest value of a field, or of each of its entries."""

Slope = Callable[[Records, Records], tuple[jax.Array, Records]]
"""Value and gradient at one record, as a function of its free fields and its fixed fields."""


def lowest(
    values: Float[np.ndarray, " M"], candidates: Records, box: Mapping[str, Ends], slope: Slope
) -> list[tuple[Records, float]]:
    """End points of descents from the best candidates, and their values.

    Args:
        values: `(M,)` values of the candidates.
        box: `{field: (low, high)}` for the free fields. The others keep the candidate's values.
    """
    best = np.argsort(values)[:REFINED]
    return [_descend({k: v[i] for k, v in candidates.items()}, box, slope) for i in best]


def _descend(record: Records, box: Mapping[str, Ends], slope: Slope) -> tuple[Records, float]:
    import scipy.optimize

    fixed = {k: v for k, v in record.items() if k not in box}
    free = {k: jnp.asarray(record[k], float) for k in box}
    if not box:
        return record, float(slope(free, fixed)[0])
    flat, unravel = ravel_pytree(free)
    bounds = ({k: jnp.broadcast_to(b[i], free[k].shape) for k, b in box.items()} for i in (0, 1))
    low, high = (np.asarray(ravel_pytree(end)[0], float) for end in bounds)
    width = high - low  # the descent is on the unit box

    def objective(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = slope(unravel(jnp.asarray(low + width * v)), fixed)
        return float(value), np.asarray(ravel_pytree(slopes)[0]) * width

    start = (np.asarray(flat) - low) / width
    optimum = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(low))
    end_point = unravel(jnp.asarray(low + width * optimum.x))
    return {**fixed, **{k: np.asarray(v) for k, v in end_point.items()}}, float(optimum.fun)
