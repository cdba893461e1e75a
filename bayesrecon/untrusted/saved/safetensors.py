"""Files of safetensors: a JSON header with the positions of the arrays, then their bytes."""

import json
import math
from pathlib import Path

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.plain_json import no_repeats
from bayesrecon.untrusted.saved.nodes import Made, Named, Pairs, Unreadable
from bayesrecon.untrusted.saved.tensors import storage

_LARGEST = 2**24
"""Largest number of bytes of the header; the format allows a hundred million."""

_TYPES = {
    "F64": "Double", "F32": "Float", "F16": "Half", "BF16": "BFloat16", "I64": "Long", "I32": "Int", "I16": "Short",
    "I8": "Char", "U8": "Byte", "BOOL": "Bool",
}  # fmt: skip


def read(path: Path) -> tuple[Pairs, list[tuple[str, str]], bytes]:
    """Arrays by their names, places that cannot be read with the reasons, and bytes that no array has.

    Raises:
        BayesreconError: no such text, or an array beyond the file.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_LARGEST, size - 8):
            raise BayesreconError(f"{path}: damaged, not a safetensors file: its header has {length} bytes")
        try:
            header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=no_repeats)
        except (ValueError, RecursionError) as error:
            text = " ".join(str(error).split())[:80]
            raise BayesreconError(f"{path}: damaged, not a safetensors file: its header is not JSON ({text})") from None
        body = file.read()
    if not isinstance(header, dict):
        raise BayesreconError(f"{path}: damaged, not a safetensors file: its header is not a JSON object")
    root, unread, taken = Pairs(), [], []
    for name, about in header.items():
        if name == "__metadata__":
            pairs = list(about.items()) if isinstance(about, dict) else [("", str(about))]
            root.pairs.append((name, Pairs([(k, v if isinstance(v, str) else json.dumps(v)) for k, v in pairs])))
            continue
        begin, end, shape, kind = _described(path, name, about, len(body))
        taken.append((begin, end))
        try:
            values = storage(body[begin:end], _TYPES.get(kind, kind))
            if values.size != math.prod(shape):
                raise Unreadable(f"{values.size} numbers in an array of shape {shape}")
        except Unreadable as problem:
            unread.append((name, str(problem)))
            continue
        array = Made(Named("torch", "Tensor"), (), stored=values.reshape(shape))
        root.pairs.append((name, array))
    return root, unread, _between(body, taken)


def _described(path: Path, name: str, about: Json, most: int) -> tuple[int, int, tuple[int, ...], str]:
    try:
        (begin, end), shape, kind = about["data_offsets"], tuple(about["shape"]), about["dtype"]
        valid = all(type(n) is int and 0 <= n < 2**48 for n in (begin, end, *shape)) and len(shape) <= 32
        if valid and begin <= end <= most and isinstance(kind, str):
            return begin, end, shape, kind
    except (KeyError, TypeError, ValueError):
        pass
    raise BayesreconError(f"{path}: damaged, not a safetensors file: {name[:60]!r} does not lie in the file")


def _between(body: bytes, taken: list[tuple[int, int]]) -> bytes:
    """Bytes that belong to no array."""
    last, rest = 0, []
    for begin, end in [*sorted(taken), (len(body), len(body))]:
        if begin > last:
            rest.append(body[last:begin])
        last = max(last, end)
    return b"".join(rest)
