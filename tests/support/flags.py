"""What the compiler is told."""

import contextlib
import importlib.util
import mmap
from importlib.metadata import version
from pathlib import Path

EMITTERS = "xla_cpu_use_fusion_emitters"  # without them, loops that are one are emitted as they were before 2025


def quickly_compiled(flags):
    """XLA's flags with the older emitters of fused loops, which take half the time to compile."""
    if EMITTERS in flags or not known(EMITTERS):
        return flags
    return f"{flags} --{EMITTERS}=false".strip()


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


@contextlib.contextmanager
def optimisations(wanted):
    """What is compiled meanwhile is optimised, or is not."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", not wanted)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
