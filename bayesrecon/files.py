"""Where files are kept, and that they are written whole or not at all."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from bayesrecon.errors import BayesreconError


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


def write_whole(path: Path, write: Any) -> None:
    """Call `write(temporary_path)` and move the file into place, so that no half-written file remains."""
    folder = path.parent
    if not folder.is_dir():
        raise BayesreconError(f"cannot write {path}: the folder {folder} does not exist")
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=folder)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
