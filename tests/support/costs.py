"""What reading a file costs: computing and memory, of this process and of the guarded one."""

import contextlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.untrusted.guarded import PROCESS

_EVERY = 0.02  # seconds between two looks at other processes


@dataclass
class Cost:
    """Seconds of CPU time, and bytes: what this process took more than before, or the guarded one took in all."""

    seconds: float = 0.0
    memory: int = 0


@contextmanager
def measured() -> Iterator[Cost]:
    """Begins with no guarded process, and ends it; memory is what Linux tells, and 0 elsewhere."""
    PROCESS.stop()
    cost, over, was = Cost(), threading.Event(), peak(anew=True)
    before = np.sum(os.times()[:4])

    def watch() -> None:
        while not over.wait(_EVERY):  # it may be gone before the end
            cost.memory = max([cost.memory, *map(peak, children())])

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield cost
    finally:
        over.set()
        watching.join()
        cost.memory = max([cost.memory, *map(peak, children()), peak() - was])
        PROCESS.stop()
        cost.seconds = float(np.sum(os.times()[:4]) - before)


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
    found: list[str] = []
    for file in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            found += file.read_text().split()
    own = _command("self")  # a child that runs no program of its own yet shares the memory of this process
    return [pid for pid in found if _command(pid) not in ("", own)]


def _command(pid: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    return ""
