"""Draws from a zip archive of a zarr folder, as nutpie and zarr's ZipStore write it."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bayesrecon.arrays import Progress
from bayesrecon.errors import reading
from bayesrecon.posteriors.contents import Contents, stamp
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.arviz import read_arviz
from bayesrecon.posteriors.formats.arviz_contents import read_arviz_contents
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import asked
from bayesrecon.untrusted.packed import unpack_folder


@contextmanager
def _unpacked(path: Path, trusted: bool) -> Generator[Path]:
    """The unpacked folder, which is deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="bayesrecon-") as parent:
        folder = Path(parent, path.name.split(".")[0] + ".zarr")
        folder.mkdir()
        with reading(path, "a zip archive"):
            asked(unpack_folder, path, str(folder), trusted, trusted=trusted)
        inner = sorted(folder.iterdir())
        nested = len(inner) == 1 and inner[0].is_dir() and inner[0].suffix == ".zarr"  # zipped with its own name
        yield inner[0] if nested else folder


def read_zarr_zip(source: str | Path, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws as `read_arviz` reads them from the folder.

    Raises:
        BayesreconError: an archive that reaches out of its folder or holds more than it could, or what `read_arviz`
            refuses.
        MissingExtraError: zarr is not installed.
    """
    path = Path(source)
    with reading(path, "a zipped zarr folder"), _unpacked(path, trusted) as folder:
        return read_arviz(folder, name=name or path.name.split(".")[0], trusted=trusted)


def _contents(
    path: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    with reading(path, "a zipped zarr folder"), _unpacked(path, trusted) as folder:
        title = name or path.name.split(".")[0]
        result = read_arviz_contents(folder, name=title, progress=progress, trusted=trusted)
    return replace(result, format="zipped zarr", files=(stamp(path),))


FORMAT = Format("zipped zarr", (".zarr.zip",), read_zarr_zip, _contents, guarded=True)
