"""The common interface of the decompressors of zlib, bz2 and lzma."""

from typing import Protocol


class Decompressor(Protocol):
    """A decompressor of zlib, bz2 or lzma."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...
