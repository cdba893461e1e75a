"""Bytes of an HDF5 file that nothing in it uses any more, such as those of what was deleted, and values out of sight.

Deleting an array or an attribute removes its name, but not its bytes. The library copies everything that it can reach
into a new file. What then stands in the old file, outside arrays, and not in the copy, belongs to nothing. Checksums
and addresses differ in a copy, so a few different bytes in a row are no finding.
"""

import re
import tempfile
import zlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.untrusted.plain_values import Found, Inventory, plain_values

if TYPE_CHECKING:
    import h5py

_WINDOW = 5
"""Bytes that are looked for together."""

_FEWEST = 12
"""Fewest unknown bytes in a row, zeros aside: checksums have four, addresses up to four, and they are neighbours."""

_SIGNATURES = (b"OHDR", b"OCHK", b"TREE", b"HEAP", b"SNOD", b"GCOL", b"FRHP", b"FHDB", b"FHIB", b"BTHD", b"BTLF",
               b"BTIN", b"FSHD", b"FSSE", b"FADB", b"FAHD", b"EAHD", b"EAIB", b"EADB", b"EASB")  # fmt: skip
_NAMES = b"DIMENSION_LIST REFERENCE_LIST dataset dimension"
"""What the format itself writes, and a copy without references lacks."""

_LARGE = 2**24
"""Bytes of arrays whose values are not copied."""

_TEXT = re.compile(rb"[ -~\t\n]{12,}")
_MOST_BYTES, _MOST_FOUND, _MOST_STREAMS = 2**26, 20, 2000
_RUN, _LEAST, _LARGEST = 8, 1e-6, 1e9  # numbers in a row, and their sizes
_STREAMS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def leftovers(file: "h5py.File", path: Path) -> Inventory:
    """Bytes of nothing, among them comments of objects, and values of chunks beyond the extent of their arrays."""
    found, unread = list(_beyond(file)), []
    for where, _, values in found[:]:
        unread.append((where, f"{np.asarray(values).size} values that no reader shows"))
    runs = _unknown(file, path)
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


def _beyond(file: "h5py.File") -> Iterator[Found]:
    """Values that the last chunks of an array hold beyond its extent, unless they are those that fill it."""
    import h5py

    arrays: list[h5py.Dataset] = []
    file.visititems(lambda _, item: arrays.append(item) if isinstance(item, h5py.Dataset) else None)
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


def _unknown(file: "h5py.File", path: Path) -> list[bytes]:
    """Runs of bytes of the file that its copy does not have."""
    import h5py

    content = np.memmap(path, np.uint8, "r")
    gaps = list(_gaps(file, len(content)))
    if sum(end - begin for begin, end in gaps) > _MOST_BYTES:
        return [b"\1" * _MOST_BYTES]
    with tempfile.TemporaryDirectory(prefix="bayesrecon-") as folder:
        first, second = Path(folder, "first.h5"), Path(folder, "second.h5")
        with h5py.File(first, "w", libver=file.libver) as copy:
            _copied(file, copy)
            names = [b"/"]
            file.visit(lambda name: names.append(name.encode("utf-8", "surrogateescape")))
            for name in names:
                h5py.h5o.set_comment(copy.id, b"", obj_name=name)  # pyright: ignore[reportAttributeAccessIssue]
        with h5py.File(first, "r") as once, h5py.File(second, "w", libver=file.libver) as copy:
            _copied(once, copy)
        with h5py.File(second, "r") as copy:
            again = np.memmap(second, np.uint8, "r")
            pieces = [_windows(again[begin:end]) for begin, end in _gaps(copy, len(again))]
    known = np.unique(np.concatenate([_windows(np.frombuffer(_NAMES, np.uint8)), *pieces]))
    return [run for begin, end in gaps for run in _runs(bytes(content[begin:end]), known)]


def _copied(group: "h5py.Group", copy: "h5py.Group") -> None:
    """A copy of everything in a group but the values of large arrays, and comments, which h5py cannot read."""
    import h5py

    for key in group:
        link = group.get(key, getlink=True)
        name = str(key).encode("utf-8", "surrogateescape")
        if isinstance(link, h5py.SoftLink):
            copy[key] = link
            continue
        item = group[key]
        if isinstance(item, h5py.Group) and _stored(item) > _LARGE:
            made = h5py.Group(h5py.h5g.create(copy.id, name, gcpl=item.id.get_create_plist()))
            _copied(item, made)
        elif isinstance(item, h5py.Dataset) and _stored(item) > _LARGE:
            plist = item.id.get_create_plist()
            made = h5py.h5d.create(copy.id, name, item.id.get_type(), item.id.get_space(), plist)
            _attributes_copied(item, h5py.Dataset(made))
        else:
            h5py.h5o.copy(  # pyright: ignore[reportAttributeAccessIssue]
                group.id, name, copy.id, name
            )
    _attributes_copied(group, copy)


def _attributes_copied(item: "h5py.HLObject", copy: "h5py.HLObject") -> None:
    for key in item.attrs:
        if key not in ("DIMENSION_LIST", "REFERENCE_LIST"):
            copy.attrs.create(key, item.attrs[key], dtype=item.attrs.get_id(key).dtype)


def _stored(item: "h5py.Group | h5py.Dataset") -> int:
    import h5py

    if isinstance(item, h5py.Dataset):
        return item.id.get_storage_size()
    sizes: list[int] = []
    item.visititems(lambda _, one: sizes.append(_stored(one)) if isinstance(one, h5py.Dataset) else None)
    return sum(sizes)


def _runs(gap: bytes, known: np.ndarray) -> Iterator[bytes]:
    windows, raw = _windows(np.frombuffer(gap, np.uint8)), np.frombuffer(gap, np.uint8)
    seen = np.isin(windows, known)
    covered = np.zeros(len(raw), bool)
    for shift in range(_WINDOW):
        covered[shift : shift + len(seen)] |= seen
    for signature in _SIGNATURES:
        at = gap.find(signature)
        while at >= 0:
            covered[at : at + len(signature)] = True
            at = gap.find(signature, at + 1)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], (~covered).astype(np.int8), [0]])))
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if np.count_nonzero(raw[begin:end]) >= _FEWEST:
            yield gap[begin:end]


def _windows(content: np.ndarray) -> np.ndarray:
    """All sequences of some bytes, as whole numbers."""
    count = max(0, len(content) - _WINDOW + 1)
    result = np.zeros(count, np.uint64)
    for k in range(_WINDOW):
        result |= content[k : k + count].astype(np.uint64) << np.uint64(8 * k)
    return result


def _gaps(file: "h5py.File", size: int) -> Iterator[tuple[int, int]]:
    """Bytes between those of arrays."""
    import h5py

    taken: list[tuple[int, int]] = []

    def visit(name: str, item: "h5py.HLObject") -> None:
        if not isinstance(item, h5py.Dataset) or item.shape is None:
            return
        if item.chunks is None:
            offset = item.id.get_offset()
            if offset is not None:
                taken.append((offset, offset + item.id.get_storage_size()))
            return
        for k in range(item.id.get_num_chunks()):
            chunk = item.id.get_chunk_info(k)
            taken.append((chunk.byte_offset, chunk.byte_offset + chunk.size))

    file.visititems(visit)
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
