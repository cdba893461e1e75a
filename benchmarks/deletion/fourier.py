"""Random features of a Gaussian kernel."""

import numpy as np


class Fourier:
    """`cos(x W + b)` (Rahimi and Recht 2007, unscaled), W normal and divided by the kernel's scale."""

    def __init__(self, columns, width, scale, rng):
        self.scale = scale
        self.frequencies = rng.normal(size=(columns, width)) / scale
        self.phase = rng.uniform(0, 2 * np.pi, width)

    def __call__(self, x):
        import jax.numpy as jnp

        return jnp.cos(x @ self.frequencies + self.phase)
