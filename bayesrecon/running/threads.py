"""Run BLAS with one thread.

The threads of a BLAS wait in a loop for each other. While another process has one of the cores, a triangular solve with
six unknowns can take a thousand times as long; on idle cores most products of a verb gain nothing from a second thread.
"""

import functools
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")


class _Threads:
    """The number of BLAS threads of this process.

    The setting belongs to the process, and only the thread that made it can undo it. The outermost
    block of the first thread sets it; blocks inside it, and those of other threads meanwhile, use what is set.
    """

    def __init__(self) -> None:
        self._lock, self._open = threading.Lock(), False
        self._controller: ThreadpoolController | None = None
        self._with_scipy = False

    @contextmanager
    def one(self) -> Generator[None]:
        with self._lock:
            inside, self._open = self._open, True
        if inside:
            yield
            return
        try:
            with self._get_controller().limit(limits=1, user_api="blas"):
                yield
        finally:
            self._open = False

    def _get_controller(self) -> "ThreadpoolController":
        # Finding the libraries takes a thousand times as long as setting their threads. SciPy may have one of its own.
        loaded = "scipy.linalg" in sys.modules
        if self._controller is None or loaded != self._with_scipy:
            from threadpoolctl import ThreadpoolController

            self._controller, self._with_scipy = ThreadpoolController(), loaded
        return self._controller


_THREADS = _Threads()


def one_thread() -> AbstractContextManager[None]:
    """Context manager in which BLAS uses one thread, as far as the libraries are loaded when it begins."""
    return _THREADS.one()


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that runs `function` with one BLAS thread."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread():
            return function(*args, **kwargs)

    return wrapped
