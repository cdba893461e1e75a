"""Checks of the metadata of a zarr folder, as JSON and before a zarr library reads them.

Metadata name the codecs that a library then runs, and one of them is `pickle`, which runs whatever its bytes say.
Only codecs that turn numbers and texts into bytes are let through. Other libraries must read the same names as this
module does, so texts that could be read in two ways are refused, too.
"""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.plain_json import no_repeats

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
