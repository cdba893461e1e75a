"""Files are written whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import Any

from bayesrecon.errors import BayesreconError


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
