"""Files of every format with one byte changed, and what is read of them: does each change show?"""

import hashlib
import io
import json
import pickle
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import h5py
import joblib
import numpy as np
import vanishing
from fuzz_files import BETA, R_OBJECTS, archive, cmdstan, netcdf, netcdf3, plain_json, sharded, zarr, zipped_json

from bayesrecon.errors import BayesreconError
from bayesrecon.posteriors.leaves import read_leaves
from bayesrecon.untrusted.packed import compression, unpacked

SAVED = Path(__file__).resolve().parent.parent / "posteriors" / "saved_by_others"

OBJECT = {
    "rows": vanishing.DATA,
    "coef": BETA[0],
    "few": [1.5, 2, "x"],
    "who": dict(zip(vanishing.IDS, range(23), strict=True)),
}


def seen(path: Path) -> str:
    """A digest of everything that is read of a file; "" if it is refused."""
    try:
        contents = read_leaves(path)
    except BayesreconError:
        return ""
    digest = hashlib.sha256()
    for piece in _pieces(
        {f.name: getattr(contents, f.name) for f in fields(contents) if f.name not in ("files", "name")}
    ):
        digest.update(piece)
    return digest.hexdigest()


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype}{value.shape}{value.tolist()!r}".encode()
    elif isinstance(value, float | np.floating):
        yield np.float64(value).tobytes()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key).encode()
            yield from _pieces(item)
    elif isinstance(value, list | tuple):
        yield str(len(value)).encode()
        for item in value:
            yield from _pieces(item)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _pieces({f.name: getattr(value, f.name) for f in fields(value)})
    else:
        yield repr(value).encode() if not callable(value) else b""


@dataclass(frozen=True)
class Change:
    """A byte of a file that was changed: the file, which may lie in a folder, its position, and both values."""

    file: str
    at: int
    old: int
    new: int


def changes(path: Path, count: int, rng: np.random.Generator) -> Iterator[tuple[Change, str]]:
    """Changes of a random byte of the file or folder, one at a time, with what is read then."""
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    sizes = np.array([p.stat().st_size for p in files], float)
    for _ in range(count):
        file = files[rng.choice(len(files), p=sizes / sizes.sum())]
        content = bytearray(file.read_bytes())
        at, old = int(rng.integers(len(content))), content[0]
        old = content[at]
        content[at] = new = (old + int(rng.integers(1, 256))) % 256
        file.write_bytes(content)
        yield Change(file.relative_to(path.parent).as_posix(), at, old, new), seen(path)
        content[at] = old
        file.write_bytes(content)


def _pickled(protocol: int) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (path := folder / "fit.pkl").write_bytes(pickle.dumps(OBJECT, protocol))
        return path

    return make


def _joblib(folder: Path) -> Path:
    joblib.dump(OBJECT, folder / "fit.joblib")
    return folder / "fit.joblib"


def _packed_joblib(folder: Path) -> Path:
    joblib.dump(OBJECT, folder / "fit.joblib", compress=3)
    return folder / "fit.joblib"


def _safetensors(folder: Path) -> Path:
    header = {"__metadata__": {"format": "np"}, "coef": {"dtype": "F64", "shape": [30, 2], "data_offsets": [0, 480]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (path := folder / "fit.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + BETA[0].tobytes())
    return path


def _pmml(folder: Path) -> Path:
    path = folder / "fit.pmml"
    path.write_text(
        '<?xml version="1.0"?>\n<PMML xmlns="http://www.dmg.org/PMML-4_4" version="4.4"><!-- for Ann -->\n'
        '<Header><Timestamp>2026-01-01</Timestamp></Header><DataDictionary><DataField name="age" optype="continuous"/>'
        '</DataDictionary><RegressionModel functionName="regression"><RegressionTable intercept="1.5">'
        '<NumericPredictor name="age" coefficient="0.25"/></RegressionTable></RegressionModel></PMML>\n'
    )
    return path


def _text(folder: Path) -> Path:
    path = folder / "chain.txt"
    lines = ["# weight minuslogpost mu tau", *(f"1 {b:.5f} {a:.6f} {b:.4f}" for a, b in BETA[0])]
    path.write_text("\n".join(lines) + "\n")
    return path


def _table(folder: Path) -> Path:
    path = folder / "fit.csv"
    path.write_text("lp__,mu,tau\n" + "\n".join(f"{-b:.5f},{a:.6f},{b:.4f}" for a, b in BETA[0]) + "\n")
    return path


def _zarr_zip(folder: Path) -> Path:
    source = zarr(3)(folder)
    path = folder / "fit.zarr.zip"
    with zipfile.ZipFile(path, "w") as held:
        for file in sorted(p for p in source.rglob("*") if p.is_file()):
            held.write(file, file.relative_to(source).as_posix())
    shutil.rmtree(source)
    return path


def _plain_npz(folder: Path) -> Path:
    np.savez(folder / "fit.npz", beta=BETA, sigma=np.abs(BETA[..., 0]))
    return folder / "fit.npz"


def _saved(name: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (path := folder / f"fit{Path(name).suffix}").write_bytes((SAVED / name).read_bytes())
        return path

    return make


def _of_r(name: str, unpack: bool) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:

        content = (R_OBJECTS / name).read_bytes()
        if unpack:
            content = unpacked(R_OBJECTS / name).content if compression(R_OBJECTS / name) else content
        (path := folder / f"fit{Path(name).suffix}").write_bytes(content)
        return path

    return make


FORMATS: dict[str, Callable[[Path], Path]] = {
    "pickle 0": _pickled(0),
    "pickle 2": _pickled(2),
    "pickle 5": _pickled(5),
    "joblib": _joblib,
    "joblib, compressed": _packed_joblib,
    "NumPy archive": _plain_npz,
    "NumPy archive, compressed": archive,
    "safetensors": _safetensors,
    "torch": _saved("weights.pt"),
    "torch before 1.6": _saved("module.pth"),
    "skops": _saved("skops_logistic.skops"),
    "ONNX": _saved("linear.onnx"),
    "ONNX of a tree": _saved("tree.onnx"),
    "PMML": _pmml,
    "JSON": plain_json,
    "zipped JSON": zipped_json,
    "CmdStan CSV": cmdstan,
    "text": _text,
    "CSV": _table,
    "HDF5": netcdf,
    "netCDF-3": netcdf3,
    "zarr 2": zarr(2),
    "zarr 3": zarr(3),
    "zarr 3 with shards": sharded,
    "zipped zarr": _zarr_zip,
    "RDS": _of_r("lm.rds", True),
    "RDS, compressed": _of_r("lm.rds", False),
    "RDS of version 2": _of_r("forms-version2.rds", True),
    "RDS as text": _of_r("forms-ascii.rds", True),
    "RData": _of_r("forms-ascii.RData", True),
}


_CYTHON = re.compile(rb"J....N(?=[\x85-\x87])", re.DOTALL)
_FRAME = re.compile(rb"\x95.{6}\0\0", re.DOTALL)
_SERIAL = re.compile(rb"\d{40}")
_FLAGS = {0, 1, 2, 4, 8, 16, 64, 128, 241, 242, *range(250, 255)}
_NUMBER = re.compile(rb"[-+.0-9eE]+")


def is_ignored(name: str, content: bytes, change: Change) -> bool:
    """Whether a byte is one that the format, or what reads it, ignores: `bayesrecon.untrusted.surplus.IGNORED`."""
    at = change.at
    if name.startswith(("pickle", "joblib", "torch before")):
        spans = [m.span() for pattern in (_CYTHON, _FRAME) for m in pattern.finditer(content)]
        return at < 2 or any(a <= at < b for a, b in spans)
    if content.startswith(b"PK"):
        return _in_header(content, at) or any(m.start() <= at < m.end() for m in _SERIAL.finditer(content))
    if name.startswith("HDF5"):
        return not any(a <= at < b for a, b in _arrays(content))
    if name.startswith("RDS") or name == "RData":  # the version of R, flags of the encodings of texts
        return at < 24 or {change.old, change.new} <= _FLAGS
    if name == "PMML":
        return at < 21
    changed = content[:at] + bytes([change.new]) + content[at + 1 :]
    cells = [[m.group() for m in _NUMBER.finditer(text) if m.start() <= at < m.end()] for text in (content, changed)]
    try:
        return float(cells[0][0]) == float((cells[1] or [cells[0][0]])[0])
    except (IndexError, ValueError):
        return False


def _in_header(content: bytes, at: int) -> bool:
    """Whether a byte of a zip archive is in a version, a time, the system or the permissions of a member."""
    for magic, places in ((b"PK\x03\x04", ((4, 6), (10, 14))), (b"PK\x01\x02", ((4, 8), (12, 16), (38, 42)))):
        begin = content.rfind(magic, 0, at)
        if begin >= 0 and any(begin + a <= at < begin + b for a, b in places):
            return True
    return False


def _arrays(content: bytes) -> Iterator[tuple[int, int]]:
    spans: list[tuple[int, int]] = []

    def visit(_: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.chunks is None and item.id.get_offset() is not None:
            spans.append((item.id.get_offset(), item.id.get_offset() + item.id.get_storage_size()))
        elif isinstance(item, h5py.Dataset) and item.chunks is not None:
            chunks = [item.id.get_chunk_info(k) for k in range(item.id.get_num_chunks())]
            spans.extend((c.byte_offset, c.byte_offset + c.size) for c in chunks)

    with h5py.File(io.BytesIO(content)) as file:
        file.visititems(visit)
    return iter(spans)
