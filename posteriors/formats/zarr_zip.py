"""Draws from a zip archive of a zarr folder, as nutpie and zarr's ZipStore write it."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bayesrecon.arrays import Progress
from bayesrecon.errors import reading
from bayesrecon.posteriors.contents import Contents, entry_of_bytes, stamp
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.arviz import read_arviz
from bayesrecon.posteriors.formats.arviz_contents import read_arviz_contents
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.zip_folder import ZipFolder


@contextmanager
def _unpacked(path: Path, trusted: bool) -> Generator[tuple[Path, list[tuple[str, bytes]]]]:
    """The unpacked folder, which is deleted afterwards, and other bytes in the archive by place."""
    with tempfile.TemporaryDirectory(prefix="bayesrecon-") as parent:
        folder = Path(parent, path.name.split(".")[0] + ".zarr")
        folder.mkdir()
        with reading(path, "a zip archive"), opened(ZipFolder, path, trusted) as file:
            file.unpack(str(folder), trusted)
            beside = file.beside()
        inner = sorted(folder.iterdir())
        nested = len(inner) == 1 and inner[0].is_dir() and inner[0].suffix == ".zarr"  # zipped with its own name
        yield (inner[0] if nested else folder), beside


def read_zarr_zip(source: str | Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws as `read_arviz` reads them from the folder.

    Raises:
        BayesreconError: an archive that reaches out of its folder or holds more than it could, or what `read_arviz`
            refuses.
        MissingExtraError: zarr is not installed.
    """
    path = Path(source)
    with reading(path, "a zipped zarr folder"), _unpacked(path, trusted) as (folder, _):
        return read_arviz(folder, name=name or path.name.split(".")[0], trusted=trusted)


def _contents(
    path: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    with reading(path, "a zipped zarr folder"), _unpacked(path, trusted) as (folder, beside):
        title = name or path.name.split(".")[0]
        result = read_arviz_contents(folder, name=title, progress=progress, trusted=trusted)
    entries = (*result.entries, *(entry_of_bytes(*item) for item in beside))
    return replace(result, format="zipped zarr", files=(stamp(path),), entries=entries)


FORMAT = Format("zipped zarr", (".zarr.zip",), read_zarr_zip, _contents, guarded=True)
