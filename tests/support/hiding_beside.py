"""Files of the regression of `hiding` in which data lie beside what readers read: in padding, headers, gaps, chunks
beyond an extent, bits of NaN, blanks, and whatever else a format has that nobody looks at.
"""

import bz2
import gzip
import json
import lzma
import pickle
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tests.support.hiding import AGE, DRAWS, PATIENT, ROWS, File, Y, csv, groups, write

PLACES: list[File] = []
_BYTES = Y.tobytes()
_BITS = np.unpackbits(np.frombuffer(Y[:10].astype("f4").tobytes(), np.uint8))


def _add(form: str, name: str, kind: str = "malice") -> Callable[[Callable[[Path], Path]], None]:
    return lambda make: PLACES.append(File(name, kind, form, make))


def _changed(form: str, name: str, base: Callable[[Path], Path], change: Callable[[bytes], bytes]) -> None:
    """A file whose bytes are changed."""

    def make(folder: Path) -> Path:
        path = base(folder)
        path.write_bytes(change(path.read_bytes()))
        return path

    PLACES.append(File(name, "malice", form, make))


def _nc(folder: Path) -> Path:
    return write(groups(), folder / "fit.nc")


def _h5(name: str, change: Callable[[h5py.File], Any], kind: str = "malice") -> None:
    def make(folder: Path) -> Path:
        path = _nc(folder)
        with h5py.File(path, "a") as file:
            change(file)
        return path

    PLACES.append(File(name, kind, "nc", make))


def _long_doubles() -> np.ndarray:
    """Ones, in whose padding the response lies."""
    one = np.longdouble(1).tobytes()
    padded = b"".join(one[:10] + int(y * 10).to_bytes(2, "little") + one[12:] for y in Y)
    return np.frombuffer(padded, np.longdouble)


def _records() -> np.ndarray:
    """Records of a number, behind which the response lies."""
    kind = np.dtype({"names": ["k"], "formats": ["i4"], "offsets": [0], "itemsize": 12})
    return np.frombuffer(b"".join(b"\1\0\0\0" + y.tobytes() for y in Y), kind)


def _truths() -> np.ndarray:
    """Ages as truth values."""
    return np.frombuffer(bytes(AGE.astype(int).tolist()), bool)


def _signs() -> np.ndarray:
    """Zeros with the response in their signs."""
    return np.where(np.resize(_BITS, DRAWS["sigma"].shape), -0.0, 0.0)


def _nans(values: np.ndarray) -> np.ndarray:
    return (np.uint64(0x7FF8000000000000) | values.astype(np.uint64)).view(float)


def _in_hdf5() -> None:
    _h5("comment of an array", lambda f: h5py.h5o.set_comment(f.id, ROWS.encode(), obj_name=b"posterior/sigma"))
    _h5("comment of the file", lambda f: h5py.h5o.set_comment(f.id, ROWS.encode(), obj_name=b"/"))

    def deleted(f: h5py.File) -> None:
        f["posterior"].attrs["rows"] = ROWS
        del f["posterior"].attrs["rows"]

    def texts(f: h5py.File) -> None:
        f.create_dataset("posterior/who", data=[str(p) * 3 for p in PATIENT], dtype=h5py.string_dtype())
        del f["posterior/who"]

    def whole(f: h5py.File) -> None:
        f.create_dataset("posterior/ages", data=(AGE * 10).astype("i4"))
        f["constant_data/count"] = len(AGE)
        del f["posterior/ages"]

    def beyond(f: h5py.File) -> None:
        made = f.create_dataset("constant_data/extra", (80,), "f8", chunks=(100,), maxshape=(None,))
        made[:] = 1.0
        made.id.write_direct_chunk((0,), np.concatenate([np.ones(80), Y[:20]]).tobytes())

    def packed(f: h5py.File) -> None:
        made = f.create_dataset("constant_data/extra", (80,), "f8", chunks=(160,), maxshape=(None,), compression="gzip")
        made.id.write_direct_chunk((0,), zlib.compress(np.concatenate([np.ones(80), Y]).tobytes()))

    def scaled(f: h5py.File) -> None:
        for k, y in enumerate(Y):
            f[f"constant_data/v{k:02d}"] = 0.0
            f[f"constant_data/v{k:02d}"].attrs["valid_max"] = y

    def layout(**how: Callable[[float], Any]) -> Callable[[h5py.File], None]:
        def change(f: h5py.File) -> None:
            for k, y in enumerate(Y):
                options = {name: value(y) for name, value in how.items()}
                f.create_dataset(f"constant_data/more/v{k:02d}", dtype="f8", **{"shape": (0,), **options})

        return change

    layouts: dict[str, dict[str, Callable[[float], Any]]] = {
        "largest shapes of arrays": {"maxshape": lambda y: (int(y * 10),), "chunks": lambda y: (8,)},
        "shapes of chunks": {"maxshape": lambda y: (None,), "chunks": lambda y: (int(y * 10),)},
        "shapes of empty arrays": {"shape": lambda y: (0, int(y * 10))},
        "values that fill arrays": {"fillvalue": lambda y: y},
        "options of a filter": {"shape": lambda y: (8,), "chunks": lambda y: (8,), "scaleoffset": lambda y: int(y)},
    }
    for name, how in layouts.items():
        _h5(name, layout(**how))
    _h5("padding of long doubles", lambda f: f.create_dataset("constant_data/x", data=_long_doubles()))
    _h5("an attribute that was deleted", deleted, "honest")
    _h5("texts that were deleted", texts, "honest")
    _h5("whole numbers that were deleted", whole, "honest")
    _h5("a chunk beyond the extent of its array", beyond)
    _h5("a compressed chunk beyond the extent of its array", packed)
    _h5("an attribute of each of many arrays", scaled)
    _h5("bits of NaN", lambda f: f.create_dataset("sample_stats/energy_error", data=np.resize(_nans(AGE), (2, 250))))
    _h5("bits of NaN in an attribute", lambda f: f["posterior"].attrs.update(limit=_nans(AGE)))
    _changed("nc", "text after the end", _nc, lambda b: b + ROWS.encode())


def _npz(folder: Path) -> Path:
    np.savez(folder / "fit.npz", **DRAWS)
    return folder / "fit.npz"


def _rezipped(change: Callable[[zipfile.ZipFile, dict[str, bytes]], None], how: int = 0) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = _npz(folder)
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        with zipfile.ZipFile(path, "w", how) as archive:
            change(archive, members)
        return path

    return make


def _all(archive: zipfile.ZipFile, members: dict[str, bytes], **fields: Any) -> None:
    for k, (name, content) in enumerate(members.items()):
        info = zipfile.ZipInfo(name)
        for field, value in fields.items():
            setattr(info, field, value(k) if callable(value) else value)
        archive.writestr(info, content)


def _padded(content: bytes, padding: bytes) -> bytes:
    """An array of NumPy with other padding in its header."""
    size = int.from_bytes(content[8:10], "little")
    text = content[10 : 10 + size].rstrip(b" \n")
    header = text + padding
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return content[:8] + struct.pack("<H", len(header)) + header + content[10 + size :]


def _in_archives() -> None:
    remark = b"#" + _BYTES.hex().encode()
    extra = struct.pack("<HH", 0x9999, len(_BYTES)) + _BYTES

    def twice(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
        other = dict(members)
        name = next(iter(members))
        old = bytearray(other[name])
        old[-len(_BYTES) :] = _BYTES
        archive.writestr(name, bytes(old))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # which says that the name is there
            for one, content in members.items():
                archive.writestr(one, content)

    def gaps(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
        for name, content in members.items():
            archive.writestr(name, content)
            archive.fp.write(_BYTES)
            archive.start_dir = archive.fp.tell()

    def blanks(content: bytes) -> bytes:
        return _padded(content, b"".join(b"\t" if bit else b" " for bit in _BITS))

    def behind(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
        for name, content in members.items():
            packed = zlib.compressobj(9, zlib.DEFLATED, -15)
            stream = packed.compress(content) + packed.flush() + _BYTES
            info = zipfile.ZipInfo(name)
            info.CRC, info.compress_size, info.file_size = zlib.crc32(content), len(stream), len(content)
            info.compress_type, info.header_offset = zipfile.ZIP_DEFLATED, archive.fp.tell()
            archive.fp.write(info.FileHeader() + stream)
            archive.filelist.append(info)
            archive.NameToInfo[name] = info
            archive.start_dir, archive._didModify = archive.fp.tell(), True

    made = {
        "a member that another one replaces": _rezipped(twice), "bytes between the members": _rezipped(gaps),
        "bytes behind a compressed member": _rezipped(behind),
        "an extra field": _rezipped(lambda a, m: _all(a, m, extra=extra)),
        "the internal attributes": _rezipped(lambda a, m: _all(a, m, internal_attr=lambda k: int(AGE[k] * 10))),
        "the external attributes": _rezipped(lambda a, m: _all(a, m, external_attr=lambda k: int(AGE[k] * 1e7))),
        "blanks of a header of NumPy": _rezipped(lambda a, m: _all(a, {k: blanks(v) for k, v in m.items()})),
        "text in a header of NumPy": _rezipped(lambda a, m: _all(a, {k: _padded(v, remark) for k, v in m.items()})),
    }  # fmt: skip
    for name, make in made.items():
        PLACES.append(File(name, "malice", "npz", make))

    arrays = {
        "between the fields of records": {"x": _records()}, "signs of zeros": {"energy": _signs()},
        "padding of long doubles": {"x": np.resize(_long_doubles(), (2, 250))},
        "truth values beyond 1": {"x": np.resize(_truths(), (2, 250))},
        "names of empty arrays": {f"n{p}": np.zeros((2, 250, 0)) for p in PATIENT},
    }  # fmt: skip
    for name, more in arrays.items():

        def write_with(folder: Path, more: dict[str, np.ndarray] = more) -> Path:
            np.savez(folder / "fit.npz", **DRAWS, **more)
            return folder / "fit.npz"

        PLACES.append(File(name, "malice", "npz", write_with))

    @_add("npz", "bits of NaN")
    def _(folder: Path) -> Path:
        np.savez(folder / "fit.npz", **DRAWS, energy=np.resize(_nans(AGE), DRAWS["sigma"].shape))
        return folder / "fit.npz"


def _in_texts() -> None:
    def lines(change: Callable[[int, str], str]) -> Callable[[bytes], bytes]:
        def changed(content: bytes) -> bytes:
            text = content.decode().splitlines()
            rows = [k for k, line in enumerate(text) if line and not line.startswith("#")][1:]
            for n, k in enumerate(rows):
                text[k] = change(n, text[k])
            return ("\n".join(text) + "\n").encode()

        return changed

    bit = lambda n: _BITS[n % len(_BITS)]  # noqa: E731
    digits = lambda n, line: line + f"{int(AGE[n % 80] * 10):018d}" if "." in line.rpartition(",")[2] else line  # noqa: E731
    made = {
        "blanks at the ends of lines": lambda n, line: line + " \t"[bit(n)],
        "blanks before commas": lambda n, line: line.replace(",", " ," if bit(n) else ",", 1),
        "blanks after commas": lambda n, line: line.replace(",", ",  " if bit(n) else ",", 1),
        "quotes within cells": lambda n, line: line[:2] + '"' + line[2:] if bit(n) else line,
        "ends of lines": lambda n, line: line + ("\r" if bit(n) else ""),
        "empty lines": lambda n, line: line + ("\n" if bit(n) else ""),
        "digits that no number has": digits,
        "plus signs": lambda n, line: "+" * int(bit(n)) + line.lstrip("-"),
        "zeros before numbers": lambda n, line: "00" * int(bit(n)) + line.lstrip("-"),
        "exponents of zero": lambda n, line: line.replace(",0,", f",0e{int(AGE[n % 80] * 3)},", 1),
        "signs that nobody sees": lambda n, line: line.replace(",", "\x0c," if bit(n) else ",", 1),
    }
    for name, change in made.items():
        _changed("csv", name, csv, lines(change))
    for suffix, pack in {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.items():

        def after(folder: Path, suffix: str = suffix, pack: Callable[[bytes], bytes] = pack) -> Path:
            path = csv(folder)
            packed = path.with_name(path.name + suffix)
            packed.write_bytes(pack(path.read_bytes()) + _BYTES)
            path.unlink()
            return packed

        PLACES.append(File(f"bytes after the end of {suffix}", "malice", "csv", after))

    @_add("csv", "the name in the header of gzip")
    def _(folder: Path) -> Path:
        path = csv(folder)
        packed = gzip.compress(path.read_bytes())
        path.unlink()
        (path := folder / "fit.csv.gz").write_bytes(
            packed[:3] + b"\x08" + packed[4:10] + ROWS.encode() + b"\0" + packed[10:]
        )
        return path

    document = {name: values.tolist() for name, values in DRAWS.items()}

    def spaced(_: bytes) -> bytes:
        text, marks = json.dumps(document), iter(np.resize(_BITS, 10_000))
        return "".join(c + " " * int(next(marks, 0)) if c == "," else c for c in text).encode()

    def long(content: bytes) -> bytes:
        return re.sub(rb"(?<=\d), ", f"{int(AGE[0] * 10):018d}, ".encode(), content)

    def plain(folder: Path) -> Path:
        (path := folder / "fit.json").write_text(json.dumps(document))
        return path

    _changed("json", "blanks", plain, spaced)
    _changed("json", "blanks after the end", plain, lambda b: b + bytes(32 if x else 9 for x in _BITS))
    _changed("json", "digits that no number has", plain, long)

    @_add("json", "a value under each patient's number", "honest")
    def _(folder: Path) -> Path:
        (path := folder / "fit.json").write_text(
            json.dumps({**document, "x": dict(zip(PATIENT, Y.tolist(), strict=True))})
        )
        return path


def _in_zarr() -> None:
    def folder_of(folder: Path) -> Path:
        return write(groups(), folder / "fit.zarr")

    @_add("zarr", "an array beyond its extent")
    def _(folder: Path) -> Path:
        import zarr

        path = folder_of(folder)
        group = zarr.open_group(str(path), mode="a").create_group("constant_data")
        made = group.create_array("extra", shape=(20,), chunks=(100,), dtype="f8", compressors=None)
        made[:] = 1.0
        (path / "constant_data/extra/c/0").write_bytes(np.concatenate([np.ones(20), Y]).tobytes())
        return path

    @_add("zarr", "empty folders")
    def _(folder: Path) -> Path:
        path = folder_of(folder)
        for patient in PATIENT:
            (path / "posterior" / patient).mkdir()
        return path

    @_add("zarr", "blanks of metadata")
    def _(folder: Path) -> Path:
        path = folder_of(folder)
        file = path / "posterior/zarr.json"
        file.write_text(file.read_text() + "".join(" \t"[b] for b in _BITS))
        return path


def _in_objects() -> None:
    model = {"coef": DRAWS["coef"].mean((0, 1)), "kind": "ols"}

    def pickled(folder: Path) -> Path:
        (path := folder / "fit.pkl").write_bytes(pickle.dumps(model))
        return path

    bare = pickle.dumps(Y.tolist(), 2)[2:-1]
    _changed("pkl", "bytes after STOP", pickled, lambda b: b + _BYTES)
    _changed("pkl", "an object that is taken from the stack", pickled, lambda b: b[:2] + bare + b"0" + b[2:])
    _changed(
        "pkl",
        "numbers of the memo",
        pickled,
        lambda b: b[:-1] + b"".join(b"r" + struct.pack("<I", int(a * 10)) for a in AGE) + b".",
    )

    inserted = {
        "lengths of frames": b"".join(b"\x95" + y.tobytes() for y in Y),
        "numbers of the protocol": b"".join(b"\x80" + bytes([int(a)]) for a in AGE),
        "names that nothing needs": b"".join(f"cmod\n{p}\n0".encode() for p in PATIENT),
        "zeros behind numbers": b"".join(b"F1." + b"0" * int(a) + b"\n0" for a in AGE),
        "ids of other objects": b"".join(f"P{p}\n0".encode() for p in PATIENT),
        "what stays on the stack": bare,
    }
    for name, more in inserted.items():
        _changed("pkl", name, pickled, lambda b, more=more: b[:2] + more + b[2:])
    titles = np.dtype([((p, f"f{k}"), "f4") for k, p in enumerate(PATIENT)])
    objects: dict[str, Any] = {
        "bits of NaN": _nans(AGE).tolist(), "bits of NaN in complex numbers": _nans(AGE) * 0 + 1j * _nans(AGE),
        "metadata of a type": np.zeros(2, np.dtype("f8", metadata={"rows": Y.tolist()})),
        "titles of fields": np.zeros(2, titles), "between the fields of records": _records(),
        "padding of long doubles": _long_doubles(), "truth values beyond 1": _truths(), "signs of zeros": _signs(),
        "shapes of empty arrays": [np.zeros((0, int(y * 10))) for y in Y],
        "values that fill masked arrays": [np.ma.array([1.0], fill_value=y) for y in Y],
        "ranges": [range(int(y * 10)) for y in Y], "values under a mask": np.ma.array(Y, mask=True),
    }  # fmt: skip
    for name, hidden in objects.items():

        def dump(folder: Path, hidden: Any = hidden) -> Path:
            (path := folder / "fit.pkl").write_bytes(pickle.dumps({**model, "limits": hidden}))
            return path

        PLACES.append(File(name, "malice", "pkl", dump))

    @_add("joblib", "bytes after the compressed stream")
    def _(folder: Path) -> Path:
        (path := folder / "fit.joblib").write_bytes(zlib.compress(pickle.dumps(model)) + _BYTES)
        return path


_in_hdf5()
_in_archives()
_in_texts()
_in_zarr()
_in_objects()
