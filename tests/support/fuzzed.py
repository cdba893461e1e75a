"""What whole verbs make of files that nobody wrote: read, refused in one line, or what must not be."""

import contextlib
import io
import os
import resource
import shutil
import signal
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import bayesrecon
from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.look import Look
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.posteriors.tables import read_table
from tests.support.costs import children, peak
from tests.support.fuzz_files import KINDS, netcdf

SLOW, LARGE = 20.0, 2 * 2**30
"""Seconds of CPU time and bytes beyond which a verb on a small file counts as a hang, and as a bomb."""

DATA = {"y": np.arange(5.0), "mom_iq": np.arange(5.0), "name": np.array([f"Ömer {i}" for i in range(5)])}
_SOME = 4  # every which file draws are attacked, too, which takes ten times as long as looking for data in it


def look_through(path: str) -> None:
    """What an audit does before it attacks."""
    examine(Look(read_contents(path)))


def _audit(path: Path, good: Path) -> None:
    bayesrecon.audit(path, data=DATA, remedies=False)


def _attack(path: Path, good: Path) -> None:
    bayesrecon.recover(path, model="kidscore_momiq")


def _attack_audited(path: Path, good: Path) -> None:
    bayesrecon.audit(path, "kidscore_momiq", data=DATA, remedies=False)


def _compare(path: Path, good: Path) -> None:
    bayesrecon.audit(good, data=path, remedies=False)


def _know(path: Path, good: Path) -> None:
    known = {key: value for key, value in read_table(str(path)).items() if key == "mom_iq"}
    bayesrecon.recover(good, model="kidscore_momiq", known=known or None)


def _estimates(path: Path, good: Path) -> None:
    bayesrecon.recover(path, model="ols")


def _audit_estimates(path: Path, good: Path) -> None:
    bayesrecon.audit(path, "ols", remedies=False)


def _model(path: Path, good: Path) -> None:
    bayesrecon.recover(bayesrecon.posteriors.from_table(path, "logit", column="1"))


def _load(path: Path, good: Path) -> None:
    found = bayesrecon.load_result(path)
    repr(found), found._repr_html_()
    found.save(path.with_name("again.json"))
    found.save(path.with_name("again.csv"))


VERBS: dict[str, tuple[Callable[[Path, Path], None], ...]] = {
    "draws": (_audit, _attack, _attack_audited),
    "data": (_compare, _know),
    "estimates": (_estimates, _audit_estimates),
    "models": (_model,),
    "result": (_load,),
}
"""What is done with a file, by what it is; the first of them with every one."""


class _Hang(BaseException):
    """More CPU time than any small file may take: no error, so that nothing on the way takes it for one."""


@dataclass
class Tally:
    """What files came to.

    Attributes:
        counts: of files that were `read` and `refused`, and that ended in a `traceback`, a `hang` or a `bomb`.
        failures: of the latter three, what was said and the number of the file.
        slowest: seconds of CPU time, of this process and those that it started.
        peak: the most memory, in bytes, that this process took more than before, or that one it had started took.
    """

    counts: Counter = field(default_factory=Counter)
    failures: list[tuple[int, str]] = field(default_factory=list)
    slowest: float = 0.0
    peak: int = 0

    def add(self, number: int, path: Path, good: Path, verbs: tuple[Callable[[Path, Path], Any], ...]) -> None:
        """Use one file in every way that is given."""
        outcome, before = "read", peak(anew=True)
        for verb in verbs:
            seconds, said = self._used(verb, path, good)
            if seconds > SLOW and said != "hang":  # once more: a busy machine adds to what is measured
                seconds, said = min((seconds, said), self._used(verb, path, good))
            if said == "refused":
                outcome = "refused" if outcome == "read" else outcome
            elif said:
                outcome = self._failed("hang" if said == "hang" else "traceback", number, f"{verb.__name__}: {said}")
            self.slowest = max(self.slowest, seconds)
            if seconds > SLOW and said != "hang":
                outcome = self._failed("hang", number, f"{verb.__name__}: {seconds:.0f} s")
        most = max([peak() - before, *map(peak, children())])
        self.peak = max(self.peak, most)
        if most > LARGE and outcome in ("read", "refused"):
            outcome = self._failed("bomb", number, f"{most / 2**20:.0f} MiB")
        self.counts[outcome] += 1

    @staticmethod
    def _used(verb: Callable[[Path, Path], Any], path: Path, good: Path) -> tuple[float, str]:
        """Seconds that a verb took, and "refused", "hang" or what it raised."""
        began, said = _spent(), ""
        try:
            with _quiet(), _ended():
                verb(path, good)
        except BayesreconError as error:
            said = repr(error) if "\n" in str(error) or not str(error) else "refused"
        except _Hang:
            said = "hang"
        except Exception as error:
            said = repr(error)
        return _spent() - began, said

    def _failed(self, kind: str, number: int, what: str) -> str:
        self.failures.append((number, f"{kind}: {what[:300]}"))
        return kind


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _ended() -> Iterator[None]:
    """The block, for no longer than this process may compute."""

    def end(number: int, frame: object) -> None:
        raise _Hang

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, 2 * SLOW)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _spent() -> float:
    """Seconds of CPU time of this process, of those that it started and that have ended, and of those that run."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = time.process_time() + ended.ru_utime + ended.ru_stime
    for pid in children():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


class Bench:
    """A folder with good files, of which mutated ones are made by their number alone."""

    def __init__(self, name: str) -> None:
        self._kind, self._seed = KINDS[name], list(KINDS).index(name)
        self._folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        for part in ("good", "data", "work"):
            (self._folder / part).mkdir()
        with _quiet():
            self._good = self._kind.make(self._folder / "good")
            self._draws = netcdf(self._folder / "data")

    def close(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self._folder)

    def file(self, number: int) -> Path:
        """The mutated file of a number."""
        work = self._folder / "work"
        shutil.rmtree(work)
        work.mkdir()
        path = work / self._good.name
        (shutil.copytree if self._good.is_dir() else shutil.copy)(self._good, path)
        with _quiet():
            self._kind.change(path, np.random.default_rng([self._seed, number]))
        return path

    def use(self, tally: Tally, number: int) -> None:
        """Use the file of a number, as its kind is used."""
        first, *others = VERBS[self._kind.use]
        chosen = (first, *others) if number % _SOME == 0 else (first,)
        tally.add(number, self.file(number), self._draws, chosen)


def fuzz(name: str, numbers: range) -> Tally:
    """Use the mutated files of these numbers of a kind of `fuzz_files.KINDS`."""
    tally, bench = Tally(), Bench(name)
    try:
        for number in numbers:
            bench.use(tally, number)
    finally:
        bench.close()
    return tally


os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
