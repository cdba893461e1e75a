"""A folder in a zip archive, unpacked within limits on size."""

import stat
import zipfile
from pathlib import Path, PurePosixPath

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.size_limits import check_declared

MOST_FILES = 100_000
"""An archive of more members than this is refused: each takes a file."""

_SLICE = 2**22  # bytes unpacked at once


def unpack_folder(path: Path, folder: str, trusted: bool = False) -> None:
    """Write the members into an existing empty folder.

    Raises:
        BayesreconError: a member outside the folder, a link, too many members, or more than the
            archive could hold.

    >>> with zipfile.ZipFile("fit.zarr.zip", "w") as archive:
    ...     archive.writestr("posterior/zarr.json", "{}")
    >>> Path("out").mkdir()
    >>> unpack_folder(Path("fit.zarr.zip"), "out")
    >>> Path("out/posterior/zarr.json").read_text()
    '{}'
    """
    with zipfile.ZipFile(path) as archive:
        members = [one for one in archive.infolist() if not one.is_dir()]
        if len(members) > MOST_FILES:
            raise BayesreconError(f"{path}: {len(members)} members, more than {MOST_FILES}, refused")
        if not trusted:
            check_declared(path, sum(one.file_size for one in members), path.stat().st_size)
        last = {one.filename: one for one in members}  # zarr writes metadata again: the last counts
        for member in last.values():
            _write(path, archive, member, Path(folder))


def _write(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
    parts = PurePosixPath(member.filename).parts
    if not parts or ".." in parts or "\\" in member.filename or ":" in parts[0] or parts[0] == "/":
        raise BayesreconError(f"{path}: {member.filename[:80]!r} lies outside its folder, refused")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise BayesreconError(f"{path}: {member.filename[:80]!r} is a link, refused")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    remaining = member.file_size  # what comes out counts, not what is declared
    with archive.open(member) as source, target.open("xb") as file:
        while some := source.read(_SLICE):
            remaining -= len(some)
            if remaining < 0:
                raise BayesreconError(f"{path}: {member.filename[:80]!r} unpacks to more than it declares")
            file.write(some)
