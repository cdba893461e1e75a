"""Temporary files that are locked while they are written, and removed if their writers have ended."""

import contextlib
import os
import re
import sys
import tempfile
from pathlib import Path

_MARK = ".bayesrecon-"
_TEMPORARY = re.compile(rf"\..*{re.escape(_MARK)}[a-z0-9_]{{8}}(\.[^.]*)?")


def locked_file(folder: Path, stem: str, suffix: str) -> tuple[int, Path]:
    """A new temporary file, locked. Before it is locked, another run may take it for abandoned and remove it.

    Returns:
        The file descriptor, which keeps the lock until it is closed or the process ends, and the path.
    """
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{stem}{_MARK}", suffix=suffix, dir=folder)
        _lock(handle)
        if sys.platform == "win32" or os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)


def _lock(handle: int, wait: bool = True) -> bool:
    """Lock a file until it is closed or the process ends; False if another process has the lock."""
    if sys.platform == "win32":  # where an open file cannot be removed
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files whose writers have ended."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    _remove_unlocked(entry.path)


def _remove_unlocked(path: str) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        if _lock(handle, wait=False):
            if sys.platform == "win32":
                os.close(handle)
                handle = -1
            os.unlink(path)  # while it is locked, so that a new writer sees that it is gone
    finally:
        if handle >= 0:
            os.close(handle)
