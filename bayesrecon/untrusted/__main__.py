"""`python -m bayesrecon.untrusted`: opens HDF5 files for a process that must not hang, crash or run out of memory.

A request and an answer are each eight bytes with the length, then so many bytes of `message`. A request names a file,
how many seconds and bytes of memory it may take, and what to do: `open`, `close`, or a method of `HDF5File`. One file
is open at a time. The answer is `{"value": ...}`, or `{"error": text, "kind": name}`. Nothing here imports JAX.
"""

import contextlib
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.hdf5 import HDF5File
from bayesrecon.untrusted.message import pack, unpack

HEAD = 8  # bytes of a length


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until there are no more requests."""
    held: dict[str, HDF5File] = {}
    while len(head := requests.read(HEAD)) == HEAD:
        request = unpack(requests.read(int.from_bytes(head)))
        _forget_peak()
        try:
            limit(request["seconds"], request["memory"])
            answer = pack({"value": _done(request, held)})
        except MemoryError:
            answer = pack({"error": "", "kind": "MemoryError"})
        except Exception as error:
            kind = "BayesreconError" if isinstance(error, BayesreconError) else "Exception"
            kind = "MemoryError" if kind == "Exception" and exhausted(request["memory"]) else kind
            answer = pack({"error": str(error) or type(error).__name__, "kind": kind})
        answers.write(len(answer).to_bytes(HEAD))
        answers.write(answer)
        answers.flush()


def _done(request: dict[str, Any], held: dict[str, HDF5File]) -> Any:
    path = request["path"]
    if request["what"] in ("open", "close"):
        for other in list(held):
            held.pop(other).close()
        if request["what"] == "open":
            held[path] = HDF5File(Path(path))
        return None
    return getattr(held[path], request["what"])(*request["arguments"])


def limit(seconds: float, memory: int) -> None:
    """Bounds of this process, where the system has them: memory, and time, should nobody be left to end it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = int(used.ru_utime + used.ru_stime + seconds) + 2
    _lower(resource, resource.RLIMIT_CPU, spent)
    _lower(resource, getattr(resource, "RLIMIT_DATA", resource.RLIMIT_AS), memory)


def exhausted(memory: int) -> bool:
    """Whether an error may be for want of memory, which HDF5 has other words for; Linux tells."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/self/status", encoding="utf-8") as lines:
        peak = next(line for line in lines if line.startswith("VmHWM:"))
        return 2 * 1024 * int(peak.split()[1]) > memory
    return False


def _forget_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def _lower(resource: Any, kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (value, hard))
    except (ValueError, OSError):  # a system that knows the limit but does not let it be set
        return


def main() -> None:
    """Serve the process that started this one, over its pipes; whatever is printed goes to stderr."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdin.close()
    serve(requests, answers)


if __name__ == "__main__":
    main()
