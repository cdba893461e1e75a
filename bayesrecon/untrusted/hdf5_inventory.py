"""The inventory of an HDF5 file: everything besides the arrays and attributes of the groups at the root.

It lists arrays at the root, nested groups, tables of records, texts and bytes of other types, named types, links, names
of dimensions, attributes of the format itself with unusual values, a block before the file, and bytes after its end.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.untrusted.hdf5_leftovers import leftovers
from bayesrecon.untrusted.plain_values import (
    Found,
    Inventory,
    differing,
    may_have_unused_bytes,
    plain_values,
    text_of,
    unused_bytes,
)

if TYPE_CHECKING:
    import h5py

MOST_VALUES = 2**21
"""Values that are read of one thing."""

_MOST_THINGS, _MOST_BYTES = 20_000, 2**16
_HEAD, _SUPERBLOCK = b"\x89HDF\r\n\x1a\n", 512
_END = {0: 40, 1: 44, 2: 28, 3: 28}  # where a superblock of each version says at which byte the file ends
_FORMAT = {"CLASS": {b"DIMENSION_SCALE"}, "_nc3_strict": None, "DIMENSION_LIST": None, "REFERENCE_LIST": None}


def inventory(file: "h5py.File", path: Path) -> Inventory:
    """Everything that `HDF5File.describe` omits.

    Returns:
        `found`, a list of place, kind and values; and `unread`, a list of place and reason.
    """
    items: list[Found] = []
    unread: list[tuple[str, str]] = []
    for thing in _things(file, unread):
        if len(items) >= _MOST_THINGS:
            unread.append(("the file", f"more than {_MOST_THINGS} things besides its arrays"))
            break
        items.append(thing)
    rest, around = leftovers(file, path), list(_around(path))
    for name, sizes in _layouts(file).items():
        differ = differing(name, sizes)
        items, unread = items + differ["found"], unread + differ["unread"]
    unread += [(where, f"{len(values)} bytes that nothing in it accounts for") for where, _, values in around]
    return {"found": [*items, *rest["found"], *around], "unread": [*unread, *rest["unread"]]}


def _things(file: "h5py.File", unread: list[tuple[str, str]]) -> Iterator[Found]:
    import h5py

    yield from _format_attributes(file, "the file")
    waiting: list[tuple[h5py.Group, str, int]] = [(file, "", 0)]
    seen = {_address(file)}
    while waiting:
        group, place, depth = waiting.pop()
        for key in group:
            where = f"{place}/{key}".lstrip("/")
            link = group.get(key, getlink=True)
            if isinstance(link, h5py.SoftLink):
                yield where, "name", key
                yield where, "text", link.path
                continue
            try:
                item = group[key]
            except Exception as error:
                unread.append((where, f"it does not open ({type(error).__name__})"))
                continue
            if isinstance(item, h5py.Datatype):
                yield where, "name", key
                yield where, "text", _type_text(item)
                yield from _all_attributes(item, where)
            elif isinstance(item, h5py.Group):
                address = _address(item)
                if address not in seen:
                    seen.add(address)
                    waiting.append((item, where, depth + 1))
                yield where, "name", key
                yield from _format_attributes(item, where)
                if depth:
                    yield from _all_attributes(item, where)
            else:
                yield from _dataset(item, where, depth, unread)


def _layouts(file: "h5py.File") -> dict[str, list[tuple[object, ...]]]:
    """Sizes and settings of arrays that their readers do not need."""
    import h5py

    found: dict[str, list[tuple[object, ...]]] = defaultdict(list)

    def visit(_: str, item: "h5py.HLObject") -> None:
        if not isinstance(item, h5py.Dataset) or item.shape is None:
            return
        plist = item.id.get_create_plist()
        for k in range(plist.get_nfilters()):
            kind, _, options, _ = plist.get_filter(k)
            found["options of filters"].append((kind, *options))
        if not item.size:
            found["shapes of empty arrays"].append(item.shape)
        if any(most not in (None, size) for most, size in zip(item.maxshape, item.shape, strict=True)):
            found["largest shapes of arrays"].append(item.maxshape)
        if any(chunk > max(size, 1) for chunk, size in zip(item.chunks or (), item.shape, strict=False)):
            found["shapes of chunks"].append(item.chunks)
        if item.dtype.kind in "biuf" and plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
            found["values that fill arrays"].append((item.fillvalue.item(),) if item.fillvalue else ())

    file.visititems(visit)
    return found


def _address(item: "h5py.HLObject") -> int:
    import h5py

    return h5py.h5o.get_info(item.id).addr  # pyright: ignore[reportAttributeAccessIssue]


def _dataset(item: "h5py.Dataset", where: str, depth: int, unread: list[tuple[str, str]]) -> Iterator[Found]:
    yield from _format_attributes(item, where)
    yield from _names_of_type(item, where)
    bare = _is_bare_dimension(item)
    if bare and item.shape is not None and item.size and item.id.get_storage_size():
        yield where, "array", _values(item, where, unread)
    if depth == 1 and not _is_undescribed(item):
        if may_have_unused_bytes(item.dtype):
            _values(item, where, unread)
        return
    if bare and depth == 0:
        yield where, "name", where
        return
    if depth != 1:
        yield where, "name", where.rpartition("/")[2]
        yield from _all_attributes(item, where)
    if item.shape is not None:
        yield where, "array", _values(item, where, unread)
    elif depth == 1:
        yield where, "name", where.rpartition("/")[2]


def _is_bare_dimension(item: "h5py.HLObject") -> bool:
    name = item.attrs.get("NAME", b"")
    return isinstance(name, bytes) and name.startswith(b"This is a netCDF dimension but not a netCDF variable")


def _is_undescribed(item: "h5py.Dataset") -> bool:
    """Whether an item is not a plain array of numbers or texts, so that readers omit it."""
    import h5py

    return item.shape is None or not (item.dtype.kind in "biufcSU" or h5py.check_string_dtype(item.dtype) is not None)


def _names_of_type(item: "h5py.Dataset", where: str) -> Iterator[Found]:
    """Names in a type: fields of a table, members of an enumeration, the tag of an opaque type."""
    import h5py

    dtype = item.dtype
    for field in dtype.names or ():
        yield f"{where}.{field}", "name", field
    if (members := h5py.check_enum_dtype(dtype)) is not None and set(members) != {"FALSE", "TRUE"}:
        yield f"{where} (names of values)", "labels", np.array([f"{k}={v}" for k, v in members.items()])
    kind = item.id.get_type()
    if kind.get_class() == h5py.h5t.OPAQUE:
        yield f"{where} (tag)", "text", kind.get_tag().decode("utf-8", "backslashreplace")


def _type_text(item: "h5py.Datatype") -> str:
    import h5py

    members = h5py.check_enum_dtype(item.dtype)
    return ", ".join(f"{k}={v}" for k, v in members.items()) if members else str(item.dtype)


def _values(item: "h5py.Dataset", where: str, unread: list[tuple[str, str]]) -> np.ndarray:
    """Values as a flat array of numbers or texts; only the first ones of an array that is too large."""
    size = int(item.size or 0)
    if size > MOST_VALUES:
        unread.append((where, f"only the first of its {size} values were looked at"))
    try:
        if item.ndim and size > MOST_VALUES:
            rows = max(1, MOST_VALUES // max(1, size // len(item)))
            content = item[:rows]
        else:
            content = item[()]
    except Exception as error:
        unread.append((where, f"its values do not read ({type(error).__name__})"))
        return np.zeros(0)
    if (unused := unused_bytes(np.asarray(content))).size:
        unread.append((where, f"{unused.size} bytes of its array are in no value"))
    return plain_values(content)


def _all_attributes(item: "h5py.HLObject", where: str) -> Iterator[Found]:
    """Attributes of items that the reader of groups does not describe."""
    for key in item.attrs:
        if not _is_of_format(key):
            yield f"@{where}@{key}", "attribute", _attribute(item, key)


def _is_of_format(key: str) -> bool:
    return key in {*_FORMAT, "NAME", "_NCProperties"} or key.startswith(("_Netcdf4", "_nc4_"))


def _format_attributes(item: "h5py.HLObject", where: str) -> Iterator[Found]:
    """Attributes of the format itself, if their values are not those that the format writes."""
    import h5py

    for key in item.attrs:
        kind = item.attrs.get_id(key).get_type().get_class()
        if key in ("DIMENSION_LIST", "REFERENCE_LIST"):
            ordinary = kind in (h5py.h5t.VLEN, h5py.h5t.COMPOUND)
        elif key == "CLASS":
            ordinary = item.attrs[key] in (b"DIMENSION_SCALE", "DIMENSION_SCALE")
        elif key == "NAME":
            text, item_name = text_of(item.attrs[key]), (item.name or "").rpartition("/")[2]
            ordinary = text in (item_name, item_name.removeprefix("_nc4_non_coord_"), "") or _is_bare_dimension(item)
        elif key == "_NCProperties":
            yield f"@{where}@{key}", "attribute", _attribute(item, key)
            continue
        elif key.startswith("_Netcdf4"):
            value = np.asarray(item.attrs[key])
            most = 64 if "Dimid" in key or "Coordinates" in key else 1
            ordinary = value.dtype.kind in "iu" and value.size <= most and bool((value < _MOST_THINGS).all())
        elif key.startswith("_nc4_") or key == "_nc3_strict":
            ordinary = np.asarray(item.attrs[key]).size <= 1 and np.asarray(item.attrs[key]).dtype.kind in "iu"
        else:
            continue
        if not ordinary:
            yield f"@{where}@{key}", "attribute", _attribute(item, key)


def _attribute(item: "h5py.HLObject", key: str) -> object:
    import h5py

    value = item.attrs[key]
    if isinstance(value, h5py.Empty):
        return ""
    return text_of(value) if isinstance(value, bytes | str) else plain_values(value)


def _around(path: Path) -> Iterator[tuple[str, str, np.ndarray]]:
    """Bytes before the beginning of the file and after its end, which HDF5 ignores."""
    size = path.stat().st_size
    with path.open("rb") as stream:
        start = 0
        while start < size and stream.read(len(_HEAD)) != _HEAD:
            start = max(_SUPERBLOCK, 2 * start)
            stream.seek(start)
        if start:
            stream.seek(0)
            yield "bytes before the file", "bytes", np.frombuffer(stream.read(min(start, _MOST_BYTES)), np.uint8)
        stream.seek(start)
        head = stream.read(64)
        at = _END.get(head[8], 0) if len(head) == 64 else 0
        end = int.from_bytes(head[at : at + 8], "little") if at else 0
        end = max(end, start + end) if start else end
        if at and end < size:
            stream.seek(end)
            trailing = stream.read(_MOST_BYTES)
            if trailing.strip(b"\0"):
                yield "bytes after the file's end", "bytes", np.frombuffer(trailing, np.uint8)
