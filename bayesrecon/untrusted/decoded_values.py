"""Numbers and texts encoded in a text or in bytes: as JSON, base64, hexadecimal digits or gzip, one level deep."""

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterable, Iterator

import numpy as np

NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_MOST_NUMBERS, _MOST_BYTES = 100_000, 2**24  # largest amounts that are examined, since a file can hold any amount
_BASE64, _HEX = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}"), re.compile(r"(?:[0-9a-fA-F]{2}){12,}")

Part = str | np.ndarray


def layers(value: object) -> list[Part]:
    """The value itself, and the values that it encodes.

    >>> [part.tolist() for part in layers('{"age": [41, 63, 17]}') if not isinstance(part, str)]
    [[41.0, 63.0, 17.0]]
    >>> import base64
    >>> layers(base64.b64encode(np.array([41.5, 63.25, 17.0]).tobytes()).decode())[1].tolist()
    [41.5, 63.25, 17.0]
    """
    parts = list(_direct(value))
    texts = [part for part in parts if isinstance(part, str)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "US" and value.size <= 1000:
        texts += [str(v) for v in value.ravel()]
    for text in texts:
        for content in _decoded(text.strip()):
            parts += _of_bytes(content)
    if isinstance(value, bytes):
        parts += _of_bytes(value)
    return parts


def _direct(value: object) -> Iterator[Part]:
    if isinstance(value, bytes):
        return
    if isinstance(value, str):
        yield value
        yield from _in_text(value)
        return
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unequal lengths
        array = np.asarray([str(v) for v in value] if isinstance(value, Iterable) else str(value))
    if array.dtype.kind in "biuf":
        yield array
    elif array.dtype.kind == "c":
        yield np.stack([np.real(array), np.imag(array)])
    elif array.dtype.kind == "O" and array.ndim == 0:
        yield str(value)
    else:
        texts = np.asarray([str(v) for v in array.ravel()], dtype=str)
        yield texts
        numbers = as_numbers(texts)
        if numbers is not None:
            yield numbers


def _in_text(text: str) -> Iterator[Part]:
    """Numbers and texts of a JSON document, or the numbers of a text that is little else."""
    if len(text) < 3:
        return
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        matches = NUMBER.findall(text[: 40 * _MOST_NUMBERS])[:_MOST_NUMBERS]
        if len(matches) >= 3 and sum(map(len, matches)) + text.count(",") + text.count(" ") > 0.5 * len(text):
            yield np.array([float(n) for n in matches])
        return
    if isinstance(content, list | dict):
        numbers, texts = [], []
        _gather(content, numbers, texts)
        if numbers:
            yield np.array(numbers)
        if texts:
            yield np.asarray(texts, dtype=str)


def _gather(content: object, numbers: list[float], texts: list[str]) -> None:
    waiting = [content]
    while waiting and len(numbers) + len(texts) < _MOST_NUMBERS:
        item = waiting.pop(0) if len(waiting) < 1000 else waiting.pop()
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()] if not all(map(str.isidentifier, item)) else item.values()
        elif isinstance(item, list):
            if all(isinstance(v, int | float) and not isinstance(v, bool) for v in item):
                numbers += [_float(v) for v in item]
            else:
                waiting += item
        elif isinstance(item, bool | int | float):
            numbers.append(_float(item))
        elif item is not None:
            texts.append(str(item))


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def as_numbers(texts: np.ndarray) -> np.ndarray | None:
    """Texts that all are numbers."""
    try:
        return np.array([float(t) for t in texts.ravel()])
    except ValueError:
        return None


def _decoded(text: str) -> Iterator[bytes]:
    if len(text) > _MOST_BYTES:
        return
    if _HEX.fullmatch(text):
        yield bytes.fromhex(text)
    elif _BASE64.fullmatch(text):
        try:
            yield base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError):
            return


def _of_bytes(content: bytes) -> list[Part]:
    """Numbers or a text. Compressed bytes are decompressed once, up to a limit."""
    if content[:2] == b"\x1f\x8b" or content[:1] == b"\x78":
        try:
            content = zlib.decompressobj(47).decompress(content, _MOST_BYTES)
        except zlib.error:
            return []
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and (text.isprintable() or any(c in text for c in "\n\t")):
        return [text, *_in_text(text)]
    parts: list[Part] = []
    for kind in ("<f8", "<f4", "<i8", "<i4"):
        if len(content) % np.dtype(kind).itemsize == 0 and len(content) >= 3 * np.dtype(kind).itemsize:
            with np.errstate(all="ignore"):
                values = np.frombuffer(content, kind).astype(float)
            size = np.abs(values[np.isfinite(values) & (values != 0)])
            if np.isfinite(values).all() and size.size and size.min() > 1e-12 and size.max() < 1e12:
                parts.append(values)
    return parts
