"""The likelihood of a record by the angle and the length of what it would have moved; see `angle`."""

import numpy as np


def log_likelihood(along: np.ndarray, own: np.ndarray, moved: float, freedom: float) -> np.ndarray:
    """Of records with `Delta' g_i` and `g_i' H^-1 g_i`, beside a move with `Delta' H Delta`, in nu dimensions."""
    tiny = np.finfo(float).tiny
    # A record that stays would pull the other way.
    cosine = np.maximum(along, 0.0) ** 2 / np.maximum(own * moved, tiny)
    share = np.log(np.maximum(np.abs(along), tiny) / np.maximum(own, tiny))
    return -0.5 * max(freedom - 1, 0.0) * np.log1p(-np.minimum(cosine, 1 - np.finfo(float).eps)) - 0.5 * share**2
