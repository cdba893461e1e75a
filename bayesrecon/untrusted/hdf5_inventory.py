"""The inventory of an HDF5 file: everything besides the arrays and attributes of the groups at the root.

It lists arrays at the root, nested groups, tables of records, texts and bytes of other types, named types, links, names
of dimensions, attributes of the format itself with unusual values, a block before the file, and bytes after its end.
"""

import os
import re
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.temporary import locked_file
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


Members = dict[int, "dict[str, h5py.HLObject | h5py.SoftLink]"]
"""What is in each group, by the address of the group and by name: opened once, because that takes long."""


def opened_item(group: "h5py.Group", name: bytes) -> "h5py.HLObject":
    """An item of a group. `group[name]` would also open the file anew."""
    import h5py

    found = h5py.h5o.open(group.id, name)  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(found, h5py.h5d.DatasetID):
        return h5py.Dataset(found, readonly=True)
    return h5py.Group(found) if isinstance(found, h5py.h5g.GroupID) else h5py.Datatype(found)


def inventory(file: "h5py.File", path: Path, members: Members) -> Inventory:
    """Everything that `HDF5File.describe` omits.

    Args:
        file, path: the file.
        members: what is in its groups.

    Returns:
        `found`, a list of place, kind and values; and `unread`, a list of place and reason.
    """
    items: list[Found] = []
    unread: list[tuple[str, str]] = []
    for thing in _things(file, members, unread):
        if len(items) >= _MOST_THINGS:
            unread.append(("the file", f"more than {_MOST_THINGS} things besides its arrays"))
            break
        items.append(thing)
    arrays = _arrays(item for items in members.values() for item in items.values())
    rest, around = _leftovers(file, arrays, path), list(_around(path))
    for name, sizes in _layouts(arrays).items():
        differ = differing(name, sizes)
        items, unread = items + differ["found"], unread + differ["unread"]
    unread += [(where, f"{len(values)} bytes that nothing in it accounts for") for where, _, values in around]
    return {"found": [*items, *rest["found"], *around], "unread": [*unread, *rest["unread"]]}


def _things(file: "h5py.File", members: Members, unread: list[tuple[str, str]]) -> Iterator[Found]:
    import h5py

    yield from _format_attributes(file, "the file")
    waiting: list[tuple[h5py.Group, str, int]] = [(file, "", 0)]
    seen = {address(file)}
    while waiting:
        group, place, depth = waiting.pop()
        for key, item in members[address(group)].items():
            where = f"{place}/{key}".lstrip("/")
            if isinstance(item, h5py.SoftLink):
                yield where, "name", key
                yield where, "text", item.path
            elif isinstance(item, h5py.Datatype):
                yield where, "name", key
                yield where, "text", _type_text(item)
                yield from _all_attributes(item, where)
            elif isinstance(item, h5py.Group):
                if (place_of := address(item)) not in seen:
                    seen.add(place_of)
                    waiting.append((item, where, depth + 1))
                yield where, "name", key
                yield from _format_attributes(item, where)
                if depth:
                    yield from _all_attributes(item, where)
            elif isinstance(item, h5py.Dataset):
                yield from _dataset(item, where, depth, unread)


def _arrays(items: "Iterable[h5py.HLObject | h5py.SoftLink]") -> "list[h5py.Dataset]":
    """All arrays that have values, each once."""
    import h5py

    arrays = {address(item): item for item in items if isinstance(item, h5py.Dataset) and item.shape is not None}
    return list(arrays.values())


def _layouts(arrays: "Sequence[h5py.Dataset]") -> dict[str, list[tuple[object, ...]]]:
    """Sizes and settings of arrays that their readers do not need."""
    import h5py

    found: dict[str, list[tuple[object, ...]]] = defaultdict(list)
    for item in arrays:
        plist = item.id.get_create_plist()
        for k in range(plist.get_nfilters()):
            kind, _, options, _ = plist.get_filter(k)
            found["options of filters"].append((kind, *options))
        if not item.size:
            found["shapes of empty arrays"].append(item.shape)
        shape: tuple[int, ...] = item.shape
        largest: tuple[object, ...] = item.maxshape or ()
        if any(most not in (None, size) for most, size in zip(largest, shape, strict=False)):
            found["largest shapes of arrays"].append(largest)
        chunks: tuple[int, ...] = plist.get_chunk() if plist.get_layout() == h5py.h5d.CHUNKED else ()
        if any(chunk > max(size, 1) for chunk, size in zip(chunks, shape, strict=False)):
            found["shapes of chunks"].append(chunks)
        if item.dtype.kind in "biuf" and plist.fill_value_defined() == h5py.h5d.FILL_VALUE_USER_DEFINED:
            fill = item.fillvalue
            found["values that fill arrays"].append((fill.item(),) if fill else ())
    return found


def address(item: "h5py.HLObject") -> int:
    """Where an item lies in its file."""
    import h5py

    return h5py.h5o.get_info(item.id).addr  # pyright: ignore[reportAttributeAccessIssue]


def _dataset(item: "h5py.Dataset", where: str, depth: int, unread: list[tuple[str, str]]) -> Iterator[Found]:
    yield from _format_attributes(item, where)
    yield from _names_of_type(item, where)
    bare = is_bare_dimension(item)
    if bare and item.shape is not None and item.size and item.id.get_storage_size():
        yield where, "array", _values(item, where, unread)
    if depth == 1 and is_readable(item):
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


def is_bare_dimension(item: "h5py.HLObject") -> bool:
    """Whether an array only stands for a dimension of netCDF-4."""
    if "NAME" not in (attributes := item.attrs):  # `get` takes longer
        return False
    name = attributes["NAME"]
    return isinstance(name, bytes) and name.startswith(b"This is a netCDF dimension but not a netCDF variable")


def is_readable(item: "h5py.Dataset") -> bool:
    """Whether an item is an array of numbers or texts, which readers describe."""
    import h5py

    return item.shape is not None and (item.dtype.kind in "biufcSU" or h5py.check_string_dtype(item.dtype) is not None)


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
        if not is_of_format(key):
            yield f"@{where}@{key}", "attribute", _attribute(item, key)


def is_of_format(key: str) -> bool:
    """Whether an attribute is one that dimension scales of HDF5 and netCDF-4 use internally."""
    return key in {*_FORMAT, "NAME", "_NCProperties"} or key.startswith(("_Netcdf4", "_nc4_"))


def _format_attributes(item: "h5py.HLObject", where: str) -> Iterator[Found]:
    """Attributes of the format itself, if their values are not those that the format writes."""
    import h5py

    attributes = item.attrs
    for key in attributes:
        if key in ("DIMENSION_LIST", "REFERENCE_LIST"):
            ordinary = attributes.get_id(key).get_type().get_class() in (h5py.h5t.VLEN, h5py.h5t.COMPOUND)
        elif key == "CLASS":
            ordinary = attributes[key] in (b"DIMENSION_SCALE", "DIMENSION_SCALE")
        elif key == "NAME":
            text, item_name = text_of(attributes[key]), (item.name or "").rpartition("/")[2]
            ordinary = text in (item_name, item_name.removeprefix("_nc4_non_coord_"), "") or is_bare_dimension(item)
        elif key == "_NCProperties":
            yield f"@{where}@{key}", "attribute", _attribute(item, key)
            continue
        elif key.startswith("_Netcdf4"):
            value = np.asarray(attributes[key])
            most = 64 if "Dimid" in key or "Coordinates" in key else 1
            ordinary = value.dtype.kind in "iu" and value.size <= most and bool((value < _MOST_THINGS).all())
        elif key.startswith("_nc4_") or key == "_nc3_strict":
            value = np.asarray(attributes[key])
            ordinary = value.size <= 1 and value.dtype.kind in "iu"
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


_WINDOW = 5
"""Bytes that are looked for together."""

_FEWEST = 12
"""Fewest unknown bytes in a row, zeros aside: checksums have four, addresses up to four, and they are neighbours."""

_SIGNATURES = re.compile(
    rb"OHDR|OCHK|TREE|HEAP|SNOD|GCOL|FRHP|FHDB|FHIB|BTHD|BTLF|BTIN|FSHD|FSSE|FADB|FAHD|EAHD|EAIB|EADB|EASB"
)
_NAMES = b"DIMENSION_LIST REFERENCE_LIST dataset dimension"
"""What the format itself writes, and a copy without references lacks."""

_LARGE = 2**24
"""Bytes of arrays whose values are not copied."""

_TEXT = re.compile(rb"[ -~\t\n]{12,}")
_MOST_GAPS, _MOST_FOUND, _MOST_STREAMS = 2**26, 20, 2000
_RUN, _LEAST, _LARGEST = 8, 1e-6, 1e9  # numbers in a row, and their sizes
_STREAMS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def _leftovers(file: "h5py.File", arrays: "Sequence[h5py.Dataset]", path: Path) -> Inventory:
    """Bytes of nothing, among them comments of objects, and values of chunks beyond the extent of their arrays."""
    found, unread = list(_beyond(arrays)), []
    for where, _, values in found[:]:
        unread.append((where, f"{np.asarray(values).size} values that no reader shows"))
    runs = _unknown(file, arrays, path)
    if runs:
        count = sum(map(len, runs))
        unread.append(("the file", f"{count} bytes that nothing in it accounts for, as of what was deleted"))
    for k, run in enumerate(runs[:_MOST_FOUND], 1):
        where = f"bytes of nothing in the file ({k})"
        found.append((where, "bytes", np.frombuffer(run, np.uint8)))
        texts = [text.decode("ascii") for text in _TEXT.findall(run)]
        found += [(f"{where}, as text", "text", text) for text in texts if len(text) < len(run)]
        numbers = [*_numbers(np.frombuffer(run, np.uint8)), *_unpacked(run)]
        found += [(f"{where}, as numbers", "array", values) for values in numbers]
    return {"found": found, "unread": unread}


def _beyond(arrays: "Sequence[h5py.Dataset]") -> Iterator[Found]:
    """Values that the last chunks of an array hold beyond its extent, unless they are those that fill it."""
    import h5py

    with h5py.File(f"{id(arrays)}", "w", driver="core", backing_store=False) as scratch:
        for item in arrays:
            if item.chunks is None or item.dtype.hasobject:
                continue
            taken = []
            for k in range(item.id.get_num_chunks()):
                at = item.id.get_chunk_info(k).chunk_offset
                inside = tuple(slice(0, max(n - a, 0)) for n, a in zip(item.shape, at, strict=True))
                if any(s.stop < c for s, c in zip(inside, item.chunks, strict=True)):
                    taken += _edge(item, scratch, at, inside)
            if taken:
                yield f"{item.name} beyond its extent", "array", plain_values(np.concatenate(taken))


def _edge(
    item: "h5py.Dataset", scratch: "h5py.File", at: tuple[int, ...], inside: tuple[slice, ...]
) -> list[np.ndarray]:
    import h5py

    mask, raw = item.id.read_direct_chunk(at)
    plist = item.id.get_create_plist()
    space = h5py.h5s.create_simple(item.chunks)
    copy = h5py.h5d.create(scratch.id, None, item.id.get_type(), space, plist)
    copy.write_direct_chunk((0,) * item.ndim, raw, mask)
    values = h5py.Dataset(copy)[()]
    outside = np.ones(values.shape, bool)
    outside[inside] = False
    hidden = values[outside]
    same = hidden == item.fillvalue if hidden.dtype.names is None else hidden == np.asarray(item.fillvalue)
    empty = np.frombuffer(hidden.tobytes(), np.uint8).any()
    return [hidden] if empty and not np.all(same | ((hidden != hidden) & (item.fillvalue != item.fillvalue))) else []


@contextmanager
def _scratch() -> Generator[Path]:
    """A temporary file, which the next run removes if this one is killed."""
    handle, path = locked_file(Path(tempfile.gettempdir()), "copy", ".h5")
    try:
        yield path
    finally:
        os.close(handle)
        path.unlink(missing_ok=True)


def _unknown(file: "h5py.File", arrays: "Sequence[h5py.Dataset]", path: Path) -> list[bytes]:
    """Runs of bytes of the file that its copy does not have."""
    import h5py

    content = np.asarray(np.memmap(path, np.uint8, "r"))
    gaps = list(_gaps(arrays, len(content)))
    if sum(end - begin for begin, end in gaps) > _MOST_GAPS:
        return [b"\1" * _MOST_GAPS]
    with _scratch() as first, _scratch() as second:
        with h5py.File(first, "w", libver=file.libver, locking=False) as copy:
            _copied(file, copy, [str(one.name) for one in arrays if one.id.get_storage_size() > _LARGE])
            for name in (b"/", *_names(copy)):
                h5py.h5o.set_comment(copy.id, b"", obj_name=name)  # pyright: ignore[reportAttributeAccessIssue]
        once = h5py.File(first, "r", locking=False)
        with once, h5py.File(second, "w", libver=file.libver, locking=False) as copy:
            _copied(once, copy)
        with h5py.File(second, "r", locking=False) as copy:
            again = np.asarray(np.memmap(second, np.uint8, "r"))
            held = _arrays(opened_item(copy, name) for name in _names(copy))
            pieces = [_windows(again[begin:end])[1] for begin, end in _gaps(held, len(again))]
    known = np.unique(np.concatenate([_windows(np.frombuffer(_NAMES, np.uint8))[1], *pieces]))
    return [run for begin, end in gaps for run in _runs(content[begin:end], known)]


def _names(group: "h5py.Group") -> list[bytes]:
    """Names of everything in a group and its groups."""
    import h5py

    names: list[bytes] = []
    h5py.h5o.visit(group.id, names.append)  # pyright: ignore[reportAttributeAccessIssue]
    return names


def _copied(group: "h5py.Group", copy: "h5py.Group", large: Sequence[str] = ()) -> None:
    """A copy of everything in a group but comments, which h5py cannot read, and the values of arrays with these names.

    Groups without such an array are copied at once.
    """
    import h5py

    for key in group:
        link = group.get(key, getlink=True)
        name = str(key).encode("utf-8", "surrogateescape")
        if isinstance(link, h5py.SoftLink):
            copy[key] = link
            continue
        item = opened_item(group, name)
        if not any(f"{one}/".startswith(f"{item.name}/") for one in large):
            h5py.h5o.copy(  # pyright: ignore[reportAttributeAccessIssue]
                group.id, name, copy.id, name
            )
        elif isinstance(item, h5py.Group):
            made = h5py.Group(h5py.h5g.create(copy.id, name, gcpl=item.id.get_create_plist()))
            _copied(item, made, large)
        elif isinstance(item, h5py.Dataset):
            plist = item.id.get_create_plist()
            made = h5py.h5d.create(copy.id, name, item.id.get_type(), item.id.get_space(), plist)
            _attributes_copied(item, h5py.Dataset(made))
    _attributes_copied(group, copy)


def _attributes_copied(item: "h5py.HLObject", copy: "h5py.HLObject") -> None:
    for key in item.attrs:
        if key not in ("DIMENSION_LIST", "REFERENCE_LIST"):
            copy.attrs.create(key, item.attrs[key], dtype=item.attrs.get_id(key).dtype)


def _runs(gap: np.ndarray, known: np.ndarray) -> Iterator[bytes]:
    starts, windows = _windows(gap)
    seen = known[np.minimum(np.searchsorted(known, windows), len(known) - 1)] == windows
    covered = np.zeros(len(gap), bool)
    for shift in range(_WINDOW):
        covered[starts[seen] + shift] = True
    if np.count_nonzero(gap[~covered]) < _FEWEST:  # as nearly everywhere
        return
    zeros = np.ones(max(0, len(gap) - _WINDOW + 1), bool)
    zeros[starts] = False
    for shift in range(_WINDOW):
        covered[shift : shift + len(zeros)] |= zeros
    content = gap.tobytes()
    for found in _SIGNATURES.finditer(content):
        covered[slice(*found.span())] = True
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (~covered).astype(np.int8), [0]])))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if np.count_nonzero(gap[begin:end]) >= _FEWEST:
            yield content[begin:end]


def _windows(content: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where sequences of some bytes begin that are not all zero, and these as whole numbers."""
    count = max(0, len(content) - _WINDOW + 1)
    some = content != 0
    starts = np.flatnonzero(np.logical_or.reduce([some[k : k + count] for k in range(_WINDOW)]))
    windows = np.zeros(len(starts), np.uint64)
    for k in range(_WINDOW):
        windows |= content[starts + k].astype(np.uint64) << np.uint64(8 * k)
    return starts, windows


def _gaps(arrays: "Sequence[h5py.Dataset]", size: int) -> Iterator[tuple[int, int]]:
    """Bytes between those of arrays."""
    taken: list[tuple[int, int]] = []
    for item in arrays:
        if item.chunks is None:
            if (offset := item.id.get_offset()) is not None:
                taken.append((offset, offset + item.id.get_storage_size()))
            continue
        for chunk in map(item.id.get_chunk_info, range(item.id.get_num_chunks())):
            taken.append((chunk.byte_offset, chunk.byte_offset + chunk.size))
    last = 0
    for begin, end in [*sorted(taken), (size, size)]:
        if begin > last:
            yield last, min(begin, size)
        last = max(last, end)


def _numbers(gap: np.ndarray) -> Iterator[np.ndarray]:
    """Runs of numbers in double or single precision, of either order of bytes."""
    for kind, shift in product(("<f8", ">f8", "<f4"), range(8)):
        width = int(kind[2])
        part = gap[shift : shift + (len(gap) - shift) // width * width]
        if shift >= width or len(part) < width * _RUN:
            continue
        values = np.frombuffer(part.tobytes(), kind).astype(float)
        with np.errstate(invalid="ignore"):
            sane = (np.abs(values) > _LEAST) & (np.abs(values) < _LARGEST)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], sane.astype(np.int8), [0]])))
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            if end - begin >= _RUN and len(np.unique(values[begin:end])) >= _RUN // 2:
                yield values[begin:end].copy()


def _unpacked(content: bytes) -> Iterator[np.ndarray]:
    tried = 0
    for head in _STREAMS:
        at = content.find(head)
        while at >= 0 and tried < _MOST_STREAMS:
            tried += 1
            opened = zlib.decompressobj()
            try:
                decompressed = opened.decompress(content[at:], 2**20)
            except zlib.error:
                decompressed = b""
            if opened.eof and len(decompressed) >= 8 * _RUN:
                yield np.frombuffer(decompressed, "<f8" if len(decompressed) % 8 == 0 else np.uint8).astype(float)
            at = content.find(head, at + 1)
