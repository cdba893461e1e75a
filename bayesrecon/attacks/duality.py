"""The smallest value of a function of one record over a stated domain.

Both certificates rest on it: a linear functional of a measure of mass B is at least B times its smallest value at a
record. The search is a pool of candidates and a descent from the best of them, inside the box.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from bayesrecon.model import Records

CANDIDATES = 4096
"""Records of the pool: with too few the smallest value is missed, and a certificate says more than is true."""

REFINED = 8  # of them that descend: the best of a pool need not lie in the deepest valley

Slope = Callable[[Records, Records], tuple[Any, Records]]
"""Value and slopes at one record, given as its moving and its other fields."""


def lowest(
    values: Float[np.ndarray, " M"], candidates: Records, box: Mapping[str, tuple[float, float]], slope: Slope
) -> list[tuple[Records, float]]:
    """The records that descents from the best candidates end at, and their values.

    Args:
        values: `(M,)` of the candidates.
        box: `{field: (low, high)}` of the fields that move; the others keep the candidate's values.
    """
    best = np.argsort(values)[:REFINED]
    return [_descend({k: v[i] for k, v in candidates.items()}, box, slope) for i in best]


def _descend(record: Records, box: Mapping[str, tuple[float, float]], slope: Slope) -> tuple[Records, float]:
    import scipy.optimize

    still = {k: v for k, v in record.items() if k not in box}
    moving = {k: jnp.asarray(record[k], float) for k in box}
    if not box:
        return record, float(slope(moving, still)[0])
    flat, shape = ravel_pytree(moving)
    ends = ({k: jnp.broadcast_to(b[i], moving[k].shape) for k, b in box.items()} for i in (0, 1))
    low, high = (np.asarray(ravel_pytree(end)[0], float) for end in ends)
    width = high - low  # on the unit box, whatever the fields' units

    def objective(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = slope(shape(jnp.asarray(low + width * v)), still)
        return float(value), np.asarray(ravel_pytree(slopes)[0]) * width

    start = (np.asarray(flat) - low) / width
    found = scipy.optimize.minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(low))
    moved = shape(jnp.asarray(low + width * found.x))
    return {**still, **{k: np.asarray(v) for k, v in moved.items()}}, float(found.fun)
