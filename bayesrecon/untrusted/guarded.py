"""Open a file with a reader in the guarded process. Readers are classes and need not be registered.

A reader is in a module of this package, or of a plug-in for formats. Its constructor takes a path, and it has a method
`close`. Its other methods take and return what `bayesrecon.untrusted.process` carries: dictionaries, lists, texts,
bytes, numbers and arrays.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.process import PROCESS, Limits


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
