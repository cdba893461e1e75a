"""Threads of BLAS: one, where matrices are small.

Threads cost more than they bring to a small solve, and where other processes keep the cores busy each of them waits for
the others to be given one: a triangular solve of six unknowns then takes a thousand times as long.
"""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

_LARGE = 2**31  # multiplications, about half a second of one thread: what more threads save of fewer is soon lost
P = ParamSpec("P")
R = TypeVar("R")


class _Threads:
    """How many the libraries of this process may use. Their setting is the process's: the thread that asks first
    settles it until it has ended what it asked for, and others go along."""

    def __init__(self) -> None:
        self._lock, self._few, self._many = threading.Lock(), 0, 0
        self._owner: int | None = None
        self._controller: Any = None
        self._limit: Any = None

    @contextmanager
    def asked(self, few: int, many: int) -> Iterator[None]:
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
            self._limit = self._controlled().limit(limits=1, user_api="blas").__enter__()
        elif not one and self._limit is not None:
            self._limit.__exit__(None, None, None)
            self._limit = None
        if not self._few + self._many:
            self._owner = None

    def _controlled(self) -> Any:
        if self._controller is None:  # looking for the libraries takes a thousand times as long as setting them
            import scipy.linalg  # noqa: F401  # NumPy and SciPy may have one each
            from threadpoolctl import ThreadpoolController

            self._controller = ThreadpoolController()
        return self._controller


_THREADS = _Threads()


def one_thread() -> Any:
    """Context manager inside which BLAS uses one thread."""
    return _THREADS.asked(1, 0)


def threads_for(multiplications: float) -> Any:
    """Context manager for a product or decomposition inside `one_thread`: all threads again where it is large."""
    return _THREADS.asked(0, int(multiplications > _LARGE))


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` with one thread of BLAS."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread():
            return function(*args, **kwargs)

    return wrapped
