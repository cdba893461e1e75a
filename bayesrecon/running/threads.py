"""Run BLAS with one thread for small matrices.

Several threads make small solves slower. If other processes keep the cores busy, the threads also wait for each other:
a triangular solve with six unknowns can then take a thousand times as long.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

_LARGE = 2**31  # multiplications, about half a second on one thread; smaller products do not profit from threads
P = ParamSpec("P")
R = TypeVar("R")


class _Threads:
    """The number of BLAS threads of this process.

    The setting belongs to the process. The thread that changes it first owns it until it is done, and other threads use
    the same setting.
    """

    def __init__(self) -> None:
        self._lock, self._few, self._many = threading.Lock(), 0, 0
        self._owner: int | None = None
        self._controller: Any = None
        self._limit: Any = None

    @contextmanager
    def requested(self, few: int, many: int) -> Iterator[None]:
        with self._lock:
            mine = self._owner in (None, threading.get_ident())
            self._owner = threading.get_ident() if mine else self._owner
        if not mine:
            yield
            return
        self._change(few, many)
        try:
            yield
        finally:
            self._change(-few, -many)

    def _change(self, few: int, many: int) -> None:
        self._few, self._many = self._few + few, self._many + many
        one = self._few > 0 and not self._many
        if one and self._limit is None:
            self._limit = self._get_controller().limit(limits=1, user_api="blas").__enter__()
        elif not one and self._limit is not None:
            self._limit.__exit__(None, None, None)
            self._limit = None
        if not self._few + self._many:
            self._owner = None

    def _get_controller(self) -> Any:
        if self._controller is None:  # finding the libraries takes a thousand times as long as setting their threads
            import scipy.linalg  # noqa: F401  # NumPy and SciPy may have one each
            from threadpoolctl import ThreadpoolController

            self._controller = ThreadpoolController()
        return self._controller


_THREADS = _Threads()


def one_thread() -> Any:
    """Context manager in which BLAS uses one thread."""
    return _THREADS.requested(1, 0)


def threads_for(multiplications: float) -> Any:
    """Context manager for a product or decomposition inside `one_thread`. Large ones get all threads."""
    return _THREADS.requested(0, int(multiplications > _LARGE))


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that runs `function` with one BLAS thread."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread():
            return function(*args, **kwargs)

    return wrapped
