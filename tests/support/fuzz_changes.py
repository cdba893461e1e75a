"""What a stranger may make of a good file, byte by byte or in ways that the libraries of its format find sound."""

import contextlib
import io
import json
import warnings
import zipfile
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Rng = np.random.Generator
LONG = 2**16  # bytes of a mutated file
TOKENS = (
    b"0", b"-1", b"1e400", b"nan", b"999999999999", b'"', b"{", b"[", b"\\u202e", b"\0", b"\xff", b",", b"\n", b"# ",
)  # fmt: skip
CELLS = (
    '"', '""', '"a\nb"', '"a,b"', "1e400", "nan", "", "=1+1", "\r", "\u202e", "1,2", "-", "9" * 400, "\0", "é", "#",
)  # fmt: skip
ODD = (
    None, True, [], {}, [[]], [1, [2, 3]], [[1, 2], [3]], {"a": 1}, -1, 0, 10**6, 10**400, 1e308, "", "x", "é\u202e",
    "|O", "|S9", ">f8", "float64", "vlen-utf8", "string", "NaN", [10**9, 10**9], [0, 0], [1, 1], [-1], ["chain"],
    {"id": "pickle"}, {"name": "gzip"}, {"name": "numcodecs.zlib"}, {"id": "vlen-bytes"}, {"id": "json2"}, "r64",
    {"name": "datetime64"},
)  # fmt: skip


def mutated(content: bytes, rng: Rng) -> bytes:
    """Some bytes flipped, cut, repeated, moved or replaced by what parsers stumble over."""
    found = bytearray(content)
    for _ in range(rng.geometric(0.6)):
        at, size = int(rng.integers(len(found) + 1)), int(rng.geometric(0.1))
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


def bytes_of(path: Path, rng: Rng) -> None:
    """Bytes of one of its files are changed."""
    parts = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    part = parts[rng.integers(len(parts))]
    part.write_bytes(mutated(part.read_bytes(), rng))


def words_of(path: Path, rng: Rng) -> None:
    """Counts, lengths, types and places in the header of a file that is made of big-endian words."""
    content = bytearray(path.read_bytes())
    for _ in range(rng.integers(1, 4)):
        at = 4 * int(rng.integers(min(len(content) // 4, 250)))
        whole = int.from_bytes(content[at : at + 4])
        new = (0, 1, whole + 1, whole * 2, 2**31, 2**32 - 1, len(content), int(rng.integers(13)))[rng.integers(8)]
        content[at : at + 4] = (new % 2**32).to_bytes(4)
    path.write_bytes(content)


def odd_json(content: Any, rng: Rng) -> Any:
    """A document with something else in one or two places."""
    for _ in range(rng.integers(1, 3)):
        holders: list[Any] = []
        waiting = [content]
        while waiting:
            one = waiting.pop()
            if isinstance(one, dict | list) and one:
                holders.append(one)
                waiting += one.values() if isinstance(one, dict) else one[:3]
        if not holders:
            return content
        holder = holders[rng.integers(len(holders))]
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key, value = keys[rng.integers(len(keys))], deepcopy(ODD[rng.integers(len(ODD))])
        match rng.integers(4):
            case 0 if isinstance(holder, dict):
                holder[str(ODD[rng.integers(len(ODD))])[:9]] = holder.pop(key)
            case 1:
                del holder[key]
            case _:
                holder[key] = value
    return content


def json_of(path: Path, rng: Rng) -> None:
    """A value, a key or a length of one of its JSON files is changed."""
    parts = sorted(p for p in path.rglob("*") if p.name[:2] == ".z" or p.suffix == ".json") if path.is_dir() else [path]
    part = parts[rng.integers(len(parts))]
    text = json.dumps(odd_json(json.loads(part.read_text(encoding="utf-8")), rng))
    if rng.random() < 0.1:
        text = text.replace("}", ', "a": 1, "a": 2}', 1)
    part.write_text(text, encoding="utf-8")


def either(*changes: Callable[[Path, Rng], None]) -> Callable[[Path, Rng], None]:
    """One of them."""
    return lambda path, rng: changes[rng.integers(len(changes))](path, rng)


def cells_of(path: Path, rng: Rng) -> None:
    """Cells of a table, and what separates them."""
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").split("\n")]
    for _ in range(rng.geometric(0.5)):
        line = lines[int(rng.integers(len(lines))) if rng.random() < 0.7 else 0]
        cell = CELLS[rng.integers(len(CELLS))]
        match rng.integers(4):
            case 0:
                line.insert(int(rng.integers(len(line) + 1)), cell)
            case 1 if line:
                del line[rng.integers(len(line))]
            case _ if line:
                at = rng.integers(len(line))
                line[at] = cell if rng.random() < 0.7 else line[at] + cell
    path.write_text("\n".join(",".join(line) for line in lines), encoding="utf-8", newline="")


def members_of(path: Path, rng: Rng) -> None:
    """One member of an archive is changed, and packed again."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    name = list(content)[rng.integers(len(content))]
    how = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)[rng.integers(4)]
    array = io.BytesIO(content[name])
    if name == "__bayesrecon__.npy" and rng.random() < 0.7:
        about = odd_json(json.loads(str(np.load(array))), rng)
        array = io.BytesIO()
        np.save(array, np.array(json.dumps(about)))
        content[name] = array.getvalue()
    else:
        content[name] = mutated(content[name], rng)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", how) as archive:
        warnings.simplefilter("ignore")
        for key, value in content.items():
            archive.writestr(key if rng.random() < 0.95 else f"{key}/../x", value)


def odd_types() -> list[Any]:
    """Types that draws do not have: tables, lists, enumerations, opaque and fixed texts."""
    table = np.dtype([("name", h5py.string_dtype()), ("age", "f8"), ("at", "i4", (2,))])
    return [
        table, np.dtype([("a", "f4"), ("b", "S5")]), h5py.vlen_dtype("f8"), h5py.vlen_dtype("i2"), h5py.string_dtype(),
        h5py.enum_dtype({"no": 0, "yes": 1}), h5py.opaque_dtype("M8[s]"), "V16", "S3", "?", "c16", ">f8", "f2", "u1",
        h5py.regionref_dtype, h5py.ref_dtype,
    ]  # fmt: skip


def hdf5_of(path: Path, rng: Rng) -> None:
    """Arrays of other types and shapes, groups, attributes and links come into a good file, and some bytes change."""
    kinds = odd_types()
    groups = ("posterior", "observed_data", "log_likelihood", "prior", "x", "/", "posterior/inner", "sample_stats")
    names = ("beta", "mu", "chain", "draw", "lp", "é", "a b", "\u202e", "log_lik", "y")
    with h5py.File(path, "a") as file:
        for _ in range(rng.integers(1, 4)):
            group = file.require_group(groups[rng.integers(len(groups))])
            name, kind = names[rng.integers(len(names))], kinds[rng.integers(len(kinds))]
            shape = tuple(int(n) for n in rng.integers(0, 5, size=rng.integers(0, 4)))
            # Whatever HDF5 does not take: the file stays as it was.
            with contextlib.suppress(TypeError, ValueError, OSError, RuntimeError, KeyError):
                if rng.random() < 0.5 and name in group:
                    del group[name]
                match rng.integers(5):
                    case 0:
                        group[name] = h5py.SoftLink("/posterior" if rng.random() < 0.5 else "/nowhere")
                    case 1:
                        item = group.get(name, group)
                        key = ("units", "scale_factor", "_FillValue", "coordinates", "CLASS", "NAME", "DIMENSION_LIST")
                        item.attrs[key[rng.integers(7)]] = ("x", 2.5, [1.5, 2.5], h5py.Empty("f8"), 10)[rng.integers(5)]
                    case _:
                        chunks = True if shape and all(shape) and rng.random() < 0.3 else None
                        item = group.create_dataset(name, shape, kind, chunks=chunks)
                        if shape == (2, 30) or rng.random() < 0.3:
                            item.make_scale(name)
    if rng.random() < 0.4:
        path.write_bytes(mutated(path.read_bytes(), rng))
