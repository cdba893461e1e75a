"""What reading a file costs: computing and memory, of this process and of the guarded one."""

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.untrusted.process import PROCESS


@dataclass
class Cost:
    """Seconds of CPU time, and bytes: what this process took more than before, or the guarded one took in all."""

    seconds: float = 0.0
    memory: int = 0


@contextmanager
def measured() -> Iterator[Cost]:
    """Begins with no guarded process, and ends it; memory is what Linux tells, and 0 elsewhere."""
    import resource

    PROCESS.stop()
    cost, before, ended = Cost(), np.sum(os.times()[:4]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    was = peak(anew=True)
    try:
        yield cost
    finally:
        if PROCESS._running is not None:
            cost.memory = peak(str(PROCESS._running.pid))
        PROCESS.stop()
        cost.seconds = float(np.sum(os.times()[:4]) - before)
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        if after > ended and sys.platform == "linux":  # one that was ended took more than any before
            cost.memory = max(cost.memory, 1024 * after)
        cost.memory = max(cost.memory, peak() - was)


def peak(pid: str = "self", anew: bool = False) -> int:
    """The most memory, in bytes, that a process has taken, or `anew`, since now; 0 where the system does not tell."""
    if anew:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/clear_refs", "w", encoding="utf-8") as file:
            file.write("5")
    with contextlib.suppress(OSError, StopIteration), open(f"/proc/{pid}/status", encoding="utf-8") as lines:
        return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    return 0


def children() -> list[str]:
    """Processes that this one started."""
    # Not RUSAGE_CHILDREN: a process that was started counts what the one that started it had taken by then.
    found = []
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            found += file.read_text().split()
    return found
