"""What annotations call arrays and random keys."""

import jax
import numpy as np

Array = np.ndarray | jax.Array
"""NumPy's in this process; JAX's on a device, or in a program that is compiled."""

Key = int | jax.Array
"""A seed, or a random key of JAX."""
