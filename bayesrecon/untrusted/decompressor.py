"""What objects of zlib, bz2 and lzma that unpack a stream have in common."""

from typing import Protocol


class Decompressor(Protocol):
    """Objects of zlib, bz2 and lzma that unpack a stream."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...
