"""Could any data make a parameter stationary?

It is only if its regulariser's gradient lies in the span of the records' gradients.
"""

from typing import Any

import numpy as np
import scipy.linalg
from jaxtyping import Float

# Share of the regulariser's gradient that no data cancel, from which a parameter is not stationary: above what training
# to the usual tolerances leaves; and the pivot below which a record's gradient is a sum of others.
_STATIONARY, _RANK = 1e-6, 1e-10


def check_trained(scores: np.ndarray, base: np.ndarray) -> tuple[str, ...]:
    """Whether any data, with weights of either sign, could make a parameter stationary; see `beyond`."""
    left = float(np.linalg.norm(beyond(scores, base))) / (float(np.linalg.norm(base)) or 1.0)
    if left < _STATIONARY:
        return ()
    return (
        f"the parameter is not stationary: no data cancel {left:.1g} of its regulariser's gradient; was the loss "
        "summed and trained to its optimum, and is the regulariser this one?",
    )


def beyond(scores: Float[np.ndarray, "d M"], base: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"]:
    """What no combination of gradients cancels, `(d,)`.

    Args:
        scores: `(d, M)` gradients of generic records, more than there are features.
        base: `(d,)` gradient of the regulariser.
    """
    length = np.linalg.norm(scores, axis=0)
    unit = scores[:, length > 0] / length[length > 0]
    if not unit.size:
        return base
    pivoted: Any = scipy.linalg.qr(unit, mode="economic", pivoting=True, check_finite=False)
    q, r, _ = pivoted
    q = q[:, np.abs(np.diag(r)) > _RANK * abs(r[0, 0])]
    return np.asarray(base - q @ (q.T @ base))
