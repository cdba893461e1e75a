"""Arrays of NumPy from their descriptions. Only NumPy's own layouts and plain types are read."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np

from bayesrecon.untrusted.saved.nodes import READ_ERRORS, Elsewhere, Made, Named, Objects, Pairs, Storage, Unreadable

_CORES = ("numpy.core", "numpy._core")
_RECONSTRUCT = frozenset((f"{core}.multiarray", "_reconstruct") for core in _CORES)
_FROM_BUFFER = frozenset((f"{core}.numeric", "_frombuffer") for core in _CORES)
_JAX = frozenset([("jax._src.array", "_reconstruct_array"), ("jax._src.device_array", "reconstruct_device_array")])
_SCALAR = frozenset((f"{core}.multiarray", "scalar") for core in _CORES)
_MASKED = frozenset([("numpy.ma.core", "_mareconstruct"), ("numpy.ma", "_mareconstruct")])
_ENCODE = frozenset([("_codecs", "encode")])
_BYTES = frozenset((b, n) for b in ("builtins", "__builtin__") for n in ("bytes", "bytearray"))
_DTYPE = frozenset([("numpy", "dtype")])
_RECORD = frozenset(
    (module, "record") for module in ("numpy", "numpy.core.records", "numpy.rec", "numpy._core.records")
)

_CODE = re.compile(r"[?]|[<>|=]?(?:[biufc]\d{1,2}|[mM]8|[USV]\d{0,8}|O8?)")
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
_USUAL = {5: (-1,), 6: (-1, 1), 7: (0, 8, 16, 63)}
"""Size, alignment and flags of a type in its state, as some version of NumPy writes them."""

_FIELDS, _ITEM = 500, 2**24
"""Largest number of fields of a record, and of bytes of one entry."""


def is_array(node: object) -> TypeGuard[Made]:
    """Whether a description is that of an array, a tensor or a number of NumPy."""
    return isinstance(node, Made) and (
        node.is_of(_RECONSTRUCT)
        or node.is_of(_FROM_BUFFER)
        or node.is_of(_SCALAR)
        or node.is_of(_MASKED)
        or node.is_of(_JAX)
        or is_tensor(node)
        or isinstance(node.stored, np.ndarray | Objects)
    )


def array_of(node: Made) -> np.ndarray | Objects:
    """The array of a description.

    Raises:
        Unreadable: the type is not plain, or the number of bytes does not fit the shape.
    """
    if isinstance(node.stored, np.ndarray | Objects):
        return node.stored
    if is_tensor(node):
        return tensor_of(node)
    if node.is_of(_FROM_BUFFER):
        raw, dtype, shape, order = _exactly(node.arguments, 4)
        return from_bytes(bytes_of(raw), dtype_of(dtype), shape, order)
    if node.is_of(_SCALAR):
        dtype = dtype_of(node.arguments[0]) if node.arguments else None
        if dtype is None or dtype.hasobject or len(node.arguments) != 2:
            raise Unreadable("an invalid number of NumPy")
        return from_bytes(bytes_of(node.arguments[1]), dtype, (), "C")
    states = _exactly(node.arguments, 4)[2:3] if node.is_of(_JAX) else node.states
    if not states:
        raise Unreadable("an array without its values")
    state = states[-1]
    if node.is_of(_MASKED):
        _, shape, dtype, fortran, raw = _exactly(state[:5] if isinstance(state, tuple) else state, 5)
    else:
        _, shape, dtype, fortran, raw = _exactly(state[-5:] if isinstance(state, tuple) else state, 5)
    kind = dtype_of(dtype)
    if kind.hasobject:
        if not isinstance(raw, list) or kind != np.dtype(object):
            raise Unreadable("an array of objects without a list of them")
        return objects(raw, shape)
    return from_bytes(bytes_of(raw), kind, shape, "F" if fortran is True else "C")


def beside(node: Made) -> list[object]:
    """What the description of an array or of bytes has beside the values: masks, metadata, whatever else was set."""
    if is_bytes(node):
        arguments = node.arguments[1:] if isinstance(node.arguments, tuple) else ()
        others = [a for a in arguments if a not in ("latin1", "latin-1", "utf-8")]
        return [*others, *node.states, *node.items, *node.pairs]
    found: list[object] = [*node.states[:-1], *node.items, *node.pairs, *_odd_arguments(node)]
    if node.is_of(_JAX):  # how NumPy makes an empty array, and whether Python's numbers decide the type
        (_, made, _, weak), plain = _exactly(node.arguments, 4), ((0,), b"b")
        found += [] if isinstance(made, tuple) and made[1:] == plain else [made]
        pairs = weak.pairs if isinstance(weak, Pairs) else [("", weak)]
        found += [pair for pair in pairs if pair[0] != "weak_type" or not isinstance(pair[1], bool)]
    state = node.states[-1] if node.states else ()
    if node.is_of(_MASKED) and isinstance(state, tuple) and len(state) == 7:
        mask = bytes_of(state[5])
        if any(mask):
            found.append(np.frombuffer(mask, bool if set(mask) <= {0, 1} else np.uint8))
        found.append(state[6])
    elif isinstance(state, Pairs):  # of joblib
        known = ("subclass", "shape", "order", "dtype", "allow_mmap", "numpy_array_alignment_bytes")
        found += [pair for pair in state.pairs if pair[0] not in known]
    elif isinstance(state, tuple) and not node.is_of(_MASKED):  # a subclass may put its own parts first
        found += state[:-5]
    if is_tensor(node):  # hooks, and what was set
        found += [a for a in node.arguments[4:] if not isinstance(a, bool | Named)]
    parts = [v for _, v in state.pairs] if isinstance(state, Pairs) else state if isinstance(state, tuple) else []
    return [*found, *(extra for part in (*node.arguments, *parts) for extra in _beside_type(part))]


def _odd_arguments(node: Made) -> Iterator[object]:
    """What an array is made from, if NumPy writes something else: of an empty array, then filled by its state."""
    if (node.is_of(_RECONSTRUCT) or node.is_of(_MASKED)) and isinstance(node.arguments, tuple):
        for argument in node.arguments:
            value = bytes_of(argument) if is_bytes(argument) else argument
            if isinstance(value, Named):
                value = (0,) if value.module.startswith("numpy") or value.name.endswith("array") else value.whole
            if not any(type(value) is type(usual) and value == usual for usual in ((0,), b"b", "b")):
                yield value if isinstance(value, str | int | bytes | tuple) else "made of another object"


def _beside_type(kind: object) -> Iterator[object]:
    """What the description of a type of NumPy has beside the type: metadata, and what NumPy itself does not write."""
    if not isinstance(kind, Made) or not kind.is_of(_DTYPE):
        return
    try:
        _, _, written = dtype_of(kind).__reduce__()[:3]  # pyright: ignore[reportIndexIssue]
    except READ_ERRORS:
        return
    state = kind.states[-1] if kind.states else ()
    state = state if isinstance(state, tuple) else (state,)
    yield from (one for one in kind.arguments[1:] if type(one) not in (bool, int) or one not in (0, 1))
    yield from kind.states[:-1]
    for k, part in enumerate(state):
        if k == 0:  # the version of this state
            odd = part not in (3, 4)
        elif k in (2, 3, 4):  # parts, which are looked at themselves
            odd = False
            parts = part if isinstance(part, tuple | list) else ()
            fields = part.pairs if isinstance(part, Pairs) else [("", one) for one in parts]
            for _, inner in fields:
                yield from _beside_type(inner[0] if isinstance(inner, tuple) and inner else inner)
                if isinstance(part, Pairs) and isinstance(inner, tuple):  # titles of fields
                    yield from inner[2:]
        elif k < 8:
            odd = part not in ("<", ">", "|", "=") if k == 1 else part not in (written[k], *_USUAL[k])
        else:
            extra = part if isinstance(part, tuple) else (part,)
            yield from (x for x in extra if isinstance(x, Pairs) and x.pairs)
            odd = False
        if odd:
            yield part


def objects(items: Sequence[object], shape: object) -> Objects:
    """An array of objects.

    Raises:
        Unreadable: the number of items does not fit the shape.
    """
    sizes = sizes_of(shape)
    if math.prod(sizes) != len(items):
        raise Unreadable(f"{len(items)} objects in an array of shape {sizes}")
    return Objects(items, sizes)


def from_bytes(raw: bytes, dtype: np.dtype, shape: object, order: object) -> np.ndarray:
    """The array of numbers or texts that are stored as bytes.

    Raises:
        Unreadable: the number of bytes does not fit the type and shape.
    """
    sizes = sizes_of(shape)
    if dtype.hasobject:
        raise Unreadable("objects that are stored as bytes")
    if math.prod(sizes) * dtype.itemsize != len(raw):
        raise Unreadable(f"{len(raw)} bytes for an array of {dtype} of shape {sizes}")
    if not dtype.itemsize:
        return np.zeros(sizes if math.prod(sizes) < _ITEM else 0, "U1")
    values = np.frombuffer(raw, dtype)
    return values.reshape(sizes[::-1]).T if order == "F" else values.reshape(sizes)


def sizes_of(shape: object) -> tuple[int, ...]:
    """A shape, checked."""
    sizes = (shape,) if isinstance(shape, int) else shape
    if not isinstance(sizes, tuple | list) or len(sizes) > 32:
        raise Unreadable("an invalid shape")
    numbers = tuple(int(array_of(s)) if is_array(s) else s for s in sizes)  # type: ignore[arg-type]
    if not all(type(s) is int and 0 <= s < 2**48 for s in numbers):
        raise Unreadable("an invalid shape")
    return numbers


def dtype_of(node: object) -> np.dtype:
    """The plain type of a description: numbers, texts, dates, records of them, or Python objects.

    Raises:
        Unreadable: the type is another one.
    """
    if not isinstance(node, Made) or not node.is_of(_DTYPE) or not node.arguments:
        raise Unreadable("a type that is not one of NumPy")
    code = node.arguments[0]
    if isinstance(code, Named) and (code.module, code.name) in _RECORD:
        code = "V"
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise Unreadable("a type of NumPy that is not plain")
    state = node.states[-1] if node.states else ()
    state = state if isinstance(state, tuple) else ()
    order = state[1] if len(state) > 1 and state[1] in ("<", ">", "|", "=") else "="
    if len(state) > 2 and state[2] is not None:
        base, shape = _exactly(state[2], 2)
        kind, sizes = dtype_of(base), sizes_of(shape)
        if kind.hasobject or kind.itemsize * math.prod(sizes) > _ITEM:
            raise Unreadable("an invalid type of arrays in an array")
        return np.dtype((kind, sizes))
    if len(state) > 4 and state[3] is not None:
        return _record(state)
    try:
        dtype = np.dtype(f"{code}[{_unit(state)}]") if code[-2:] in ("M8", "m8") else np.dtype(code)
    except (TypeError, ValueError, OverflowError):
        raise Unreadable(f"no type {code[:20]!r}") from None
    if dtype.itemsize > _ITEM:
        raise Unreadable(f"entries of {dtype.itemsize} bytes")
    if dtype.kind == "V":
        raise Unreadable("bytes without a type")
    return dtype.newbyteorder(order) if dtype.kind in "iufcUmM" else dtype


def _record(state: tuple[Any, ...]) -> np.dtype:
    names, fields, size = state[3], state[4], state[5] if len(state) > 5 else 0
    if not isinstance(names, tuple) or not isinstance(fields, Pairs) or len(names) > _FIELDS:
        raise Unreadable("an invalid record")
    described = [(name, fields.get(name)) for name in names if isinstance(name, str)]
    if len({name for name, _ in described}) < len(names) or type(size) is not int or not 0 < size <= _ITEM:
        raise Unreadable("an invalid record")
    kinds, offsets = [], []
    for _, field in described:
        if not isinstance(field, tuple) or len(field) < 2 or type(field[1]) is not int:
            raise Unreadable("an invalid record")
        kind = dtype_of(field[0])
        if kind.hasobject or not 0 <= field[1] <= size - kind.itemsize:
            raise Unreadable("a record with a type that is not plain")
        kinds.append(kind)
        offsets.append(field[1])
    return np.dtype({"names": [n for n, _ in described], "formats": kinds, "offsets": offsets, "itemsize": size})


def _unit(state: tuple[Any, ...]) -> str:
    try:
        unit, count = state[8][1][:2]
        unit = bytes_of(unit).decode("ascii")
    except (IndexError, TypeError, ValueError):
        return "generic"
    if unit not in _UNITS or type(count) is not int or not 0 < count < 2**31:
        raise Unreadable("an invalid unit of time")
    return unit if count == 1 else f"{count}{unit}"


def is_bytes(node: object) -> bool:
    """Whether a description is that of bytes."""
    return isinstance(node, bytes) or (isinstance(node, Made) and (node.is_of(_ENCODE) or node.is_of(_BYTES)))


def bytes_of(node: object) -> bytes:
    """The bytes of a description, in the layout of any protocol.

    Raises:
        Unreadable: it does not describe bytes, or they are outside the pickle.
    """
    if isinstance(node, bytes):
        return node
    if isinstance(node, Elsewhere):
        raise Unreadable(f"its values are {node.what}")
    if isinstance(node, str):  # of Python 2
        return _latin(node)
    if isinstance(node, Made) and node.is_of(_ENCODE) and node.arguments and isinstance(node.arguments[0], str):
        return _latin(node.arguments[0])
    if isinstance(node, Made) and node.is_of(_BYTES):
        if not node.arguments:
            return b""
        first = node.arguments[0]
        if isinstance(first, bytes):
            return first
        if isinstance(first, str):
            return _latin(first)
        if isinstance(first, list) and all(type(v) is int and 0 <= v < 256 for v in first):
            return bytes(first)
    raise Unreadable("its values are not bytes")


def _latin(text: str) -> bytes:
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise Unreadable("its values are text instead of bytes") from None


def _exactly(values: object, count: int) -> tuple[Any, ...]:
    if not isinstance(values, tuple) or len(values) != count:
        raise Unreadable("an array in another layout than that of NumPy")
    return values


_TENSOR = frozenset(("torch._utils", name) for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3"))
_PARAMETER = frozenset([("torch._utils", "_rebuild_parameter"), ("torch._utils", "_rebuild_parameter_with_state")])
_TYPES = {
    "Double": "<f8", "Float": "<f4", "Half": "<f2", "Long": "<i8", "Int": "<i4", "Short": "<i2", "Char": "i1",
    "Byte": "u1", "Bool": "?", "BFloat16": "bfloat16", "ComplexFloat": "<c8", "ComplexDouble": "<c16",
    "Untyped": "u1", "float64": "<f8", "float32": "<f4", "float16": "<f2", "int64": "<i8", "int32": "<i4",
    "int16": "<i2", "int8": "i1", "uint8": "u1", "bool": "?", "bfloat16": "bfloat16",
}  # fmt: skip


def storage(raw: bytes, kind: object) -> np.ndarray:
    """Bytes as numbers of a type of torch: `torch.FloatStorage`, `torch.float32`, or its name in safetensors.

    Raises:
        Unreadable: the type is unknown, or the bytes end within a number.
    """
    name = (kind.name if isinstance(kind, Named) else str(kind)).removesuffix("Storage")
    code = _TYPES.get(name)
    if code is None:
        raise Unreadable(f"no type {name[:20]!r} of torch")
    if code == "bfloat16":  # the upper half of a number in single precision
        if len(raw) % 2:
            raise Unreadable("half a number")
        return (np.frombuffer(raw, "<u2").astype("<u4") << 16).view("<f4")
    if len(raw) % np.dtype(code).itemsize:
        raise Unreadable("a part of a number")
    return np.frombuffer(raw, code)


def is_tensor(node: Made) -> bool:
    """Whether a description is that of a tensor or a parameter."""
    return node.is_of(_TENSOR) or node.is_of(_PARAMETER)


def tensor_of(node: Made) -> np.ndarray:
    """The values of a tensor.

    Raises:
        Unreadable: the layout is not that of torch, or the tensor reaches beyond its storage.
    """
    for _ in range(4):  # a parameter is a tensor, wrapped
        if not node.is_of(_PARAMETER):
            break
        inner = node.arguments[0] if isinstance(node.arguments, tuple) and node.arguments else None
        if not isinstance(inner, Made):
            raise Unreadable("a parameter without its tensor")
        node = inner
    if not node.is_of(_TENSOR) or not isinstance(node.arguments, tuple) or len(node.arguments) < 4:
        raise Unreadable("a tensor in another layout than that of torch")
    base, offset, size, stride = node.arguments[:4]
    values = base.stored if isinstance(base, Made) else None
    if not isinstance(values, np.ndarray):
        raise Unreadable("a tensor without its storage")
    if isinstance(node.function, Named) and node.function.name == "_rebuild_tensor_v3" and len(node.arguments) > 6:
        values = storage(values.tobytes(), node.arguments[6])
    numbers = (offset, *(size if isinstance(size, tuple) else ()), *(stride if isinstance(stride, tuple) else ()))
    if not all(type(n) is int and 0 <= n < 2**48 for n in numbers) or len(size) != len(stride) or len(size) > 32:
        raise Unreadable("a tensor of an invalid shape")
    count, last = 1, offset
    for length, step in zip(size, stride, strict=True):
        count *= length
        last += max(length - 1, 0) * step
    if count and last >= len(values):
        raise Unreadable("a tensor beyond its storage")
    if count > len(values):
        raise Unreadable("a tensor of more than its storage")
    if isinstance(base, Storage):
        base.covered = max(base.covered, count)
    steps = [step * values.itemsize for step in stride]
    view = np.lib.stride_tricks.as_strided(values[offset:], size, steps, writeable=False)
    return np.array(view) if count else np.zeros(size if count else 0, values.dtype)
