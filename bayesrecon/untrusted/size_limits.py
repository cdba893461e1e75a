"""Limits on declared sizes, relative to the actual size of a file."""

from pathlib import Path

from bayesrecon.errors import BayesreconError

FREE = 2**28
"""Files may declare so many bytes whatever their own size."""

RATIO = 100
"""Beyond that, no more than so many times their own size: draws are noise, which compresses little."""

MAX_BYTES = 16 * 2**30
"""And never more than this."""


def check_declared(
    path: Path, declared: int, stored: int, *, most: int = MAX_BYTES, free: int | None = None, ratio: int | None = None
) -> None:
    """Raise an error for a decompression bomb, before anything is allocated.

    Args:
        path: the file, for the message.
        declared: size in memory that the file declares, in bytes.
        stored: size on disk, in bytes.
        most, free, ratio: limits instead of `MAX_BYTES`, `FREE` and `RATIO`.

    Raises:
        BayesreconError: the declared size is above the limits.

    >>> check_declared(Path("fit.npz"), declared=3 * 2**30, stored=3 * 2**20)
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: fit.npz: declares 3.0 GiB of arrays in 3.0 MiB of file, refused
    """
    if declared > most:
        raise BayesreconError(f"{path}: declares {_size(declared)} of arrays, refused")
    if declared > max(FREE if free is None else free, (RATIO if ratio is None else ratio) * stored):
        raise BayesreconError(f"{path}: declares {_size(declared)} of arrays in {_size(stored)} of file, refused")


def _size(count: int) -> str:
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}" if count < 10**9 * unit else f"{count // unit:.1e} {name}"
    return f"{count} bytes"
