"""The likelihood of a deleted record, from the direction and the length of the change it would cause; see `angle`."""

import numpy as np

_ROUNDING = 1e-11  # of a parameter's length: what a solver's last steps and their rounding leave
_FREEDOM = 4.0  # of the t distribution of lengths
_UNLIKE = 20.0  # times as long or as short as a record's own move


def log_likelihood(
    along: np.ndarray, own: np.ndarray, moved: float, freedom: float, *, length: float
) -> tuple[np.ndarray, np.ndarray]:
    """Log likelihoods of records, given the change Delta of a parameter.

    The observed change and the changes that records would cause have the same rounding error, which hides small ones.

    Args:
        along: `Delta' g_i` of each record.
        own: `g_i' H^-1 g_i` of each record.
        moved: `Delta' H Delta`.
        freedom: nu, the number of dimensions.
        length: `theta' H theta`, the scale of the rounding error.

    Returns:
        The log likelihoods, up to a constant, and the logarithm of the observed change relative to each record's own.
    """
    tiny = np.finfo(float).tiny
    error = _ROUNDING**2 * length
    # A record that stays would pull the other way.
    along, own, moved = np.maximum(along, 0.0) + error, own + error, moved + error
    cosine = along**2 / np.maximum(own * moved, tiny)
    share = np.log(np.maximum(along, tiny) / np.maximum(own, tiny))
    angle = -0.5 * max(freedom - 1, 0.0) * np.log1p(-np.minimum(cosine, 1 - np.finfo(float).eps))
    return angle - 0.5 * (_FREEDOM + 1) * np.log1p(share**2 / _FREEDOM), share


def unlike(logs: np.ndarray, shares: np.ndarray) -> tuple[str, ...]:
    """A warning if the likeliest record would have moved the parameters much less, or much further."""
    share = float(shares[int(np.argmax(logs))])
    if abs(share) < np.log(_UNLIKE):
        return ()
    return (
        f"the parameters moved {np.exp(share):.2g} times as far as the likeliest candidate's deletion would have moved "
        "them: no candidate, or more than one, was deleted, or training did not end at the optimum",
    )
