"""A zarr folder as plain descriptions and arrays, after its metadata were checked.

It has the interface of `bayesrecon.untrusted.hdf5.HDF5File`. Metadata are checked as JSON and before a zarr library
reads them: they name the codecs that a library then runs, and one of them is `pickle`, which runs whatever its bytes
say. Only codecs that turn numbers and texts into bytes are let through. Other libraries must read the same names as
this module does, so texts that could be read in two ways are refused, too.
"""

import base64
import json
import math
import os
import struct
import warnings
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.json_file import no_repeats
from bayesrecon.untrusted.plain_values import ArrayReader, Found, Inventory, Key, plain_values, text_of
from bayesrecon.untrusted.size_limits import check_declared
from bayesrecon.untrusted.surplus import odd_json, size

if TYPE_CHECKING:
    import zarr


_DIMENSIONS = "_ARRAY_DIMENSIONS"  # where zarr 2 keeps their names, as xarray writes it
_NUMBERS, _TEXTS = "biufc", "OTUS"  # kinds of NumPy's types that are read as arrays of groups

_FREE_CHUNKS, _CHUNKS_A_FILE = 10_000, 10  # those that are not there are looked for all the same
_BYTES_A_CHUNK = 256  # of those within shards, which take zarr about 0.1 ms each


class ZarrFolder(ArrayReader):
    """An open folder.

    Raises:
        BayesreconError: what `check_folder` refuses.

    >>> import zarr
    >>> group = zarr.create_group("fit.zarr", path="posterior", zarr_format=2)
    >>> group["mu"] = np.array([[1.0, 2.0]])
    >>> folder = ZarrFolder(Path("fit.zarr"))
    >>> folder.describe()["contents"]["posterior"]["variables"]["mu"]["shape"]
    [1, 2]
    """

    def __init__(self, path: Path) -> None:
        self._path, self._declared = path, check_folder(path)
        import zarr

        with _files_beside():
            # Metadata that were gathered may be stale or absent; a folder on disk is quick to walk.
            self._root = zarr.open_group(str(path), mode="r", use_consolidated=False)
        self._arrays: dict[str, dict[str, zarr.Array[Any]]] = {}  # of groups that were looked at

    def close(self) -> None:
        """Do nothing: the file is opened for each call."""

    def check(self) -> None:
        """Raise an error if far more is declared than the folder holds. Each chunk takes time, even a missing one.

        Raises:
            BayesreconError: arrays or chunks beyond any measure.
        """
        found = self._declared
        check_declared(self._path, found.arrays, found.stored)
        if found.chunks > max(_FREE_CHUNKS, _CHUNKS_A_FILE * found.files):
            raise BayesreconError(f"{self._path}: declares {found.chunks:.1e} chunks in {found.files} files, refused")
        if found.inner > max(_FREE_CHUNKS, found.stored // _BYTES_A_CHUNK):
            raise BayesreconError(
                f"{self._path}: declares {found.inner:.1e} chunks within shards in {found.stored / 2**20:.1f} MiB, "
                "refused; save it anew with larger chunks"
            )

    def describe(self, groups: Sequence[str] | None = None) -> Json:
        """The contents of the folder, without the values (`HDF5File.describe`)."""
        with _files_beside():
            names = sorted(map(str, self._root.group_keys()))
            wanted = names if groups is None else [name for name in names if name in groups]
            contents = {name: self.describe_group(name) for name in wanted}
        return {"attributes": dict(self._root.attrs), "groups": names, "contents": contents}

    def describe_group(self, name: str) -> Json:
        """One group, as in `describe`; the root is "/"."""
        name = name.strip("/")
        with _files_beside():
            arrays = {key: item for key, item in sorted(self._arrays_of(name).items()) if is_readable(item.dtype)}
        variables = {key: _variable(f"{name}/{key}", item) for key, item in arrays.items()}
        return {"attributes": dict(self._group(name).attrs), "variables": variables}

    def _group(self, name: str) -> "zarr.Group":
        import zarr

        group = self._root[name] if name else self._root
        assert isinstance(group, zarr.Group)
        return group

    def _arrays_of(self, name: str) -> "dict[str, zarr.Array[Any]]":
        if name not in self._arrays:
            self._arrays[name] = dict(self._group(name).arrays())
        return self._arrays[name]

    def inventory(self) -> Inventory:
        """Everything that `describe` omits (`zarr_inventory`)."""
        with _files_beside():
            arrays = {name: self._arrays_of(name) for name in map(str, self._root.group_keys())}
            odd = {f"{g}/{key}" for g, items in arrays.items() for key, a in items.items() if not is_readable(a.dtype)}
            return zarr_inventory(self._path, odd)

    def read(self, name: str, key: Key) -> np.ndarray:
        """Values of the array with this name. Text is an array of objects."""
        with _files_beside():
            group, _, key_in_group = name.partition("/")
            item = self._arrays_of(group)[key_in_group]
            values = np.asarray(item[tuple(key)] if item.ndim else item[()])
        if values.dtype.kind not in "OT":
            return values
        texts = np.empty(values.shape, object)
        texts.ravel()[:] = [text_of(one) for one in values.ravel()]
        return texts


def is_readable(dtype: np.dtype) -> bool:
    """Whether an array contains numbers or texts."""
    return dtype.kind in _NUMBERS + _TEXTS


def _variable(name: str, item: "zarr.Array[Any]") -> Json:
    attributes: dict[str, object] = dict(item.attrs)
    fill = None
    named = getattr(item.metadata, "dimension_names", None)
    if item.metadata.zarr_format == 2:  # where what is filled in stands for missing values, as in netCDF
        named, fill = attributes.pop(_DIMENSIONS, None), item.fill_value
        attributes = {key: value for key, value in attributes.items() if not key.lower().startswith("_nc")}
    elif "_FillValue" in attributes:
        fill = _fill(attributes.pop("_FillValue"), item.dtype)
    if fill is not None and item.dtype.kind in _NUMBERS:
        attributes["_FillValue"] = np.asarray(fill, item.dtype)[()]
    named = named if isinstance(named, list | tuple) and len(named) == item.ndim else [None] * item.ndim
    return {
        "name": name,
        "shape": list(item.shape),
        "dtype": None if item.dtype.kind in "OT" else item.dtype.str,
        "dimensions": [str(one) if one else f"dim_{k}" for k, one in enumerate(named)],
        "attributes": attributes,
    }


def _fill(value: object, dtype: np.dtype) -> object:
    """A fill value as xarray writes it to zarr 3: eight bytes in base 64 for a float."""
    if dtype.kind == "f" and isinstance(value, str):
        return struct.unpack("<d", base64.standard_b64decode(value))[0]
    return value if dtype.kind in "biuf" and isinstance(value, bool | int | float) else None


@contextmanager
def _files_beside() -> Generator[None, None, None]:
    """Suppress warnings about files that are not part of zarr, since an audit lists them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Object at .* is not recognized")
        yield


_MOST_FILES, _MOST_BYTES = 200_000, 2**16
_KEYS = {
    "zarr_format", "node_type", "shape", "data_type", "dtype", "chunk_grid", "chunk_key_encoding", "fill_value",
    "codecs", "attributes", "dimension_names", "storage_transformers", "consolidated_metadata", "chunks", "compressor",
    "order", "filters", "dimension_separator", "metadata", "zarr_consolidated_format",
}  # fmt: skip

_CONSOLIDATED = {"kind": "inline", "must_understand": False}


def zarr_inventory(path: Path, odd: Collection[str] = ()) -> Inventory:
    """Arrays at the root and in nested groups, chunks that belong to no array, other files, and odd metadata.

    Args:
        odd: arrays of groups at the root that are told here all the same.

    Returns:
        `found`, a list of place, kind and values; and `unread`, a list of place and reason.
    """
    files = [p for p in sorted(path.rglob("*")) if p.is_file()]
    unread: list[tuple[str, str]] = []
    if len(files) > _MOST_FILES:
        unread.append((str(path.name), f"only the first {_MOST_FILES} of its {len(files)} files were looked at"))
        files = files[:_MOST_FILES]
    arrays: dict[str, Json] = {}
    groups: set[str] = set()
    found: list[Found] = []
    for file in files:
        if file.name not in _KNOWN:
            continue
        node = file.parent.relative_to(path).as_posix().removeprefix(".")
        content = file.read_bytes()
        document = json.loads(content, object_pairs_hook=no_repeats)
        odd_places = [(f"{node}/{file.name}: {where}", size(values)) for where, _, values in odd_json(content)]
        unread += [(where, f"{count} bytes that nothing in the file accounts for") for where, count in odd_places]
        found += _metadata(file, node, document)
        found += _beyond_zarr(file, node, document)
        if "shape" in document:
            arrays[node] = document
        elif file.name != ".zattrs":
            groups.add(node)
    stray = list(_stray(path, files, arrays))
    found += stray
    empty = [where for where, _, _ in stray if (path / where).is_dir()]
    unread += [(empty[0], f"{len(empty)} folders without a file")] if empty else []
    unread += [(w, f"{len(v)} bytes that nothing accounts for") for w, k, v in stray if k == "bytes"]  # type: ignore
    for node in sorted(groups):
        if node.count("/") >= 1:
            found.append((node, "name", node.rpartition("/")[2]))
    for node, document in arrays.items():
        beyond = list(_beyond_extent(path, node))
        found += beyond
        unread += [(where, f"{np.asarray(values).size} values that no reader shows") for where, _, values in beyond]
        if node.count("/") != 1 or node in odd:
            found += _array(path, node, document, unread)
    return {"found": found, "unread": unread}


def _metadata(file: Path, node: str, document: Json) -> Iterator[Found]:
    """Keys that zarr does not know, fill values, attributes that groups do not describe, and stale copies."""
    place = node or "the folder"
    if file.name == ".zattrs":
        own = document
        document = {}
    else:
        own = document.get("attributes") or {}
    for key in sorted(set(document) - _KEYS):
        yield f"@{place}@{key} ({file.name})", "attribute", document[key]
    fill = document.get("fill_value")
    if fill not in (None, 0, 0.0, False, "", "NaN", "Infinity", "-Infinity"):
        yield f"@{place}@fill_value", "attribute", fill
    if node.count("/") > 1 or ("shape" in document and "/" not in node):
        for key, value in own.items():
            if key != "_ARRAY_DIMENSIONS":
                yield f"@{place}@{key}", "attribute", value
    inner = document.get("consolidated_metadata")
    copies = document.get("metadata") if file.name == _ALL else inner.get("metadata") if inner else None
    for key, copied in (copies or {}).items():
        yield from _stale(file.parent, str(key), copied)


def _beyond_zarr(file: Path, node: str, document: Json) -> Iterator[Found]:
    """What metadata say beyond what zarr understands of them."""
    import zarr

    if "shape" in document:
        understood = zarr.open_array(str(file.parent), mode="r").metadata.to_dict()
    else:
        understood = {"zarr_format": document.get("zarr_format"), "node_type": "group"}
        inner = document.get("consolidated_metadata")
        understood |= {"consolidated_metadata": _CONSOLIDATED} if inner else {}
    own = {k: v for k, v in document.items() if k in _KEYS - {"attributes", "metadata", "zarr_consolidated_format"}}
    for path, value in _differences(own, json.loads(json.dumps(understood, default=str)) if file.name != _ALL else own):
        yield f"@{node or 'the folder'}@{path}", "attribute", value


def _differences(own: object, understood: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(own, dict):
        known = understood if isinstance(understood, dict) else {}
        for key, value in own.items():
            if key not in ("metadata", "fill_value") and value not in (None, [], {}):
                yield from _differences(value, known.get(key), f"{path}.{key}".lstrip("."))
    elif isinstance(own, list) and isinstance(understood, list | tuple) and len(own) == len(understood):
        for k, (one, other) in enumerate(zip(own, understood, strict=True)):
            yield from _differences(one, other, f"{path}.{k}")
    elif own != understood:
        yield path, own


def _beyond_extent(path: Path, node: str) -> Iterator[Found]:
    """Values in the last chunks of an array that lie beyond its extent, unless they are those that fill it."""
    import zarr

    array = zarr.open_array(str(path / node), mode="r")
    chunks = array.shards or array.chunks
    whole = tuple(-(-n // max(c, 1)) * c for n, c in zip(array.shape, chunks, strict=True))
    if whole == array.shape or array.dtype.hasobject or array.dtype.kind == "T":
        return
    inner = array.async_array if hasattr(array, "async_array") else array._async_array  # pyright: ignore[reportPrivateUsage]
    larger = replace(inner, metadata=replace(inner.metadata, shape=whole))
    values = np.asarray(zarr.Array(larger)[...])
    outside = np.ones(whole, bool)
    outside[tuple(map(slice, array.shape))] = False
    hidden = values[outside]
    fill = np.asarray(0 if array.fill_value is None else array.fill_value, hidden.dtype)
    if np.any((hidden != fill) & (hidden == hidden) & (hidden != 0)):
        yield f"{node} beyond its extent", "array", plain_values(hidden)


def _stale(folder: Path, key: str, copied: object) -> Iterator[Found]:
    """Copies of metadata that differ from the metadata of the nodes."""
    direct = folder / key
    source = direct if direct.is_file() else direct / _V3
    actual = json.loads(source.read_text(encoding="utf-8")) if source.is_file() else None
    if isinstance(copied, dict) and isinstance(actual, dict):
        for path, value in _differences(copied.get("consolidated_metadata"), _CONSOLIDATED):
            yield f"@{key}@{path} (copied metadata)", "attribute", value
        copied, actual = ({k: v for k, v in d.items() if k != "consolidated_metadata"} for d in (copied, actual))
    if copied != actual:
        yield f"@{key} (copied metadata)", "attribute", json.dumps(copied)


def _stray(path: Path, files: list[Path], arrays: dict[str, Json]) -> Iterator[Found]:
    taken = {parent for file in files for parent in file.parents}
    for folder in sorted(p for p in path.rglob("*") if p.is_dir() and p not in taken):
        yield folder.relative_to(path).as_posix(), "name", folder.name
    for file in files:
        if file.name in _KNOWN:
            continue
        inside = file.relative_to(path).as_posix()
        node = next((n for n in _parents(inside) if n in arrays), None)
        if node is None or not _is_chunk(inside[len(node) :].lstrip("/"), arrays[node]):
            with file.open("rb") as stream:
                yield inside, "name", file.name
                yield inside, "bytes", np.frombuffer(stream.read(_MOST_BYTES), np.uint8)


def _parents(inside: str) -> Iterator[str]:
    while "/" in inside:
        inside = inside.rpartition("/")[0]
        yield inside
    yield ""


def _is_chunk(key: str, document: Json) -> bool:
    """Whether a file is a chunk of the array."""
    grid = document.get("chunk_grid") or {}
    each = document.get("chunks") or (grid.get("configuration") or {}).get("chunk_shape") or document["shape"]
    counts = [-(-n // max(k, 1)) for n, k in zip(document["shape"], each, strict=True)]
    parts = key.removeprefix("c").lstrip("/").replace(".", "/").split("/")
    if not counts:
        return key in ("c", "0", "c/0")
    return len(parts) == len(counts) and all(
        p.isdecimal() and str(int(p)) == p and int(p) < n for p, n in zip(parts, counts, strict=True)
    )


def _array(path: Path, node: str, document: Json, unread: list[tuple[str, str]]) -> list[Found]:
    """An array outside the groups at the root, and its name."""
    import zarr

    name = node.rpartition("/")[2]
    try:
        values = np.asarray(zarr.open_array(str(path / node), mode="r")[...])
    except Exception as error:
        unread.append((node, f"its values do not read ({type(error).__name__})"))
        return [(node, "name", name)]
    named = [d for d in document.get("dimension_names") or () if d]
    return [
        (node, "name", name),
        *((node, "name", d) for d in named),
        (node, "array", plain_values(values)),
    ]


NUMBERS = frozenset(
    {"adler32", "astype", "bitround", "blosc", "bz2", "crc32", "crc32c", "delta", "fixedscaleoffset", "fletcher32"}
    | {"gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "quantize", "shuffle", "zlib", "zstd"}
)
TEXTS = frozenset({"vlen-utf8", "vlen-bytes", "json2"})
LAYOUT = frozenset({"bytes", "endian", "transpose", "sharding_indexed"})
CODECS = NUMBERS | TEXTS | LAYOUT
"""Codecs that decode bytes and do nothing else, by their names in zarr 2 and 3."""

_LARGEST = 2**26  # bytes of one file of metadata
_DEEPEST = 4  # shards within shards
_V2, _V3, _ALL = ".zarray", "zarr.json", ".zmetadata"
_KNOWN = {_V2, _V3, _ALL, ".zgroup", ".zattrs"}


@dataclass
class Declared:
    """Sizes that a folder's metadata declare, and its actual sizes.

    Attributes:
        arrays, chunks, inner: bytes in memory; files of chunks, whether they are there or not; chunks within shards.
        stored, files: bytes on disk, and files.
    """

    path: Path
    arrays: int = 0
    chunks: int = 0
    inner: int = 0
    stored: int = 0
    files: int = 0


def check_folder(path: Path) -> Declared:
    """Raise an error for a folder that could run code or that refers to other files.

    Args:
        path: the folder.

    Returns:
        what it declares, to be held against what it holds.

    Raises:
        BayesreconError: a codec that is not listed, a link out of the folder, or damaged metadata.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / ".zarray").write_text('{"shape": [9], "dtype": "|O", "filters": [{"id": "pickle"}]}')
    >>> check_folder(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: ...: the codec 'pickle' is not among those that are read, refused
    """
    found = Declared(path)
    for file in _files(path):
        found.stored += file.stat().st_size
        found.files += 1
        if file.name.lower() in _KNOWN:
            if file.name not in _KNOWN:
                raise BayesreconError(f"{file}: this is the name of metadata but for its capitals, refused")
            for node in _nodes(_parsed(file), file.name == _ALL, str(file)):
                _check_codecs(node, str(file))
                if file.name != _ALL:
                    _add_size(found, node, str(file))
    return found


def _files(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            entry = Path(folder, name)
            if entry.is_symlink() and not entry.resolve().is_relative_to(path.resolve()):
                raise BayesreconError(f"{path}: {entry.relative_to(path)} is a link out of the folder, refused")
        for name in names:
            entry = Path(folder, name)
            if not entry.is_file():
                raise BayesreconError(f"{path}: {entry.relative_to(path)} is not a plain file, refused")
            yield entry


def _parsed(file: Path) -> object:
    if file.stat().st_size > _LARGEST:
        raise BayesreconError(f"{file}: {file.stat().st_size / 2**20:.0f} MiB of metadata, refused")
    text = file.read_bytes().decode("utf-8")
    if "\0" in text or text.startswith("\ufeff"):  # libraries differ in what they take this for
        raise BayesreconError(f"{file}: metadata are plain UTF-8, refused")
    return json.loads(text, object_pairs_hook=no_repeats)


def _nodes(document: object, gathered: bool, where: str) -> Iterator[Json]:
    """Groups and arrays that a file of metadata describes: its own, and those that are copied into it."""
    if not isinstance(document, dict):
        raise BayesreconError(f"{where}: metadata are not a JSON object")
    yield document
    copies = [document.get("metadata")] if gathered else []
    if isinstance(inner := document.get("consolidated_metadata"), dict):
        copies.append(inner.get("metadata"))
    for each in copies:
        for key, node in each.items() if isinstance(each, dict) else ():
            if isinstance(node, dict) and not key.endswith(".zattrs"):
                yield from _nodes(node, False, where)


def _check_codecs(node: Json, where: str, depth: int = 0) -> None:
    if depth > _DEEPEST:
        raise BayesreconError(f"{where}: codecs within codecs within codecs, refused")
    listed = [c for key in ("codecs", "index_codecs", "filters") for c in _list(node.get(key), where)]
    listed += [node["compressor"]] if node.get("compressor") is not None else []
    if node.get("storage_transformers"):
        raise BayesreconError(f"{where}: storage transformers are not read, refused")
    for codec in listed:
        if isinstance(codec, str):  # zarr 3 allows a bare name
            codec = {"name": codec}
        if not isinstance(codec, dict):
            raise BayesreconError(f"{where}: a codec is not a JSON object")
        inner = codec.get("configuration")
        inner = inner if isinstance(inner, dict) else {}
        for name in [str(codec[key]) for key in ("id", "name") if key in codec] or [""]:
            for each in (name, str(inner.get("id", name))):
                if each.removeprefix("numcodecs.") not in CODECS:
                    raise BayesreconError(f"{where}: the codec {each[:40]!r} is not among those that are read, refused")
        _check_codecs(inner, where, depth + 1)


def _list(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise BayesreconError(f"{where}: codecs are not a list")
    return value


def _add_size(found: Declared, node: Json, where: str) -> None:
    """Bytes in memory, where numbers take eight bytes or more and one chunk is unpacked as a whole; and chunks."""
    if "shape" not in node:
        return
    grid = node.get("chunk_grid")
    inner = grid.get("configuration") if isinstance(grid, dict) else None
    shape = _sizes(node["shape"], where)
    each = node["chunks"] if "chunks" in node else inner.get("chunk_shape") if isinstance(inner, dict) else None
    each = shape if each is None else _sizes(each, where)
    pieces = _pieces(shape, each, where)
    found.arrays += (math.prod(shape) + math.prod(each)) * _width(node.get("dtype", node.get("data_type")))
    found.chunks += pieces
    for within in _shards(node.get("codecs")):
        smaller = _sizes(within, where)
        pieces *= _pieces(each, smaller, where)
        found.inner += pieces
        each = smaller


def _sizes(value: object, where: str) -> list[int]:
    if not isinstance(value, list) or not all(type(n) is int and n >= 0 for n in value):
        raise BayesreconError(f"{where}: a shape is not a list of sizes")
    return value


def _pieces(shape: list[int], each: list[int], where: str) -> int:
    if len(each) != len(shape) or (0 in each and 0 not in shape):
        raise BayesreconError(f"{where}: chunks of {str(each)[:80]} do not make up an array of {str(shape)[:80]}")
    return math.prod(-(-n // max(k, 1)) for n, k in zip(shape, each, strict=True))


def _shards(codecs: object) -> Iterator[object]:
    """Shapes of the chunks within shards, and of those within these."""
    for codec in codecs if isinstance(codecs, list) else ():
        inner = codec.get("configuration") if isinstance(codec, dict) else None
        if isinstance(inner, dict) and "chunk_shape" in inner:
            yield inner["chunk_shape"]
            yield from _shards(inner.get("codecs"))


def _width(kind: object) -> int:
    """Bytes of one value, at least those of a number as it is kept here."""
    if isinstance(kind, dict):  # zarr 3: {"name": ..., "configuration": {"length_bytes": ...}}
        inner = kind.get("configuration")
        length = inner.get("length_bytes") if isinstance(inner, dict) else None
        return max(8, length) if type(length) is int else 8
    if isinstance(kind, str) and kind[:1] == "r" and kind[1:].isdecimal():  # zarr 3: so many raw bits
        return max(8, int(kind[1:]) // 8)
    try:
        return max(8, np.dtype(kind).itemsize) if isinstance(kind, str) else 8
    except (TypeError, ValueError, OverflowError, SyntaxError):
        return 8
