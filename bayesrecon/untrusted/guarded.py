"""How a file is opened in the guarded process: a reader is a class, and nothing has to be registered.

A reader lies in a module of this package, or of a plug-in for formats. It is made of a path, has a method `close`, and
its other methods take and return what `bayesrecon.untrusted.message` carries: dictionaries, lists, texts, bytes,
numbers and arrays.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.process import PROCESS, Limits


class Reader(Protocol):
    """One open file. Libraries of a format are imported in its methods: the process starts without them.

    Its path may be relative to nothing: the guarded process is given an absolute one.
    """

    def __init__(self, path: Path) -> None: ...

    def close(self) -> None:
        """Close the file."""
        ...


R = TypeVar("R", bound=Reader)


@contextmanager
def opened(reader: Callable[[Path], R], path: Path, trusted: bool = False) -> Generator[R, None, None]:
    """A file, as long as it is read: by a reader in this process if it is trusted, else by one in the guarded process.

    Args:
        reader: the class.
        trusted: no limits on time and memory.

    Yields:
        the reader, or what stands for it: its methods are called in the guarded process.

    Raises:
        BayesreconError: what the reader refuses; a file that takes too much computing or memory, or that ends the
            process. All other errors of the reader are an `OSError` in its words.

    >>> import h5py
    >>> from bayesrecon.untrusted.hdf5 import HDF5File
    >>> with h5py.File("fit.h5", "w") as file:
    ...     file["posterior/mu"] = [[1.0, 2.0]]
    >>> with opened(HDF5File, Path("fit.h5")) as found:
    ...     found.describe()["groups"]
    ['posterior']
    """
    path = Path(path)
    if not (path.is_file() or path.is_dir()):
        raise BayesreconError(f"{path}: {'not a plain file' if path.exists() else 'no such file'}")
    file = reader(path) if trusted else cast("R", Guarded(cast("type[R]", reader), path))
    try:
        yield file
    finally:
        file.close()


class Guarded:
    """What stands for a reader whose file is open in the guarded process."""

    def __init__(self, reader: type[Reader], path: Path) -> None:
        self._reader = f"{reader.__module__}:{reader.__qualname__}"
        self._path, self._limits = str(path.absolute()), Limits.of(path)
        self._remaining = self._limits.seconds
        self._ask("open")

    def close(self) -> None:
        """Let the process let go of the file."""
        PROCESS.close(self._reader, self._path)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self._ask(method, *arguments)

    def _ask(self, method: str, *arguments: object) -> object:
        value, spent = PROCESS.ask(self._reader, self._path, method, arguments, self._remaining, self._limits)
        self._remaining -= spent
        return value
