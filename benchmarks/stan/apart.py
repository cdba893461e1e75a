"""One process that answers one question after the other, and is started again where an answer takes too much time."""

import math
import multiprocessing
import resource
import signal
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def worker(tasks: Any, seconds: float, answer: Callable[..., Row], first: tuple[Any, ...]) -> None:
    """Answers one program after the other."""
    import jax

    jax.config.update("jax_enable_x64", True)
    while True:
        try:
            task = tasks.recv()
        except EOFError:  # the program has ended
            return
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = math.ceil(used.ru_utime + used.ru_stime + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        try:
            tasks.send(answer(*first, *task))
        except Exception as error:
            tasks.send({"status": "failed", "why": f"{type(error).__name__}: {error}"[:300]})


class Workers:
    """One process that is started again where it takes too much CPU time; `answer(*first, *task)` runs there."""

    def __init__(self, seconds: float, answer: Callable[..., Row], *first: Any):
        self.seconds, self.answer, self.first = seconds, answer, first
        self.process, self.pipe = None, None

    def ask(self, *task: str) -> Row:
        context = multiprocessing.get_context("spawn")
        if self.process is None:
            self.pipe, other = context.Pipe()
            self.process = context.Process(
                target=worker, args=(other, self.seconds, self.answer, self.first), daemon=True
            )
            self.process.start()
            other.close()
        try:
            self.pipe.send(task)
            return self.pipe.recv()
        except (EOFError, BrokenPipeError):
            self.process.join()
            late = self.process.exitcode == -signal.SIGXCPU
            self.process = None
        if late:
            return {"status": "slow", "why": f"took more than {self.seconds:g} s"}
        return {"status": "failed", "why": "the process ended"}
