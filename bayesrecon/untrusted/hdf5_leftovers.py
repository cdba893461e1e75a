"""Numbers of deleted arrays in an HDF5 file. Deleting an array removes its name, but not its numbers.

The bytes of all existing arrays are known. Between them are tables of the format, which are neither runs of numbers nor
compressed streams.
"""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.untrusted.plain_values import Found

if TYPE_CHECKING:
    import h5py

_RUN = 8  # numbers in a row, none of them zero, that no table of the format holds
_LEAST, _LARGEST = 1e-6, 1e9
_MOST_BYTES, _MOST_STREAMS, _MOST_FOUND = 2**26, 2000, 20
_STREAMS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")


def leftovers(file: "h5py.File", path: Path) -> Iterator[Found]:
    """Numbers between the arrays, in the form of `bayesrecon.untrusted.hdf5_inventory`."""
    content = np.fromfile(path, np.uint8, _MOST_BYTES)
    count = 0
    for begin, end in _gaps(file, len(content)):
        gap = content[begin:end]
        for values in (*_numbers(gap), *_unpacked(gap)):
            count += 1
            yield f"bytes of a deleted array ({count})", "array", values
            if count >= _MOST_FOUND:
                return


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
        for k in range(min(item.id.get_num_chunks(), 100_000)):
            chunk = item.id.get_chunk_info(k)
            taken.append((chunk.byte_offset, chunk.byte_offset + chunk.size))

    file.visititems(visit)
    last = 0
    for begin, end in [*sorted(taken), (size, size)]:
        if begin - last >= 8 * _RUN:
            yield last, min(begin, size)
        last = max(last, end)


def _numbers(gap: np.ndarray) -> Iterator[np.ndarray]:
    """Runs of doubles. (Whole numbers look like the tables of the format.)"""
    for shift in range(8):
        part = gap[shift : shift + (len(gap) - shift) // 8 * 8]
        if len(part) < 8 * _RUN:
            continue
        doubles = np.frombuffer(part.tobytes(), "<f8")
        with np.errstate(invalid="ignore"):
            sane = (np.abs(doubles) > _LEAST) & (np.abs(doubles) < _LARGEST)
        yield from _runs(doubles, sane)


def _runs(values: np.ndarray, sane: np.ndarray) -> Iterator[np.ndarray]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], sane.astype(np.int8), [0]])))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        if end - begin >= _RUN and len(np.unique(values[begin:end])) >= _RUN // 2:
            yield values[begin:end].copy()


def _unpacked(gap: np.ndarray) -> Iterator[np.ndarray]:
    content, tried = gap.tobytes(), 0
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
