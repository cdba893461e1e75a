"""Files of R made by hand, as R would never write them, and good ones with something changed."""

import bz2
import gzip
import lzma
import struct
import tracemalloc
import zlib
from pathlib import Path

import numpy as np

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "r"
FILES = sorted(path for path in FIXTURES.iterdir() if path.suffix.lower() in (".rds", ".rdata"))
SMALL = [path for path in FILES if path.stat().st_size < 15_000]

OF_EQUATIONS = [
    path
    for path in SMALL
    if path.name.startswith(("glmer_", "summary_nls", "coxph_lost", "gam_count", "randomForest_ill"))
]
"""Small fits of whose equations counts and sums are solved for."""

NULL, LIST, PAIRS, SYMBOL, CHARS = 254, 19, 2, 1, 9
LOGICAL, INTEGER, DOUBLE, TEXT, ALTERNATIVE, REFERENCE = 10, 13, 14, 16, 238, 255
HAS_ATTRIBUTES, HAS_TAG = 1 << 9, 1 << 10


def whole(*numbers):
    """Whole numbers of four bytes."""
    return b"".join(struct.pack(">i", n) for n in numbers)


def head():
    """The beginning of a stream of R 4.2.2."""
    return b"X\n" + whole(3, 0x040202, 0x030500, 5) + b"UTF-8"


def chars(text):
    """A text."""
    return whole(CHARS | 64 << 12, len(text.encode())) + text.encode()


def symbol(text):
    """A name that stands for the first time."""
    return whole(SYMBOL) + chars(text)


def doubles(*values):
    """A vector of numbers."""
    return whole(DOUBLE, len(values)) + b"".join(struct.pack(">d", v) for v in values)


def sequence(count):
    """`1:count`, as R keeps it."""
    form = whole(PAIRS) + symbol("compact_intseq") + whole(PAIRS) + symbol("base")
    form += whole(PAIRS, INTEGER, 1, INTEGER, NULL)
    return whole(ALTERNATIVE) + form + doubles(count, 1, 1) + whole(NULL)


def nested(depth):
    """A list in a list in a list."""
    return whole(LIST, 1) * depth + whole(NULL)


def pairs(count):
    """A pairlist of so many cells."""
    return whole(PAIRS, NULL) * count + whole(NULL)


HOSTILE = {
    "numbers that are not there": lambda: head() + whole(DOUBLE, 2**27),
    "more numbers than can be": lambda: head() + whole(DOUBLE, -1, 2**20, 0),
    "a length below zero": lambda: head() + whole(DOUBLE, -5),
    "a list of lists that are not there": lambda: head() + whole(LIST, 2**31 - 1),
    "a text longer than the file": lambda: head() + whole(TEXT, 1, CHARS, 2**30),
    "a text that is none": lambda: head() + whole(TEXT, 1, DOUBLE, 0),
    "lists in lists without end": lambda: head() + nested(20_000),
    "an object that is not there": lambda: head() + whole(REFERENCE | 9 << 8),
    "an unknown type": lambda: head() + whole(77),
    "an unknown version": lambda: b"X\n" + whole(9, 0, 0),
    "nothing": lambda: b"",
    "half a head": lambda: head()[:9],
    "another format": lambda: b"PK\x03\x04" + bytes(40),
    "half a stream": lambda: gzip.compress(head() + doubles(*range(1000)))[:-400],
    "a bomb": lambda: gzip.compress(head() + whole(24, 2**27) + bytes(2**27), compresslevel=1),
    "a bomb by xz": lambda: lzma.compress(head() + whole(24, 2**27) + bytes(2**27), preset=0),
    "a bomb of objects": lambda: gzip.compress(head() + whole(LIST, 2**22) + whole(LIST, 0) * 2**22),
}
"""What is refused in one line, made when it is called: bombs take long to pack."""

ODD = {
    "a thousand million numbers in few bytes": lambda: head() + sequence(1e9),
    "a pairlist of a hundred thousand": lambda: head() + pairs(100_000),
    "lists eight thousand deep": lambda: head() + nested(8_000),
    "several streams": lambda: gzip.compress(head()) + gzip.compress(doubles(1.5, 2.5)),
}
"""What is odd and read, made when it is called."""

_PACK = (lambda content: content, gzip.compress, bz2.compress, lambda content: lzma.compress(content, preset=0))
_TYPES = (*range(26), *range(238, 256))
_LENGTHS = (-1, 0, 1, 2, 2**27, 2**31 - 1, -(2**31))
_LONGEST = 2**17  # bytes of a file that was changed


def stream_of(path):
    """A fixture without its compression."""
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        return zlib.decompress(content, 31)
    return (
        bz2.decompress(content)
        if content[:2] == b"BZ"
        else lzma.decompress(content)
        if content[:1] == b"\xfd"
        else content
    )


def mutated(content, others, rng):
    """A stream with some of its numbers, flags and lengths changed, parts repeated, moved or exchanged, packed anew."""
    found = bytearray(content)
    for _ in range(rng.geometric(0.5)):
        at, size = int(rng.integers(len(found) + 1)), int(rng.geometric(0.05))
        match rng.integers(8):
            case 0:
                for k in rng.integers(len(found), size=rng.geometric(0.5)) if found else ():
                    found[k] ^= 1 << int(rng.integers(8))
            case 1:
                found[at : at + size] = rng.bytes(size)
            case 2:
                del found[at : at + size]
            case 3:
                found[at:at] = found[at : at + size] * int(rng.integers(1, 40))
            case 4:  # another type, with attributes or a tag
                flags = int(rng.choice(_TYPES)) | int(rng.integers(8)) << 8 | int(rng.integers(3)) << 12
                found[at : at + 4] = whole(flags)
            case 5:
                found[at : at + 4] = whole(int(rng.choice(_LENGTHS)))
            case 6:
                other = others[rng.integers(len(others))]
                begin = int(rng.integers(len(other)))
                found[at : at + size] = other[begin : begin + 8 * size]
            case 7:
                if rng.random() < 0.3:
                    del found[at:]
    packed = bytearray(_PACK[rng.integers(len(_PACK))](bytes(found[:_LONGEST])))
    if rng.random() < 0.1:
        packed[int(rng.integers(len(packed)))] ^= 1 << int(rng.integers(8))
    return bytes(packed)


def mutations(count, seed=0, of=SMALL):
    """So many changed files, one after another."""
    rng = np.random.default_rng(seed)
    streams = [stream_of(path) for path in of]
    for _ in range(count):
        yield mutated(streams[rng.integers(len(streams))], streams, rng)


def memory_of(read):
    """Bytes that a call takes at most, those of Python and NumPy."""
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
