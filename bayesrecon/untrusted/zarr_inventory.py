"""The inventory of a zarr folder besides the arrays and attributes of its groups, including other files."""

import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.untrusted.plain_json import no_repeats
from bayesrecon.untrusted.plain_values import Found, Inventory, plain_values
from bayesrecon.untrusted.surplus import odd_json, size

_V2, _V3, _ALL = ".zarray", "zarr.json", ".zmetadata"
_KNOWN = {_V2, _V3, _ALL, ".zgroup", ".zattrs"}
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
