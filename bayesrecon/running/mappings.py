"""Memory mappings: Linux allows a process some 65,000, and every compiled program takes several.

JAX keeps the programs of every model and shape that it has met. A process that attacks hundreds of models one after
another would exceed the limit and crash, without an error that could be caught.
"""

import gc
import math
import sys
import time
from pathlib import Path

_SHARE = (
    0.6  # of the allowed mappings: a call compiles about a hundred programs, and the rest has room for several hundred
)


PAUSE = 1.0
"""Seconds between two looks. A look takes a millisecond, and what is compiled meanwhile a few hundred mappings."""


class _Looked:
    """When the mappings of this process were counted last."""

    at = -math.inf


_LOOKED = _Looked()


def used() -> int:
    """Number of memory mappings of this process; 0 where the system does not say."""
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:
        return 0


def allowed() -> float:
    """Number of memory mappings that a process may have; infinite where the system does not say."""
    try:
        return int(Path("/proc/sys/vm/max_map_count").read_text())
    except (OSError, ValueError):
        return float("inf")


def make_room() -> None:
    """Drop compiled programs if they take most of the memory mappings that this process may have."""
    if "jax" not in sys.modules or time.monotonic() - _LOOKED.at < PAUSE:
        return
    _LOOKED.at = time.monotonic()
    if used() > _SHARE * allowed():
        sys.modules["jax"].clear_caches()
        gc.collect()
