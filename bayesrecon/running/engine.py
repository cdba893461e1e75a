"""Where passes over draws are computed: in this process, by an engine of the caller, or on several devices.

A pass is a map over fixed parts of the draws, followed by a sum in their order. So results do not depend on the engine.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from os import cpu_count
from typing import Any, Protocol, TypeVar

from bayesrecon.errors import BayesreconError, MissingExtraError
from bayesrecon.precision import x64

M = TypeVar("M")
S = TypeVar("S")
P = TypeVar("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A", bound=Sized)
Tree = TypeVar("Tree")

Work = Callable[[M, S, P], R]
"""A function `(model, shared, part) -> result`. It is defined at module level, so that workers can import it."""

_AHEAD = 2  # submitted parts per worker
_LARGE = 2**20  # bytes: larger shared data are sent to a cluster only once
_WORKER_DIED = {"KilledWorker"}  # exceptions of clusters when a part has killed several workers


class _Future(Protocol[R_co]):
    def result(self) -> R_co: ...
    def cancel(self) -> object: ...


class _Submits(Protocol):
    """An executor, or a client of a cluster."""

    def submit(self, function: Callable[..., R], /, *args: Any, **kwargs: Any) -> _Future[R]: ...


class _Engine(Protocol):
    def map(self, work: Work[M, S, P, R], model: M, shared: S, parts: Sequence[P]) -> Iterator[R]: ...


_CURRENT: ContextVar["_Engine | None"] = ContextVar("bayesrecon_engine", default=None)


@contextmanager
def using(engine: object) -> Generator[None]:
    """Context manager in which an engine computes the passes over draws.

    A pass is `sum_k f(part_k)` over fixed parts of the draws, in their order. So the numbers are those of one process,
    except for rounding differences between processors. Parts of a release that is backed by a file are read by the
    workers. Work on many releases, such as the rounds of a game, is sent to the workers one release at a time.

    Args:
        engine: a `concurrent.futures.Executor` (threads, processes, `mpi4py.futures`), a client of a Dask cluster, or a
            list of JAX devices (`jax.local_devices()`), among which the draws of every block are divided. None computes
            in this process, even inside the block of another engine.

    Raises:
        BayesreconError: `engine` is not an engine, or its workers died.
        MissingExtraError: work goes to other processes and cloudpickle is not installed.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import bayesrecon, numpy as np
    >>> from bayesrecon.models import load
    >>> rng = np.random.default_rng(0)
    >>> values = {"coef": rng.normal(2, 0.1, (2, 400, 1, 1)), "intercept": rng.normal(1, 0.1, (2, 400, 1))}
    >>> release = bayesrecon.posteriors.from_draws(values, load("linear_predictor"))
    >>> with ThreadPoolExecutor(2) as pool, using(pool):
    ...     bayesrecon.recover(release)["n"].verdict
    'determined'
    """
    token = _CURRENT.set(_engine_of(engine))
    try:
        yield
    finally:
        _CURRENT.reset(token)


@contextmanager
def processes(count: int) -> Generator[None]:
    """`using` with `count` processes of this machine, which end with the block. A count of one changes nothing."""
    if count < 2:
        yield
        return
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool, using(pool):
        yield


def mapped(work: Work[M, S, P, R], model: M, shared: S, parts: Sequence[P]) -> Iterator[R]:
    """Results of `work(model, shared, part)` for all parts in order, computed by the current engine."""
    engine = _CURRENT.get()
    if engine is None or len(parts) < 2:
        return _in_this_process(work, model, shared, parts)
    return engine.map(work, model, shared, parts)


def pooled() -> bool:
    """Whether the current engine has workers."""
    return isinstance(_CURRENT.get(), _Workers)


def swept(work: Callable[[S, P], R], shared: S, items: Iterable[P]) -> Iterator[R]:
    """Results of `work(shared, item)` for all items in order, computed by the workers of the current engine or here.

    It is for studies of many releases. The passes over a release's draws then run in the same worker.
    """
    engine = _CURRENT.get()
    if isinstance(engine, _Workers):
        return engine.sweep(work, shared, items)
    return (work(shared, item) for item in items)


def spread(array: A) -> A:
    """Divide the first axis of an array among the current devices.

    If its length is not a multiple of their number, every device gets the whole array. Without chosen devices, the
    array stays in this process's memory if it is the default device.
    """
    engine = _CURRENT.get()
    if isinstance(engine, _Devices):
        return engine.put(array, len(array) % len(engine.devices) == 0)
    return array if on_host() else _put(array)


def placed(arrays: Tree) -> Tree:
    """Copy all arrays of a tree to every current device."""
    engine = _CURRENT.get()
    return engine.put(arrays, False) if isinstance(engine, _Devices) else _put(arrays)


def _put(arrays: Tree) -> Tree:
    import jax

    return jax.device_put(arrays)


def block_entries(least: int) -> int:
    """How many numbers a block may have: a thirty-second of the device's memory, or `least` if that is unknown."""
    if on_host():
        return least
    import jax

    stats = jax.local_devices()[0].memory_stats() or {}
    return max(least, int(stats.get("bytes_limit", 0)) // (8 * 32))


def on_host() -> bool:
    """Whether arrays are in this process's memory. Products then use BLAS, which exploits symmetry."""
    import jax

    return jax.default_backend() == "cpu" and not isinstance(_CURRENT.get(), _Devices)


def _engine_of(engine: Any) -> "_Engine | None":
    if engine is None:
        return None
    if isinstance(engine, Executor):
        return _Workers(engine, getattr(engine, "_max_workers", None) or cpu_count() or 1)
    if type(engine).__module__.partition(".")[0] == "distributed" and hasattr(engine, "submit"):
        return _Cluster(engine, 0)
    if isinstance(engine, Sequence) and engine and all(hasattr(device, "device_kind") for device in engine):
        return _Devices(tuple(engine))
    raise BayesreconError(
        f"{type(engine).__name__} is not an engine: expected a concurrent.futures.Executor, a Dask client (pip install "
        "'bayesrecon[distributed]') or a list of JAX devices"
    )


def _in_this_process(work: Work[M, S, P, R], model: M, shared: S, parts: Sequence[P]) -> Iterator[R]:
    return (work(model, shared, part) for part in parts)


@dataclass(frozen=True)
class _Devices:
    devices: tuple[object, ...]

    def map(self, work: Work[M, S, P, R], model: M, shared: S, parts: Sequence[P]) -> Iterator[R]:
        return _in_this_process(work, model, shared, parts)

    def put(self, arrays: Tree, divided: bool) -> Tree:
        """Copy all arrays of a tree to the devices: whole ones, or the first axis `divided` among them."""
        import jax
        import numpy as np
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        mesh = Mesh(np.array(self.devices), ("draws",))
        return jax.device_put(arrays, NamedSharding(mesh, PartitionSpec(*["draws"] * divided)))


@dataclass(frozen=True)
class _Workers:
    """An engine with workers, to which parts are submitted a few at a time.

    Attributes:
        engine: an object with a method `submit`.
        workers: number of workers.
        models: pickled models. Each is pickled only once, so that workers recognise its bytes.
    """

    engine: _Submits
    workers: int
    models: dict[object, bytes] = field(default_factory=dict)

    def map(self, work: Work[M, S, P, R], model: M, shared: S, parts: Sequence[P]) -> Iterator[R]:
        if type(self.engine) is ThreadPoolExecutor:
            return self._ordered(lambda part: self.engine.submit(_in_float64, work, model, shared, part), parts)
        if model not in self.models:
            self.models[model] = _pickled(model, f"the model {getattr(model, 'name', model)}")
        pickled = self.models[model], self._sent(_pickled(shared, "what a pass needs"))
        return self._ordered(lambda part: self._submitted(_map_in_worker, work, *pickled, part), parts)

    def sweep(self, work: Callable[[S, P], R], shared: S, items: Iterable[P]) -> Iterator[R]:
        if type(self.engine) is ThreadPoolExecutor:
            return self._ordered(lambda item: self.engine.submit(work, shared, item), items)
        pickled = self._sent(_pickled((work, shared), "what a sweep needs"))
        return self._ordered(lambda item: self._submitted(_sweep_in_worker, pickled, item), items)

    def _sent(self, shared: bytes) -> bytes | _Future[bytes]:
        return shared

    def _submitted(self, function: Callable[..., R], *args: object) -> _Future[R]:
        return self.engine.submit(function, *args)

    def _ordered(self, submit: Callable[[P], _Future[R]], parts: Iterable[P]) -> Iterator[R]:
        """Results of all parts in order. Only a few parts are submitted ahead of their results."""
        pending: deque[_Future[R]] = deque()
        remaining, ahead = iter(parts), max(2, _AHEAD * self._size())
        try:
            while True:
                while len(pending) < ahead and (part := next(remaining, None)) is not None:
                    pending.append(submit(part))
                if not pending:
                    return
                yield pending.popleft().result()
        except Exception as error:
            if isinstance(error, BrokenExecutor) or type(error).__name__ in _WORKER_DIED:
                raise BayesreconError(
                    "the engine's workers died (out of memory, or killed); give each of them more memory, or use a "
                    "Dask cluster, which replaces workers"
                ) from error
            raise
        finally:
            for future in pending:
                with suppress(Exception):
                    future.cancel()

    def _size(self) -> int:
        return self.workers


class _Cluster(_Workers):
    """A Dask cluster, which repeats the parts of a lost worker."""

    def _sent(self, shared: bytes) -> bytes | _Future[bytes]:
        # Unlike scattered data, the result of a task can be recomputed if its worker is lost.
        return shared if len(shared) < _LARGE else self.engine.submit(_same, shared, pure=False)

    def _submitted(self, function: Callable[..., R], *args: object) -> _Future[R]:
        return self.engine.submit(function, *args, pure=False)

    def _size(self) -> int:
        client: Any = self.engine
        return sum(client.nthreads().values())


def _pickled(value: object, description: str) -> bytes:
    try:
        import cloudpickle
    except ImportError as error:
        raise MissingExtraError("work in other processes", "distributed") from error
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise BayesreconError(
            f"{description} cannot be sent to other processes ({text}); use an engine of threads"
        ) from error


def _same(value: bytes) -> bytes:
    return value


def _in_float64(work: Work[M, S, P, R], model: M, shared: S, part: P) -> R:
    with x64():
        return work(model, shared, part)


def _map_in_worker(work: Work[Any, Any, P, R], model: bytes, shared: bytes, part: P) -> R:
    import jax

    return jax.device_get(_in_float64(work, _unpickled(model), _unpickled(shared), part))


def _sweep_in_worker(pickled: bytes, item: object) -> Any:
    work, shared = _unpickled(pickled)
    return work(shared, item)


@lru_cache(maxsize=8)  # the same object for all parts, so that every worker compiles its programs once
def _unpickled(pickled: bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(pickled)
