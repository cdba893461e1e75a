"""`python -m bayesrecon.untrusted`: opens files for a process that must not hang, crash or run out of memory.

A request and an answer are each eight bytes with the length, then so many bytes of `message`. A request names a reader
(`bayesrecon.untrusted.guarded`), a file, how many seconds of CPU time and bytes of memory it may take, and what to do:
`open`, `close`, or a method of the reader. One file is open at a time. An answer is
`{"value": ..., "spent": seconds}` or `{"error": text, "kind": name}`. Nothing here imports JAX.
"""

import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, BinaryIO

from bayesrecon.discovery import is_plugin_for
from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.guarded import HEAD, OVER, pieces, unpack

if TYPE_CHECKING:
    from bayesrecon.untrusted.guarded import Reader

_PACKAGE = "bayesrecon.untrusted."
_LOOK = 0.2  # seconds between two looks at the CPU time, where the system has no limit of it


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends."""
    readers: dict[str, Reader] = {}
    watch = Watch()
    value: object = None
    while len(head := requests.read(HEAD)) == HEAD:
        request = unpack(requests.read(int.from_bytes(head)))
        _forget_peak()
        began = time.process_time()
        try:
            limit(request["seconds"], request["memory"], watch)
            value = _result(request, readers)
            answer = pieces({"value": value, "spent": time.process_time() - began})
        except MemoryError:
            answer = pieces({"error": "", "kind": "MemoryError"})
        except Exception as error:
            kind = "BayesreconError" if isinstance(error, BayesreconError) else "Exception"
            kind = "MemoryError" if kind == "Exception" and exhausted(request["memory"]) else kind
            text = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
            answer = pieces({"error": text or type(error).__name__, "kind": kind})
        answers.write(sum(map(len, answer)).to_bytes(HEAD))
        for piece in answer:
            answers.write(piece)
        answers.flush()
        value, answer = None, []  # not while the next request is served


def _result(request: Json, readers: "dict[str, Reader]") -> object:
    key, method = f"{request['reader']} {request['path']}", request["method"]
    if not method:
        return reader_of(request["reader"])(Path(request["path"]), *request["arguments"])
    if method in ("open", "close"):
        for other in list(readers):
            readers.pop(other).close()
        if method == "open":
            readers[key] = reader_of(request["reader"])(Path(request["path"]))
        return None
    return getattr(readers[key], method)(*request["arguments"])


def reader_of(name: str) -> Callable[..., Any]:
    """The class or function named `module:class`, in this package or in a plug-in for formats."""
    module, _, kind = name.partition(":")
    if not module.startswith(_PACKAGE) and not is_plugin_for("formats", module):
        raise BayesreconError(f"{name} is no reader: readers lie in {_PACKAGE[:-1]}, or in a plug-in for formats")
    return getattr(importlib.import_module(module), kind)


def limit(seconds: float, memory: int, watch: "Watch") -> None:
    """Limit CPU time and memory of this process from now on, if the system can, and disable core dumps."""
    try:
        import resource
    except ImportError:  # Windows
        watch.after(seconds)
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource, resource.RLIMIT_CORE, 0)
    _lower(resource, resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + seconds) + 1)
    _lower(resource, getattr(resource, "RLIMIT_DATA", resource.RLIMIT_AS), memory)


class Watch:
    """Ends this process at its limits if the system cannot. It works only between steps of the interpreter."""

    def __init__(self) -> None:
        self._ends = float("inf")
        self._thread: threading.Thread | None = None

    def after(self, seconds: float) -> None:
        """End the process after this much CPU time."""
        self._ends = time.process_time() + seconds
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, daemon=True)
            self._thread.start()

    def _look(self) -> None:
        while time.process_time() < self._ends:
            time.sleep(_LOOK)
        os._exit(OVER)


def exhausted(memory: int) -> bool:
    """Whether a lack of memory may have caused an error. HDF5 has other messages for it, so Linux is asked."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/self/status", encoding="utf-8") as lines:
        peak = next(line for line in lines if line.startswith("VmHWM:"))
        return 2 * 1024 * int(peak.split()[1]) > memory
    return False


def _forget_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def _lower(resource: ModuleType, kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    try:
        resource.setrlimit(kind, (value, hard))
    except (ValueError, OSError):  # a system that knows the limit but does not let it be set
        return


def main() -> None:
    """Serve the process that started this one, over its pipes. Printed text goes to stderr."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdin.close()
    serve(requests, answers)


if __name__ == "__main__":
    main()
