"""Trace of a descent, and the checkpoint that it can be resumed from."""

import json
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_whole
from bayesrecon.json_types import Json
from bayesrecon.model import PseudoData, entry
from bayesrecon.results.reconstruction import moments_of

COLUMNS = ("iteration", "seconds", "objective", "gap")


@dataclass
class Trace:
    """Rows of `iteration, seconds, objective, gap` and the weighted moments of the fields.

    Attributes:
        fields: `{field: shape}` of the fields whose moments are recorded.
        rows: one list per recorded iterate, in the order of `columns`.
        started: time of the start, in seconds.
    """

    fields: Mapping[str, tuple[int, ...]]
    rows: list[list[float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def columns(self) -> list[str]:
        names = [entry(name, index) for name, shape in self.fields.items() for index in np.ndindex(shape)]
        return [*COLUMNS, "n", *(f"mean({n})" for n in names), *(f"var({n})" for n in names)]

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def add(self, iteration: int, objective: float, gap: float, pseudo: PseudoData) -> None:
        total, mean, variance = moments_of(np.asarray(pseudo.weights), pseudo.records, list(self.fields))
        self.rows.append([iteration, self.seconds, objective, gap, total, *mean, *variance])


@dataclass
class Checkpoint:
    """A file with the variables of a descent, its trace and its settings.

    It is written at most once in `interval` seconds and when the descent ends. It is never incomplete, and contains no
    pickles.

    Attributes:
        about: settings that must agree when a descent resumes.
        written: time of the last writing, in seconds.
    """

    path: Path
    about: Json
    interval: float = 10.0
    written: float = field(default_factory=time.perf_counter)

    def due(self) -> bool:
        return time.perf_counter() - self.written >= self.interval

    def save(self, iteration: int, arrays: Mapping[str, Array], trace: Trace) -> None:
        content = {f"x_{k}": np.asarray(v) for k, v in arrays.items()}
        content["trace"] = np.array(trace.rows).reshape(len(trace.rows), len(trace.columns))
        content["about"] = np.array(json.dumps({**self.about, "iteration": iteration, "columns": trace.columns}))

        def write(temporary: Path) -> None:
            with temporary.open("wb") as handle:
                np.savez(handle, allow_pickle=False, **content)

        write_whole(self.path, write)
        self.written = time.perf_counter()

    def load(self, trace: Trace) -> tuple[int, dict[str, np.ndarray]] | None:
        """The iteration and the arrays; None if the file does not exist yet. The rows of the trace are restored.

        Raises `BayesreconError` if the file is not a checkpoint, or one of another descent.
        """
        if not self.path.exists():
            return None
        try:
            with self.path.open("rb") as handle, np.load(handle, allow_pickle=False) as archive:
                content = {k: archive[k] for k in archive.files}
            about = json.loads(str(content.pop("about")))
            rows = content.pop("trace")
            iteration, columns = int(about.pop("iteration")), about.pop("columns")
        except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, zipfile.BadZipFile):
            raise BayesreconError(f"{self.path} is not a checkpoint of a reconstruction; choose another file") from None
        expected = json.loads(json.dumps(self.about))
        if columns != trace.columns or about != expected:
            different = [k for k in expected if about.get(k) != expected[k]] or ["fields"]
            raise BayesreconError(
                f"{self.path} is a checkpoint of another reconstruction (different {', '.join(different)}); "
                "choose another file, or remove it"
            )
        trace.rows = rows.tolist()
        if trace.rows:
            trace.started = time.perf_counter() - trace.rows[-1][1]
        return iteration, {k[2:]: v for k, v in content.items() if k.startswith("x_")}
