"""Tensors of torch from their descriptions: parts of storages, which are plain bytes."""

import numpy as np

from bayesrecon.untrusted.saved.nodes import Made, Named, Storage, Unreadable

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
