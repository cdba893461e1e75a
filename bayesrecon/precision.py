"""A local double-precision scope: kernel solves need float64 whatever the user's global setting."""

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def x64() -> Any:
    """Context manager that turns on 64-bit JAX types inside the block only."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # type: ignore[attr-defined]

    return enable_x64()


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` inside the 64-bit scope."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with x64():
            return function(*args, **kwargs)

    return wrapped


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` with 32-bit JAX types: networks keep their precision whatever the user's global setting."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with _single():
            return function(*args, **kwargs)

    return wrapped


def _single() -> Any:
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(False)
    from jax.experimental import disable_x64  # type: ignore[attr-defined]

    return disable_x64()
