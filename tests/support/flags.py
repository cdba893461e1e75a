"""What the compiler is told."""

import importlib.util
import mmap
from importlib.metadata import version
from pathlib import Path

QUICKLY = {
    "xla_cpu_use_fusion_emitters": "false",  # loops that are one are emitted as they were before 2025: half the time
    "xla_cpu_parallel_codegen_split_count": "1",  # parts of a program for threads that the other workers leave busy
}
"""How programs are compiled with the least work."""


def quickly_compiled(flags):
    """XLA's flags with those that save its compiler work."""
    added = [f"--{name}={value}" for name, value in QUICKLY.items() if name not in flags and known(name)]
    return " ".join([flags, *added]).strip()


def known(flag):
    """Whether XLA knows a flag: it ends a process that sets another one.

    From 0.10 on, names of flags that are gone stand in its library all the same.
    """
    if tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 10):
        return False
    package = Path(importlib.util.find_spec("jaxlib").origin).parent
    for library in package.glob("libjax_common*"):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            return text.find(flag.encode()) >= 0
    return False
