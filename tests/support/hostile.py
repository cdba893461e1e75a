"""Files that would harm whoever loads them: each would leave a canary, or take all memory, and does nothing here."""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np

PROTO = b"\x80\x05"
Named = tuple[str, bytes]


class Runs:
    """An object whose pickle calls something."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def canaries(canary: Path) -> Iterator[Named]:
    """Files that would touch the canary when they are loaded, as their suffix says."""
    bad = Runs(os.system, f"touch {canary}")
    for protocol in range(6):
        yield f"protocol{protocol}.pkl", pickle.dumps(bad, protocol)
    yield "within.pickle", pickle.dumps({"model": [1, (2, bad)], "x": np.arange(3.0)})
    yield "nested.pkl", pickle.dumps(Runs(Runs, bad))
    yield "evaluated.pkl", pickle.dumps(Runs(eval, f"__import__('os').system('touch {canary}')"))
    yield (
        "by_state.pkl",
        b"\x80\x02c__main__\nA\n)\x81}U\x01xcposix\nsystem\n(U%c%btR"
        % (
            len(f"touch {canary}"),
            f"touch {canary}".encode(),
        )
        + b"sb.",
    )
    yield "instance.pkl", b"(S'touch " + str(canary).encode() + b"'\nios\nsystem\n."
    yield "object.pkl", b"(cos\nsystem\nS'touch " + str(canary).encode() + b"'\no."
    yield "dotted.pkl", PROTO + b"\x8c\x05numpy\x8c\x09os.system\x93\x8c" + _short(f"touch {canary}") + b"\x85R."
    yield "then_damaged.pkl", pickle.dumps(bad)[:-1] + b"\xff\xff"
    yield "second.pkl", pickle.dumps(1) + pickle.dumps(bad)
    for name, compress in (("plain", 0), ("packed", 3), ("xz", ("xz", 3))):
        written = io.BytesIO()
        joblib.dump({"a": np.arange(4.0), "b": bad}, written, compress=compress)
        yield f"{name}.joblib", written.getvalue()
    written = io.BytesIO()
    joblib.dump({"objects": np.array([bad, None], object)}, written)
    yield "objects.joblib", written.getvalue()
    yield "archive.pt", zipped({"archive/data.pkl": pickle.dumps(bad, 2), "archive/version": b"3"})
    yield "row.pth", b"".join(pickle.dumps(v, 2) for v in (0x1950A86A20F9469CFC6C, 1001, {}, bad, []))
    tree = {"__class__": "system", "__module__": "os", "__loader__": "FunctionNode", "content": f"touch {canary}"}
    yield "schema.skops", zipped({"schema.json": json.dumps(tree).encode()})


def _short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def zipped(members: dict[str, bytes], packed: bool = False) -> bytes:
    """An archive."""
    written = io.BytesIO()
    how = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
    with zipfile.ZipFile(written, "w", how, compresslevel=1) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return written.getvalue()


def _bomb(pack: Callable[[bytes], bytes]) -> bytes:
    return pack(bytes(2**27))


def _array(shape: bytes, code: bytes = b"f8", raw: bytes = b"\x8e" + struct.pack("<Q", 0)) -> bytes:
    """An array by `_frombuffer`, whose shape and type are anything."""
    dtype = b"\x8c\x05numpy\x8c\x05dtype\x93\x8c" + bytes([len(code)]) + code + b"\x89\x88\x87R"
    return PROTO + b"\x8c\x13numpy._core.numeric\x8c\x0b_frombuffer\x93(" + raw + dtype + shape + b"\x8c\x01CtR."


PACKED = {  # as fast as they can
    "gz": partial(gzip.compress, compresslevel=1),
    "zlib": partial(zlib.compress, level=1),
    "xz": partial(lzma.compress, preset=0),
    "bz2": partial(bz2.compress, compresslevel=1),
}
UNPACK: dict[str, Callable[[], bytes]] = {
    **{f"bomb_{name}.joblib": partial(_bomb, pack) for name, pack in PACKED.items()},
    "zip_bomb.pt": lambda: zipped({"a/data.pkl": b"N.", "a/data/0": bytes(2**29)}, packed=True),
    "zip_bomb.skops": lambda: zipped({"schema.json": bytes(2**29)}, packed=True),
}
"""Files that unpack to gigabytes, made when they are called: they take long to pack."""


def bombs() -> Iterator[Named]:
    """Files that state lengths, shapes and depths that nobody has."""
    huge = struct.pack("<Q", 2**63)
    for name, opcode in (("unicode", b"\x8d"), ("bytes", b"\x8e"), ("bytearray", b"\x96"), ("frame", b"\x95")):
        yield f"long_{name}.pkl", PROTO + opcode + huge + b"x."
    yield "long_whole.pkl", PROTO + b"\x8b" + struct.pack("<i", 2**31 - 1) + b"\x01."
    yield "negative.pkl", PROTO + b"\x8b" + struct.pack("<i", -1) + b"\x01."
    yield "memo.pkl", PROTO + b"Nr\xff\xff\xff\xff0j\xff\xff\xff\xff."
    yield "memo_text.pkl", b"Np99999999999999999999999\n0g99999999999999999999999\n."
    yield "doubling.pkl", PROTO + b"]\x94" + b"".join(b"](h%ch%ce\x94" % (k, k) for k in range(200)) + b"."
    yield "tuples.pkl", PROTO + b")\x94" + b"".join(b"h%ch%c\x86\x94" % (k, k) for k in range(200)) + b"."
    yield "deep.pkl", PROTO + b"]" * 30_000 + b"a" * 29_999 + b"."
    yield "deep_tuples.pkl", PROTO + b")" + b"\x85" * 30_000 + b"."
    yield "deep_calls.pkl", PROTO + b"cm\nf\n" + b")R" * 30_000 + b"."
    yield "marks.pkl", PROTO + b"(" * 30_000 + b"."
    yield "digits.pkl", b"L" + b"9" * 100_000 + b"L\n."
    yield "unknown.pkl", PROTO + b"\xfe."
    yield "newer.pkl", b"\x80\x7f]."
    yield "empty_stack.pkl", b"."
    yield "no_end.pkl", PROTO + b"]"
    yield "registry.pkl", b"\x80\x02\x82\x05\x83\x05\x05\x84\x05\x05\x05\x05\x87."
    yield "persistent.pkl", b"Pmine\n."
    yield "persistent_object.pkl", b"\x80\x02]Q."
    yield "buffer.pkl", PROTO + b"\x97\x98."
    yield "shape.pkl", _array(b"\x8a\x07" + struct.pack("<Q", 2**40)[:7] + b"\x85")
    yield "empty_shape.pkl", _array(b"(K\x00\x8a\x07" + struct.pack("<Q", 2**40)[:7] + b"t")
    yield "no_size.pkl", _array(b"\x8a\x07" + struct.pack("<Q", 2**40)[:7] + b"\x85", b"U0")
    yield "wide_text.pkl", _array(b"K\x01\x85", b"U99999999")
    yield "void.pkl", _array(b"K\x01\x85", b"V9999999")
    yield "out_of_band.pkl", _array(b"K\x01\x85", raw=b"\x97")
    yield "cycle.pkl", PROTO + b"]\x94h\x00a."
    yield (
        "letters.pkl",
        PROTO + b"\x8d" + struct.pack("<Q", 10**6) + b"x" * 10**6 + b"\x94](" + b"h\x00" * 10**5 + b"e.",
    )
    yield "keys.pkl", PROTO + b"}(" + b"]N" * 10**4 + b"u."
    for name, pack in PACKED.items():
        yield f"cut_{name}.joblib", pack(os.urandom(2**12))[:-9]
    yield "lz4.joblib", b"\x04\x22\x4d\x18" + bytes(50)
    yield "beside.joblib", b"\x80\x02cjoblib.numpy_pickle\nNDArrayWrapper\n)\x81}U\x08filenameU\x06/a.npysb."
    yield "tensor.pt", tensor(size=(2**20, 2**20), stride=(0, 0))
    yield "tensor_beyond.pt", tensor(size=(5,), stride=(1,))
    yield "tensor_before.pt", tensor(size=(1,), stride=(1,), offset=-1)
    yield "deep.skops", zipped({"schema.json": b'{"content":' * 50_000 + b"1" + b"}" * 50_000})
    yield "wide.safetensors", struct.pack("<Q", 2**63) + b"{}"
    yield "beyond.safetensors", safetensors({"w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}})
    yield "backwards.safetensors", safetensors({"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})
    yield "no_type.safetensors", safetensors({"w": {"dtype": "X9", "shape": [1], "data_offsets": [0, 4]}}, bytes(4))
    yield "twice.safetensors", struct.pack("<Q", 17) + b'{"a": 1, "a": 2 }'
    yield "deep.onnx", _nested(200)
    yield "no_graph.onnx", b"\x08\x07"
    yield "beyond.onnx", b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
    yield "shape.onnx", b"\x3a\x0f\x2a\x0d\x08\xff\xff\xff\xff\xff\x07\x10\x01\x42\x01w" + b"\x4a\x00"
    yield "whole.onnx", b"\xff" * 30
    yield "entities.pmml", b'<!DOCTYPE p [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><PMML>&b;</PMML>'
    yield "outside.pmml", b'<!DOCTYPE p [<!ENTITY a SYSTEM "file:///etc/hostname">]><PMML>&a;</PMML>'
    yield "deep.pmml", b"<a>" * 100_000
    yield "no_model.pmml", b"<html/>"
    yield "cut.pmml", b"<PMML><Node"
    yield "empty.pkl", b""
    yield "one_byte.joblib", b"x"
    yield "text.pkl", b"These are not the bytes you are looking for."


def _nested(depth: int) -> bytes:
    """Graphs of ONNX, each an attribute of a node of the next."""
    content = b""
    for number in (7, *(n for _ in range(depth) for n in (6, 5, 1))):
        size = len(content)
        length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
        content = bytes([number << 3 | 2]) + length + content if number != 7 else content
    return b"\x3a" + bytes([len(content) & 127 | 128, len(content) >> 7 & 127 | 128, len(content) >> 14]) + content


def tensor(size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> bytes:
    """An archive of torch with one tensor of any size over a storage of four numbers."""
    pickler_output = io.BytesIO()

    class Pickler(pickle.Pickler):
        def persistent_id(self, value: Any) -> Any:
            return ("storage", Storage, "0", "cpu", 4) if value is _STORED else None

    Pickler(pickler_output, 2).dump(Runs(_rebuild, _STORED, offset, size, stride, False, {}))
    content = pickler_output.getvalue()
    content = content.replace(b"chostile\n_rebuild\n", b"ctorch._utils\n_rebuild_tensor_v2\n")
    content = content.replace(b"chostile\nStorage\n", b"ctorch\nFloatStorage\n")
    return zipped({"archive/data.pkl": content, "archive/data/0": bytes(16), "archive/version": b"3\n"})


class Storage:
    """Stands for the type of a storage."""


def _rebuild(*arguments: Any) -> None:
    """Stands for the function that makes a tensor."""


_STORED = object()


def safetensors(header: dict[str, Any], body: bytes = b"") -> bytes:
    """A file with any header."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body
