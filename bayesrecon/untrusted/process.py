"""HDF5 files opened in another process, with a limit on time and memory: some damaged ones never return.

One process serves all files. It is started when the first one is opened, killed from outside when it takes too long,
and started again for the next one. It is this package run by `python -m`: forking is unsafe once JAX runs, and
`multiprocessing` would run a user's script a second time.
"""

import atexit
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.message import pack, unpack

SECONDS, BYTES_A_SECOND = 10.0, 2**24
"""A file may take so long in all, and a second more for so many of its bytes."""

MEMORY, MEMORY_A_BYTE = 2**30, 16
"""The process may take so much memory, and so many bytes more for every byte of the file."""

_HEAD = 8
_TRUST = "if you trust it, read it with trusted=True (--trusted)"


class Untrusted:
    """An HDF5 file of a stranger: what `HDF5File` says of it, from the process that opened it.

    Raises:
        BayesreconError: what `HDF5File` raises, and a file that takes too long or too much memory, or that ends the
            process.
    """

    def __init__(self, path: Path) -> None:
        self._path = Path(path).absolute()
        size = self._path.stat().st_size
        self._memory, self._most = MEMORY + MEMORY_A_BYTE * size, SECONDS + size / BYTES_A_SECOND
        self._left = self._most
        self._ask("open")

    def close(self) -> None:
        """Let the process let go of the file."""
        PROCESS.close(str(self._path))

    def describe(self, groups: Sequence[str] | None = None) -> dict[str, Any]:
        """As `HDF5File.describe`."""
        return self._ask("describe", None if groups is None else list(groups))

    def describe_group(self, name: str) -> dict[str, Any]:
        """As `HDF5File.describe_group`."""
        return self._ask("describe_group", name)

    def inventory(self) -> dict[str, Any]:
        """As `HDF5File.inventory`."""
        return self._ask("inventory")

    def read(self, name: str, key: tuple[Any, ...]) -> np.ndarray:
        """As `HDF5File.read`."""
        return self._ask("read", name, list(key))

    def _ask(self, what: str, *arguments: Any) -> Any:
        limits = {"seconds": max(self._left, 0.0), "most": self._most, "memory": self._memory}
        began = time.monotonic()
        try:
            return PROCESS.ask({"path": str(self._path), "what": what, "arguments": arguments, **limits})
        finally:
            self._left -= time.monotonic() - began


_CLOSING = {"seconds": SECONDS, "most": SECONDS, "memory": MEMORY}


class Process:
    """The process that opens files. One request at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._running: subprocess.Popen[bytes] | None = None
        self._owner = -1
        self._open = ""

    def ask(self, request: dict[str, Any]) -> Any:
        """What the process answers.

        Raises:
            BayesreconError: what it refuses, or that it was killed.
        """
        with self._lock:
            path = request["path"]
            if request["what"] != "open" and (self._open != path or not self._alive()):
                self.ask({**request, "what": "open", "arguments": ()})
            answer = self._exchange(request)
            if "error" not in answer:
                self._open = path
                return answer["value"]
        if answer["kind"] == "MemoryError":
            self.stop()  # it keeps what it took
            gigabytes = request["memory"] / 2**30
            raise BayesreconError(f"{path}: takes more than {gigabytes:.1f} GiB of memory to read, refused; {_TRUST}")
        if answer["kind"] == "BayesreconError":
            raise BayesreconError(answer["error"])
        raise OSError(answer["error"])

    def close(self, path: str) -> None:
        """Close what is open, unless the process has ended."""
        with self._lock:
            if self._open == path and self._alive():
                self._exchange({"path": path, "what": "close", "arguments": (), **_CLOSING})
                self._open = ""

    def stop(self) -> None:
        """End the process; the next request starts another one."""
        with self._lock:
            if self._running is not None and self._owner == os.getpid():
                self._running.kill()
                self._running.wait()
                for pipe in (self._running.stdin, self._running.stdout):
                    with contextlib.suppress(OSError):  # what was not yet sent has no reader
                        pipe.close()  # type: ignore[union-attr]
                atexit.unregister(self.stop)
            self._running, self._open = None, ""

    def _alive(self) -> bool:
        # A process that was forked from ours must not talk through our pipes.
        return self._running is not None and self._owner == os.getpid() and self._running.poll() is None

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        if not self._alive():
            self.stop()
            self._start()
        running, path = self._running, request["path"]
        assert running is not None
        assert running.stdin is not None
        assert running.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            running.kill()

        timer = threading.Timer(request["seconds"], end)
        timer.daemon = True
        timer.start()
        content = pack(request)
        try:
            running.stdin.write(len(content).to_bytes(_HEAD) + content)
            running.stdin.flush()
            head = running.stdout.read(_HEAD)
            found = running.stdout.read(int.from_bytes(head)) if len(head) == _HEAD else b""
            if len(head) == _HEAD and len(found) == int.from_bytes(head):
                return unpack(found)
        except (BrokenPipeError, ConnectionError):
            pass
        except BaseException:  # interrupted in the middle of an answer
            self.stop()
            raise
        finally:
            timer.cancel()
        self.stop()
        if late.is_set():
            raise BayesreconError(f"{path}: not read within {request['most']:.0f} s, damaged; {_TRUST}")
        raise BayesreconError(f"{path}: ended the process that read it, damaged; {_TRUST}")

    def _start(self) -> None:
        # -P: what lies in the current folder is no module. The rest of the path is that of this process.
        paths = os.pathsep.join(path for path in sys.path if path)
        environment = {**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "HDF5_PLUGIN_PATH": "::"}
        command = [sys.executable, "-P", "-m", "bayesrecon.untrusted"]
        try:
            self._running = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
            )
        except (OSError, TypeError) as error:
            raise BayesreconError(
                f"no process can be started to read files from strangers ({error}); {_TRUST}"
            ) from None
        self._owner = os.getpid()
        atexit.register(self.stop)


PROCESS = Process()
"""The one that serves this interpreter."""
