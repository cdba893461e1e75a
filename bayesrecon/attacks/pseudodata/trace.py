"""Trace of a descent, and the checkpoint that it can be resumed from."""

import json
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.files import write_whole
from bayesrecon.model import PseudoData, entry
from bayesrecon.results.reconstruction import moments_of

COLUMNS = ("iteration", "seconds", "objective", "gap")


@dataclass
class Trace:
    """Rows of `iteration, seconds, objective, gap` and the weighted moments of the fields.

    Attributes:
        fields: `{field: shape}` whose moments are followed.
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
    """A file that holds a descent's variables, its trace and what it is a descent of.

    Written at most every `every` seconds and when the descent ends, whole or not at all; no pickles.
    """

    path: Path
    about: dict[str, Any]
    every: float = 10.0
    written: float = field(default_factory=time.perf_counter)

    def due(self) -> bool:
        return time.perf_counter() - self.written >= self.every

    def save(self, iteration: int, arrays: Mapping[str, Any], trace: Trace) -> None:
        content = {f"x_{k}": np.asarray(v) for k, v in arrays.items()}
        content["trace"] = np.array(trace.rows).reshape(len(trace.rows), len(trace.columns))
        content["about"] = np.array(json.dumps({**self.about, "iteration": iteration, "columns": trace.columns}))

        def write(temporary: Path) -> None:
            with temporary.open("wb") as handle:
                np.savez(handle, allow_pickle=False, **content)

        write_whole(self.path, write)
        self.written = time.perf_counter()

    def load(self, trace: Trace) -> tuple[int, dict[str, np.ndarray]] | None:
        """The iteration and the arrays, None when there is no such file yet; the trace's rows are restored.

        Raises `BayesreconError` when the file is of another descent or no checkpoint at all.
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
        mine = json.loads(json.dumps(self.about))
        if columns != trace.columns or about != mine:
            other = [k for k in mine if about.get(k) != mine[k]] or ["fields"]
            raise BayesreconError(
                f"{self.path} is a checkpoint of another reconstruction (different {', '.join(other)}); "
                "choose another file, or remove it"
            )
        trace.rows = rows.tolist()
        if trace.rows:
            trace.started = time.perf_counter() - trace.rows[-1][1]
        return iteration, {k[2:]: v for k, v in content.items() if k.startswith("x_")}
