"""Where files are kept, and that they are written whole or not at all."""

import io
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesrecon.errors import BayesreconError
from bayesrecon.temporary import locked_file, remove_abandoned

if TYPE_CHECKING:
    import xarray as xr


def cache_folder() -> Path:
    """Where what was made here is kept: BAYESRECON_CACHE, or `bayesrecon` in the user's cache directory.

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
    """A folder that is there; what has to be made of it can be entered by the user alone.

    >>> import tempfile
    >>> (private_folder(Path(tempfile.mkdtemp()) / "cache" / "inner").parent.stat().st_mode & 0o777) == 0o700
    True
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def write_whole(path: Path, write: Any) -> None:
    """Call `write(temporary_path)` and move the file into place, so that no half-written file remains.

    The user alone can read it, unless there was a file of another mode in its place: results hold people's data. What
    runs that were killed left in the folder is removed.

    Raises:
        BayesreconError: there is no such folder.
        OSError: the file cannot be written, as on a full disk; then what was there is as it was.
    """
    folder = path.parent
    if not folder.is_dir():
        raise BayesreconError(f"cannot write {path}: the folder {folder} does not exist")
    remove_abandoned(folder)
    handle, temporary = locked_file(folder, path.name[:100], path.suffix)
    try:
        write(temporary)
        os.fsync(handle)  # some disks tell only now that they are full
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        if sys.platform == "win32":  # does not rename what is open
            os.close(handle)
            handle = -1
        temporary.replace(path)
    finally:
        if handle >= 0:
            os.close(handle)
        temporary.unlink(missing_ok=True)


def write_netcdf(path: Path, dataset: "xr.Dataset", group: str | None = None) -> None:
    """An xarray dataset as a netCDF file, whole or not at all.

    It is made in memory: on a disk that is full the HDF5 library ends the process.
    """
    memory = io.BytesIO()
    dataset.to_netcdf(memory, group=group, engine="h5netcdf")
    write_whole(path, lambda temporary: temporary.write_bytes(memory.getbuffer()))
