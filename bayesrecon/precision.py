"""Double and single precision of JAX inside a block, whatever the user's global setting."""

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def x64() -> AbstractContextManager[object]:
    """Context manager in which JAX has 64-bit types."""
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64  # type: ignore[attr-defined]

    return enable_x64()


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that runs `function` with 64-bit JAX types."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with x64():
            return function(*args, **kwargs)

    return wrapped


def in_float32(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that runs `function` with 32-bit JAX types, the usual ones of networks."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with _x32():
            return function(*args, **kwargs)

    return wrapped


def _x32() -> AbstractContextManager[object]:
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(False)
    from jax.experimental import disable_x64  # type: ignore[attr-defined]

    return disable_x64()
