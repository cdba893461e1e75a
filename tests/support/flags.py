"""What the compiler can be told."""

import importlib.util
import mmap
from pathlib import Path


def known(flag):
    """Whether XLA knows a flag: it ends a process that sets another one."""
    spec = importlib.util.find_spec("jaxlib")
    package = Path(spec.origin).parent
    for library in package.glob("libjax_common*"):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return text.find(flag.encode()) >= 0
    return False
