"""Open a file with a reader in the guarded process. Readers are classes and need not be registered.

A reader is in a module of this package, or of a plug-in for formats. Its constructor takes a path, and it has a method
`close`. Its other methods take and return what `bayesrecon.untrusted.guarded` carries: dictionaries, lists, texts,
bytes, numbers and arrays.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json


class Reader(Protocol):
    """An open file. Its methods import the libraries of the format, so that the process starts without them.

    The guarded process gets an absolute path.
    """

    def __init__(self, path: Path) -> None: ...

    def close(self) -> None:
        """Close the file."""
        ...


R = TypeVar("R", bound=Reader)
T = TypeVar("T")


@contextmanager
def opened(reader: Callable[[Path], R], path: Path, trusted: bool = False) -> Generator[R, None, None]:
    """Open a file for reading: in this process if it is trusted, and otherwise in the guarded process.

    Args:
        reader: the class of the reader.
        path: the file.
        trusted: whether to read without limits on time and memory.

    Yields:
        The reader, or a proxy that calls its methods in the guarded process.

    Raises:
        BayesreconError: the reader refuses the file, or the file takes too much time or memory, or ends the process.
            Other errors of the reader become an `OSError` with their message.

    >>> import h5py
    >>> from bayesrecon.untrusted.hdf5 import HDF5File
    >>> with h5py.File("fit.h5", "w") as file:
    ...     file["posterior/mu"] = [[1.0, 2.0]]
    >>> with opened(HDF5File, Path("fit.h5")) as found:
    ...     found.describe()["groups"]
    ['posterior']
    """
    path = _present(path)
    file = reader(path) if trusted else cast("R", Guarded(cast("type[R]", reader), path))
    try:
        yield file
    finally:
        file.close()


def asked(function: Callable[..., T], path: Path, *arguments: object, trusted: bool = False) -> T:
    """What a function of this package returns for a file, computed in the guarded process unless it is trusted.

    Args:
        function: `(path, *arguments) -> plain data`.
        path: the file.
        arguments: plain data.
        trusted: whether to read without limits on time and memory.

    Raises:
        BayesreconError: as `opened`.
    """
    path = _present(path)
    if trusted:
        return function(path, *arguments)
    limits, absolute = Limits.of(path), str(path.absolute())
    name = f"{function.__module__}:{function.__qualname__}"
    return PROCESS.ask(name, absolute, "", arguments, limits.seconds, limits)[0]


def _present(path: Path) -> Path:
    path = Path(path)
    if not (path.is_file() or path.is_dir()):
        raise BayesreconError(f"{path}: {'not a plain file' if path.exists() else 'no such file'}")
    return path


class Guarded:
    """A proxy for a reader in the guarded process."""

    def __init__(self, reader: type[Reader], path: Path) -> None:
        self._reader = f"{reader.__module__}:{reader.__qualname__}"
        self._path, self._limits = str(path.absolute()), Limits.of(path)
        self._remaining = self._limits.seconds
        self._ask("open")

    def close(self) -> None:
        """Close the file in the guarded process."""
        PROCESS.close(self._reader, self._path)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self._ask(method, *arguments)

    def _ask(self, method: str, *arguments: object) -> object:
        value, spent = PROCESS.ask(self._reader, self._path, method, arguments, self._remaining, self._limits)
        self._remaining -= spent
        return value


SECONDS, BYTES_A_SECOND = 10.0, 2**20
"""A file may take so many seconds of CPU time in all, and one more for so many of its bytes. Time that passes while a
busy machine does something else, or while a slow drive is waited for, does not count."""

MEMORY, MEMORY_A_BYTE = 6 * 2**26, 16
"""The process may take so much memory, and so many bytes more for every byte of the file."""

HEAD = 8
"""Bytes of the length of a message."""

OVER = 152
"""The exit code of a process that computed for too long, as a shell reports the signal that Unix has for it."""

_TRUST = "if you trust it, read it with trusted=True (--trusted)"


@dataclass(frozen=True)
class Limits:
    """What opening and reading one file may take: seconds of CPU time, and bytes of memory."""

    seconds: float
    memory: int

    @classmethod
    def of(cls, path: Path) -> "Limits":
        """By the size of a file, or of all files of a folder."""
        files = (p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        size = sum(file.stat().st_size for file in files)
        return cls(SECONDS + size / BYTES_A_SECOND, MEMORY + MEMORY_A_BYTE * size)


class Process:
    """The process that opens files. One request at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: subprocess.Popen[bytes] | None = None
        self._owner = -1
        self._open = ("", "")

    def ask(
        self, reader: str, path: str, method: str, arguments: tuple[object, ...], remaining: float, limits: Limits
    ) -> tuple[Any, float]:
        """What a reader's method returns for a file, and the seconds of CPU time that it took.

        Args:
            reader: `module:class`, see `bayesrecon.untrusted.guarded`.
            method: "open", or the name of a method. The file is opened first where it is not open. Empty if `reader`
                is a function of the file and the arguments.
            remaining: seconds that this file may still take.

        Raises:
            BayesreconError: what the reader refuses, or that a limit was reached.
            OSError: whatever else the reader raised, in its words.
        """
        with self._lock:
            spent = 0.0
            if method not in ("open", "") and not (self._open == (reader, path) and self._alive()):
                _, spent = self.ask(reader, path, "open", (), remaining, limits)
            request = {"reader": reader, "path": path, "method": method, "arguments": arguments}
            answer = self._exchange(
                {**request, "seconds": max(remaining - spent, 0.0), "memory": limits.memory}, limits
            )
            if "error" not in answer:
                self._open = (reader, path) if method else self._open
                return answer["value"], spent + answer["spent"]
        if answer["kind"] == "MemoryError":
            self.stop()  # it keeps what it took
            most = limits.memory / 2**20
            raise BayesreconError(f"{path}: takes more than {most:.0f} MiB of memory to read, refused; {_TRUST}")
        if answer["kind"] == "BayesreconError":
            raise BayesreconError(answer["error"])
        raise OSError(answer["error"])

    def close(self, reader: str, path: str) -> None:
        """Close what is open, unless the process has ended."""
        with self._lock:
            if self._open == (reader, path) and self._alive():
                request = {"reader": reader, "path": path, "method": "close", "arguments": ()}
                limits = Limits(SECONDS, MEMORY)
                self._exchange({**request, "seconds": limits.seconds, "memory": limits.memory}, limits)
                self._open = ("", "")

    def stop(self) -> None:
        """End the process; the next request starts another one."""
        with self._lock:
            if self._running is not None and self._owner == os.getpid():
                self._running.kill()
                self._running.wait()
                for pipe in (self._running.stdin, self._running.stdout):
                    with contextlib.suppress(OSError):  # what was not yet sent has no reader
                        pipe.close()  # type: ignore[union-attr]
                atexit.unregister(self.stop)
            self._running, self._open = None, ("", "")

    def _alive(self) -> bool:
        # A process that was forked from ours must not talk through our pipes.
        return self._running is not None and self._owner == os.getpid() and self._running.poll() is None

    def _exchange(self, request: Json, limits: Limits) -> Json:
        if not self._alive():
            self.stop()
            self._start()
        running, path = self._running, request["path"]
        assert running is not None
        assert running.stdin is not None
        assert running.stdout is not None
        content = pack(request)
        try:
            running.stdin.write(len(content).to_bytes(HEAD) + content)
            running.stdin.flush()
            head = running.stdout.read(HEAD)
            answer = bytearray(int.from_bytes(head) if len(head) == HEAD else 0)
            if len(head) == HEAD and running.stdout.readinto(answer) == len(answer):  # pyright: ignore
                return unpack(answer)
        except (BrokenPipeError, ConnectionError):
            pass
        except BaseException:  # interrupted in the middle of an answer
            self.stop()
            raise
        code = running.wait()  # its pipes are closed: it has ended, or is about to
        self.stop()
        if code in (OVER, 128 - OVER):  # negative for a signal
            raise BayesreconError(
                f"{path}: takes more than {limits.seconds:.0f} s of computing to read, refused; if it is a good file, "
                "save it anew with fewer and larger pieces (variables, chunks), or in parts"
            )
        # Libraries may crash where memory that they ask for is refused.
        raise BayesreconError(
            f"{path}: ended the process that read it (exit code {code}), refused; it may be damaged, or take more than "
            f"{limits.memory / 2**20:.0f} MiB of memory to read"
        )

    def _start(self) -> None:
        # -P: what lies in the current folder is no module. The rest of the path is that of this process.
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "HDF5_PLUGIN_PATH": "::"}
        command = [sys.executable, "-P", "-m", "bayesrecon.untrusted"]
        try:
            self._running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        except (OSError, TypeError) as error:
            raise BayesreconError(
                f"no process can be started to read files from strangers ({error}); {_TRUST}"
            ) from None
        self._owner = os.getpid()
        atexit.register(self.stop)


PROCESS = Process()
"""The one that serves this interpreter."""


_HEAD = 8  # bytes of the length of the JSON text
_ALIGNED = 64  # arrays begin at multiples of so many bytes


def pack(value: object) -> bytes:
    """Pack dictionaries, lists, texts, bytes, numbers and arrays. Other objects become texts.

    >>> unpack(pack({"mu": np.arange(2), "of": ["a", None, 2.5, b"x"]}))
    {'mu': array([0, 1]), 'of': ['a', None, 2.5, b'x']}
    """
    return b"".join(pieces(value))


def pieces(value: object) -> list[bytes | memoryview]:
    """The packed bytes in pieces, without copies of arrays."""
    parts = _Parts()
    tree = json.dumps(_packed(value, parts)).encode()
    tree += b" " * (-(len(tree) + _HEAD) % _ALIGNED)
    return [len(tree).to_bytes(_HEAD), tree, *parts.pieces]


def unpack(content: bytes | bytearray) -> Any:
    """The data in packed bytes. Arrays are parts of a `bytearray`, without copies."""
    start = _HEAD + int.from_bytes(content[:_HEAD])
    return _unpacked(json.loads(content[_HEAD:start]), memoryview(content)[start:])


class _Parts:
    """A sequence of pieces of bytes."""

    def __init__(self) -> None:
        self.pieces: list[bytes | memoryview] = []
        self._size = 0

    def add(self, content: bytes | memoryview) -> list[int]:
        """Where it begins and ends."""
        padding = -len(content) % _ALIGNED
        self.pieces += [content, b"\0" * padding]
        begin, self._size = self._size, self._size + len(content) + padding
        return [begin, begin + len(content)]


def _packed(value: object, parts: _Parts) -> object:
    if isinstance(value, float) and value != value:  # which JSON would write without its bits
        value = np.float64(value)
    if isinstance(value, dict):
        return {"dict": [[str(key), _packed(item, parts)] for key, item in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_packed(item, parts) for item in value]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, bytes):
        return {"bytes": parts.add(value)}
    if isinstance(value, np.ndarray) and value.dtype.hasobject:  # texts of any length
        return {"texts": [str(item) for item in value.ravel()], "shape": list(value.shape)}
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value)
        kind = np.lib.format.dtype_to_descr(array.dtype)
        name = "array" if isinstance(value, np.ndarray) else "scalar"
        return {name: parts.add(array.reshape(-1).view(np.uint8).data if array.nbytes else b""), "type": kind,
                "shape": list(value.shape)}  # fmt: skip
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _unpacked(value: object, arrays: memoryview) -> object:
    if not isinstance(value, dict):
        return value
    (kind, *_) = value
    inner = value[kind]
    if kind == "dict":
        return {key: _unpacked(item, arrays) for key, item in inner}
    if kind == "list":
        return [_unpacked(item, arrays) for item in inner]
    if kind == "slice":
        return slice(*inner)
    if kind == "texts":
        texts = np.empty(len(inner), object)
        texts[:] = inner
        return texts.reshape(value["shape"])
    begin, end = inner
    if kind == "bytes":
        return bytes(arrays[begin:end])
    dtype = _type(value["type"])
    if begin == end:
        array = np.empty(value["shape"], dtype)
    else:
        array = np.frombuffer(arrays[begin:end], np.uint8).view(dtype).reshape(value["shape"])
    return array if kind == "array" else array[()]


def _type(description: str | list[list[Any]]) -> np.dtype:
    """A data type of NumPy from its description in JSON, where tuples are lists."""
    if isinstance(description, str):
        dtype = np.dtype(description)
    else:
        dtype = np.lib.format.descr_to_dtype([_field(field) for field in description])
    if dtype.hasobject:
        raise ValueError("objects are no plain data")
    return dtype


def _field(description: list[Any]) -> tuple[Any, ...]:
    name, kind, *shape = description
    name = tuple(name) if isinstance(name, list) else name
    kind = [_field(field) for field in kind] if isinstance(kind, list) else kind
    return (name, kind, *(tuple(sizes) for sizes in shape))
