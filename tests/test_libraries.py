"""Faults of other libraries that would be taken for ours."""

import subprocess
import sys

import pytest

SOLVES = """
import jax
import jax.numpy as jnp
import numpy as np

def law(a, b):
    out = 0.0
    for k in range(6):
        lower = jnp.tanh(jnp.sin(a * (k + 1.0))) * jnp.eye(8) + 3 * jnp.eye(8)
        once = jax.scipy.linalg.solve_triangular(lower, jnp.cos(b * k), lower=True)
        out += jnp.sin(jax.scipy.linalg.solve_triangular(lower, jnp.exp(jnp.sin(once)), lower=True)).sum()
    return out

print(np.asarray(jax.jit(law)(np.ones((20_000, 8, 8)), np.ones((20_000, 8, 1)))))
"""


@pytest.mark.slow
def test_batched_triangular_solves_end():
    """They are in every likelihood with a covariance; JAX 0.10 has been seen to wait for ever in them."""
    done = subprocess.run([sys.executable, "-c", SOLVES], capture_output=True, text=True, timeout=300, check=True)
    assert float(done.stdout) != 0
