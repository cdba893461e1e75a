"""Saved objects that nobody wrote: good ones with opcodes, lengths and bytes changed, and what reading them came to."""

import contextlib
import io
import pickle
import pickletools
import random
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bayesrecon.auditing.channel import examine
from bayesrecon.auditing.look import Look
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_contents
from bayesrecon.untrusted.saved.file import SavedFile

SECONDS, BYTES = 20.0, 500 * 2**20
"""CPU time beyond which reading a small file counts as a hang, and memory beyond which it counts as a bomb."""

_OPCODES = [op.code.encode("latin-1") for op in pickletools.opcodes]
_LENGTHS = (0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)

Seed = Callable[[], bytes]


def _model() -> dict[str, object]:
    """An object with a little of everything that models have."""
    import pandas as pd
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.tree import DecisionTreeRegressor

    rng = np.random.default_rng(0)
    rows, outcome = rng.normal(size=(12, 2)), rng.normal(size=12)
    return {
        "ridge": Ridge().fit(rows, outcome),
        "neighbours": KNeighborsClassifier().fit(rows, outcome > 0),
        "tree": DecisionTreeRegressor(max_depth=2).fit(rows, outcome),
        "frame": pd.DataFrame({"a": outcome, "who": [f"p{k}" for k in range(12)]}),
        "words": ["auto", "l2"],
        "numbers": {1: 2.5, (3, 4): None},
    }


def _pickles() -> list[bytes]:
    return [pickle.dumps(_model(), protocol) for protocol in range(6)]


def _joblibs() -> list[bytes]:
    import joblib

    found = []
    for compress in (0, ("zlib", 3), ("xz", 1), ("bz2", 1)):
        written = io.BytesIO()
        joblib.dump(_model(), written, compress=compress)
        found.append(written.getvalue())
    return found


def _torches() -> list[bytes]:
    folder = Path(__file__).parents[1] / "posteriors" / "saved_by_others"
    return [(folder / name).read_bytes() for name in ("weights.pt", "module.pth", "checkpoint.pt")]


FORMATS: dict[str, tuple[str, Callable[[], list[bytes]]]] = {
    "pickle": (".pkl", _pickles),
    "joblib": (".joblib", _joblibs),
    "torch": (".pt", _torches),
}
"""Suffix, and good files."""


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A file with some of its opcodes, lengths or bytes changed; of an archive, of one member as well."""
    if content.startswith(b"PK\x03\x04") and rng.random() < 0.7:
        return _archive(content, rng)
    found = bytearray(content)
    for _ in range(1 + min(int(rng.expovariate(0.7)), 8)):
        at, size = rng.randrange(len(found) + 1), 1 + int(rng.expovariate(0.2))
        match rng.randrange(8):
            case 0:
                if at < len(found):
                    found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at : at + 1] = rng.choice(_OPCODES)
            case 2:
                found[at:at] = rng.choice(_OPCODES) * rng.choice((1, 1, 2, 50))
            case 3:
                width = rng.choice((1, 2, 4, 8))
                value = rng.choice(_LENGTHS) % 2 ** (8 * width)
                found[at : at + width] = value.to_bytes(width, "little")
            case 4:
                del found[at : at + size]
            case 5:
                start = rng.randrange(len(found) + 1)
                found[at:at] = found[start : start + 10 * size]
            case 6:
                found[at : at + size] = rng.randbytes(size)
            case 7:
                del found[at:]
    return bytes(found[: 2**18])


def _archive(content: bytes, rng: random.Random) -> bytes:
    """The same archive with one member changed, so that its checksums fit."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(written, "w") as target:
        names = source.namelist()
        chosen = rng.choice([n for n in names if n.endswith("data.pkl")] if rng.random() < 0.6 else names)
        for name in names:
            body = source.read(name)
            target.writestr(name, mutated(body, rng) if name == chosen and body else body)
    return written.getvalue()


@dataclass
class Tally:
    """What reading came to: files `read`, read `in part` (which the audit says) and `refused`, and failures with the
    bytes that made them.

    Attributes:
        slowest: seconds of CPU time, of this process and the guarded one together.
        peak: the most memory in bytes that reading one file took.
    """

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, bytes]] = field(default_factory=list)
    slowest: float = 0.0
    peak: int = 0

    def add(self, path: Path, content: bytes) -> None:
        """Read one file as an audit does before it attacks."""
        began, outcome = _computed(), "read"
        try:
            contents = read_contents(path)
            examine(Look(contents))
            outcome = "in part" if contents.unread else "read"
        except BayesreconError as problem:
            outcome = "refused"
            if "\n" in str(problem) or not str(problem) or _is_limit(str(problem)):
                outcome = self._failed(repr(problem), content)
        except Exception as problem:
            outcome = self._failed(repr(problem), content)
        seconds = _computed() - began
        self.slowest = max(self.slowest, seconds)
        if seconds > SECONDS:
            outcome = self._failed(f"{seconds:.0f} s", content)
        self.counts[outcome] += 1
        # The same once more in this process, whose memory can be watched.
        _forget()
        before = _memory("VmRSS")
        with contextlib.suppress(BayesreconError):
            SavedFile(path).everything()
        self.peak = max(self.peak, _memory("VmHWM") - before)

    def _failed(self, what: str, content: bytes) -> str:
        self.failures.append((what, content))
        return "failed"


def _is_limit(text: str) -> bool:
    """Whether the guarded process was ended: that is no way to refuse a small file."""
    return any(word in text for word in ("of memory to read", "of computing to read", "ended the process"))


def _computed() -> float:
    from bayesrecon.untrusted.guarded import PROCESS

    running = PROCESS._running
    other = 0.0
    if running is not None and running.poll() is None:
        fields = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
        other = (int(fields[11]) + int(fields[12])) / 100  # user and system time, in ticks
    return time.process_time() + other


def _memory(what: str) -> int:
    """Bytes of this process: "VmRSS", or "VmHWM", the most since `_forget`; 0 where the system does not tell."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith(what)).split()[1])
    return 0


def _forget() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def fuzz(name: str, count: int, seed: int = 0) -> Tally:
    """Read so many mutated files of a format."""
    suffix, good = FORMATS[name]
    rng, tally = random.Random(f"{name} {seed}"), Tally()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        originals, path = good(), Path(folder) / f"file{suffix}"
        for _ in range(count):
            content = mutated(rng.choice(originals), rng)
            path.write_bytes(content)
            tally.add(path, content)
    return tally
