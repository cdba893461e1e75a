"""Run BLAS with one thread for small matrices.

Several threads make small solves slower. If other processes keep the cores busy, the threads also wait for each other:
a triangular solve with six unknowns can then take a thousand times as long.
"""

import functools
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_LARGE = 2**31  # multiplications, about half a second on one thread; smaller products do not profit from threads
P = ParamSpec("P")
R = TypeVar("R")


class _Threads:
    """The number of BLAS threads of this process.

    The setting belongs to the process. The thread that changes it first owns it until it is done, and other threads use
    the same setting.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._single, self._multiple = 0, 0  # open blocks that requested one thread, and all threads
        self._owner: int | None = None
        self._controller: ThreadpoolController | None = None
        self._limit: AbstractContextManager[object] | None = None

    @contextmanager
    def requested(self, single: int, multiple: int) -> Generator[None]:
        with self._lock:
            owns = self._owner in (None, threading.get_ident())
            self._owner = threading.get_ident() if owns else self._owner
        if not owns:
            yield
            return
        self._change(single, multiple)
        try:
            yield
        finally:
            self._change(-single, -multiple)

    def _change(self, single: int, multiple: int) -> None:
        self._single, self._multiple = self._single + single, self._multiple + multiple
        limited = self._single > 0 and not self._multiple
        if limited and self._limit is None:
            self._limit = self._get_controller().limit(limits=1, user_api="blas")
            self._limit.__enter__()
        elif not limited and self._limit is not None:
            self._limit.__exit__(None, None, None)
            self._limit = None
        if not self._single + self._multiple:
            self._owner = None

    def _get_controller(self) -> "ThreadpoolController":
        if self._controller is None:  # finding the libraries takes a thousand times as long as setting their threads
            import scipy.linalg  # noqa: F401  # pyright: ignore[reportUnusedImport]  # it may have a BLAS of its own
            from threadpoolctl import ThreadpoolController

            self._controller = ThreadpoolController()
        return self._controller


_THREADS = _Threads()


def one_thread() -> AbstractContextManager[None]:
    """Context manager in which BLAS uses one thread."""
    return _THREADS.requested(1, 0)


def threads_for(multiplications: float) -> AbstractContextManager[None]:
    """Context manager for a product or decomposition inside `one_thread`. Large ones get all threads."""
    return _THREADS.requested(0, int(multiplications > _LARGE))


def on_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator that runs `function` with one BLAS thread."""

    @functools.wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with one_thread():
            return function(*args, **kwargs)

    return wrapped
