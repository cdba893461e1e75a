"""The cache folder, and files that are written completely or not at all."""

import io
import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bayesrecon.errors import BayesreconError
from bayesrecon.temporary import locked_file, remove_abandoned

if TYPE_CHECKING:
    import xarray as xr


def cache_folder() -> Path:
    """The folder of cached results: BAYESRECON_CACHE, or `bayesrecon` in the user's cache directory.

    The user's cache directory is XDG_CACHE_HOME or `~/.cache`, `~/Library/Caches` on macOS and the local application
    data on Windows.

    >>> cache_folder().is_absolute()
    True
    """
    if chosen := os.environ.get("BAYESRECON_CACHE"):
        return Path(chosen).expanduser().absolute()
    from platformdirs import PlatformDirs
    from platformdirs.macos import MacOS
    from platformdirs.windows import Windows

    rules = {"darwin": MacOS, "win32": Windows}.get(sys.platform, PlatformDirs)
    return Path(rules("bayesrecon", appauthor=False, opinion=False).user_cache_dir).absolute()


def private_folder(path: Path) -> Path:
    """The folder. It and its parents are created if missing, and only the user can enter those.

    >>> import tempfile
    >>> (private_folder(Path(tempfile.mkdtemp()) / "cache" / "inner").parent.stat().st_mode & 0o777) == 0o700
    True
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


@contextmanager
def locked(path: Path) -> Generator[Callable[[], bool]]:
    """Hold a lock file, which is created if it is missing, and wait while another process holds it.

    The lock ends with the process, however it ends. Yields a function that says whether the lock file is still the one
    that is held: if somebody removes it, another process can hold a new one.
    """
    while True:
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            _wait_for(handle)
            if _is_at(handle, path):
                yield partial(_is_at, handle, path)
                return
        finally:
            os.close(handle)


def _wait_for(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        while True:
            with suppress(OSError):  # after ten seconds of waiting
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
                return
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write(temporary_path)` and move the file into place, as `staged` does."""
    with staged(path) as temporary:
        write(temporary)


@contextmanager
def staged(path: Path) -> Generator[Path]:
    """A temporary file beside a path. It is moved into place at the end, so that no half-written file remains.

    Only the user can read the file, because results contain data of people. If it replaces a file, it keeps that file's
    mode. Temporary files of runs that were killed are removed from the folder.

    Raises:
        BayesreconError: there is no such folder.
        OSError: the file cannot be written, for example on a full disk. An earlier file is then unchanged.
    """
    folder = path.parent
    if not folder.is_dir():
        raise BayesreconError(f"cannot write {path}: the folder {folder} does not exist")
    remove_abandoned(folder)
    handle, temporary = locked_file(folder, path.name[:100], path.suffix)
    try:
        yield temporary
        os.fsync(handle)  # some full disks only report it now
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        if sys.platform == "win32":  # open files cannot be renamed there
            os.close(handle)
            handle = -1
        temporary.replace(path)
    finally:
        if handle >= 0:
            os.close(handle)
        temporary.unlink(missing_ok=True)


def write_netcdf(path: Path, dataset: "xr.Dataset", group: str | None = None) -> None:
    """Write an xarray dataset as a netCDF file, completely or not at all.

    The file is built in memory, because the HDF5 library ends the process if the disk is full.
    """
    memory = io.BytesIO()
    dataset.to_netcdf(memory, group=group, engine="h5netcdf")
    write_whole(path, lambda temporary: temporary.write_bytes(memory.getbuffer()))
