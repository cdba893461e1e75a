"""Files that nobody wrote: good ones with bytes changed, and a count of what reading them came to."""

import contextlib
import io
import json
import os
import shutil
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xarray as xr
from costs import children, peak

from bayesrecon.auditing.around import look_around
from bayesrecon.auditing.look import Look
from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.formats import read_contents, read_draws
from bayesrecon.posteriors.tables import read_table

RNG = np.random.default_rng(0)
MU, LOG_LIK = RNG.normal(size=(2, 30)), RNG.normal(size=(2, 30, 5))
SLOW, LARGE = 20.0, 2 * 2**30
"""Seconds and bytes beyond which reading a small file counts as a hang, and as a bomb."""

TOKENS = (
    b"0",
    b"-1",
    b"1e400",
    b"nan",
    b"999999999999",
    b'"',
    b"{",
    b"[",
    b"\\u202e",
    b"\0",
    b"\xff",
    b",",
    b"\n",
    b"# ",
)
LONG = 2**16


def tree() -> xr.DataTree:
    """Draws with what goes with them: log densities, pointwise log likelihoods, data with labels, attributes."""
    names = {"obs": [f"Ömer {i}" for i in range(5)]}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"mu": (("chain", "draw"), MU)}, attrs={"note": "hello", "numbers": [1.5, 2.5]}),
            "sample_stats": xr.Dataset({"lp": (("chain", "draw"), -MU)}),
            "log_likelihood": xr.Dataset({"y": (("chain", "draw", "obs"), LOG_LIK)}, names),
            "observed_data": xr.Dataset({"y": ("obs", np.arange(5.0))}, names),
        }
    )


def netcdf(folder: Path) -> Path:
    path = folder / "fit.nc"
    packed = {"mu": {"zlib": True, "chunksizes": (2, 15), "shuffle": True}}
    tree().to_netcdf(path, engine="h5netcdf", encoding={"/posterior": packed})
    return path


def zarr(folder: Path, version: int) -> Path:
    path = folder / f"fit{version}.zarr"
    tree().to_zarr(path, zarr_format=version, consolidated=version == 2)
    return path


def cmdstan(folder: Path) -> Path:
    path = folder / "fit.csv"
    head = ["# method = sample (Default)", "# num_samples = 30", "# num_warmup = 10", "lp__,mu,log_lik.1,log_lik.2"]
    head += ["# Step size = 0.8", "# data file = /home/eve/y.json"]
    rows = [f"{-v:.6g},{v:.6g},{a:.6g},{b:.6g}" for v, (a, b) in zip(MU[0], LOG_LIK[0, :, :2], strict=True)]
    path.write_text("\n".join([*head, *rows, "# Elapsed Time: 1 seconds", ""]))
    return path


def archive(folder: Path) -> Path:
    path = folder / "fit.npz"
    np.savez_compressed(path, mu=MU, log_lik=LOG_LIK, __attributes__=np.array('{"bayesrecon_note": "x"}'))
    return path


def chains() -> str:
    return json.dumps([{"mu": MU[c].tolist(), "b[1]": MU[c].tolist(), "b[2]": MU[c].tolist()} for c in range(2)])


def plain_json(folder: Path) -> Path:
    path = folder / "fit.json"
    path.write_text(chains())
    return path


def zipped_json(folder: Path) -> Path:
    path = folder / "fit.json.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as held:
        held.writestr("fit.json", chains())
    return path


def table(folder: Path) -> Path:
    path = folder / "table.csv"
    path.write_text("y,name\n" + "\n".join(f"{v},n{i}" for i, v in enumerate(MU[0])))
    return path


FORMATS = {
    "netCDF": netcdf,
    "zarr 2": lambda folder: zarr(folder, 2),
    "zarr 3": lambda folder: zarr(folder, 3),
    "CmdStan": cmdstan,
    "npz": archive,
    "json": plain_json,
    "zip": zipped_json,
    "table": table,
}


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes flipped, cut, repeated, moved or replaced by what parsers stumble over."""
    found = bytearray(content)
    for _ in range(rng.geometric(0.6)):
        at, size = (int(rng.integers(len(found) + 1)), int(rng.geometric(0.1)))
        match rng.integers(12) % 7 if rng.random() < 0.5 else 0:
            case 0:
                for k in rng.integers(len(found), size=rng.geometric(0.6)) if found else ():
                    found[k] ^= 1 << int(rng.integers(8))
            case 1:
                found[at : at + size] = rng.bytes(size)
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = found[at : at + size] * int(rng.integers(1, 20))
            case 4:
                found[at : at + size] = TOKENS[rng.integers(len(TOKENS))]
            case 5:
                del found[at:]
            case 6:  # lengths and addresses
                width = int(2 ** rng.integers(4))
                whole = 2 ** (8 * width)
                value = (0, 1, whole // 2, whole - 1, len(found) % whole)[rng.integers(5)]
                found[at : at + width] = value.to_bytes(width, "little")
    return bytes(found[:LONG])


@dataclass
class Tally:
    """What reading came to.

    Attributes:
        counts: of files that were `read` and `refused`, that ended in a `traceback` or took too long: a `hang`.
        failures: the first of the latter two, with the bytes that did it.
        slowest: seconds.
        peak: the most memory, in bytes, that this process took more than before, or that one it had started took.
    """

    counts: Counter = field(default_factory=Counter)
    failures: list[tuple[str, str, bytes]] = field(default_factory=list)
    slowest: float = 0.0
    peak: int = 0

    _before: int = field(default_factory=lambda: peak(anew=True))

    def add(self, path: Path, content: bytes) -> None:
        """Read one file in every way there is."""
        outcome = "read"
        readers = (read_table,) if path.name.startswith("table") else (read_draws, look_through)
        for read in readers:
            began = time.perf_counter()
            try:
                with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
                    warnings.simplefilter("ignore")
                    read(str(path))
            except BayesreconError as error:
                outcome = "refused" if outcome == "read" else outcome
                if "\n" in str(error) or not str(error):
                    outcome = self._failed("traceback", path, repr(error), content)
            except Exception as error:
                outcome = self._failed("traceback", path, repr(error), content)
            seconds = time.perf_counter() - began
            self.slowest = max(self.slowest, seconds)
            if seconds > SLOW:
                outcome = self._failed("hang", path, f"{seconds:.0f} s", content)
        self.counts[outcome] += 1
        self.peak = max(self.peak, peak() - self._before, *map(peak, children()))

    def _failed(self, kind: str, path: Path, what: str, content: bytes) -> str:
        self.failures.append((path.name, what, content))
        return kind


def look_through(path: str) -> None:
    """What an audit does before it attacks."""
    look_around(Look(read_contents(path)))


def fuzz(name: str, count: int, seed: int = 0, seconds: float = float("inf")) -> Tally:
    """Read so many mutated files of a format, or as many as there is time for."""
    tally, rng, end = Tally(), np.random.default_rng(seed), time.monotonic() + seconds
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            good = FORMATS[name](folder)
        parts = [p for p in good.rglob("*") if p.is_file()] if good.is_dir() else [good]
        originals = {part: part.read_bytes() for part in parts}
        for _ in range(count):
            if time.monotonic() > end:
                break
            part = parts[rng.integers(len(parts))]
            content = mutated(originals[part], rng)
            part.write_bytes(content)
            tally.add(good, content)
            part.write_bytes(originals[part])
    finally:
        shutil.rmtree(folder)
    return tally


os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
