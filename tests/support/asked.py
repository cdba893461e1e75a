"""A small model that is asked about private records, and what is public."""

import jax.numpy as jnp
import numpy as np

WIDTH, OUTPUTS = 12, 4
RNG = np.random.default_rng(0)
FACTOR = RNG.normal(size=(WIDTH, WIDTH)) * 0.8 ** np.arange(WIDTH)
WEIGHTS = RNG.normal(size=(WIDTH, OUTPUTS)) / 3
RECORDS = RNG.normal(size=(1500, WIDTH)) @ FACTOR.T
SINGLE = jnp.asarray(WEIGHTS, jnp.float32)
PUBLIC, PRIVATE = RECORDS[:1200], RECORDS[1200:]


def linear(x):
    return x @ WEIGHTS


def curved(x):
    return jnp.tanh(x @ SINGLE) * 2


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)
