"""Faults of other libraries that would be taken for ours."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parent.parent / "docs/jax_0_10.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_batched_triangular_solves_end():
    """They are in every likelihood with a covariance; `docs/jax_0_10.md` says which versions of JAX never return."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert float(done.stdout.split()[1]) == pytest.approx(-215277.88, rel=1e-5)
