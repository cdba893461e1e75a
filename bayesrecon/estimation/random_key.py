"""Random keys: integers, or those of JAX."""

from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError


def generator(key: Any) -> np.random.Generator:
    """A NumPy generator from an integer or a JAX key."""
    if isinstance(key, (int, np.integer)):
        if key < 0:
            raise BayesreconError(f"key {key}: a seed must be a non-negative integer")
        return np.random.default_rng(int(key))
    import jax

    try:
        data = jax.random.key_data(key)
    except TypeError:
        raise BayesreconError(f"key must be an integer or a JAX random key, got {type(key).__name__}") from None
    return np.random.default_rng(np.asarray(data, np.uint32).ravel().tolist())
