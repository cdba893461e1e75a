"""A folder in a zip archive, unpacked within limits on size."""

import stat
import zipfile
from pathlib import Path, PurePosixPath

from bayesrecon.errors import BayesreconError
from bayesrecon.untrusted.size_limits import check_declared
from bayesrecon.untrusted.zip_inventory import around_members

MOST_FILES = 100_000
"""An archive of more members than this is refused: each takes a file."""

_SOME = 2**16  # bytes of a member that was written again
_SLICE = 2**22  # bytes unpacked at once


class ZipFolder:
    """An archive whose members are the files of a folder.

    >>> with zipfile.ZipFile("fit.zarr.zip", "w") as archive:
    ...     archive.writestr("posterior/zarr.json", "{}")
    >>> Path("out").mkdir()
    >>> ZipFolder(Path("fit.zarr.zip")).unpack("out")
    >>> Path("out/posterior/zarr.json").read_text()
    '{}'
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def close(self) -> None:
        """Do nothing: the file is opened for each call."""

    def unpack(self, folder: str, trusted: bool = False) -> None:
        """Write the members into an existing empty folder.

        Raises:
            BayesreconError: a member outside the folder, a link, too many members, or more than the
                archive could hold.
        """
        with zipfile.ZipFile(self._path) as archive:
            members = [one for one in archive.infolist() if not one.is_dir()]
            if len(members) > MOST_FILES:
                raise BayesreconError(f"{self._path}: {len(members)} members, more than {MOST_FILES}, refused")
            if not trusted:
                check_declared(self._path, sum(one.file_size for one in members), self._path.stat().st_size)
            for member in {
                one.filename: one for one in members
            }.values():  # zarr writes metadata again: the last counts
                self._write(archive, member, Path(folder))

    def _write(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
        parts = PurePosixPath(member.filename).parts
        if not parts or ".." in parts or "\\" in member.filename or ":" in parts[0] or parts[0] == "/":
            raise BayesreconError(f"{self._path}: {member.filename[:80]!r} lies outside its folder, refused")
        if stat.S_ISLNK(member.external_attr >> 16):
            raise BayesreconError(f"{self._path}: {member.filename[:80]!r} is a link, refused")
        target = folder.joinpath(*parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        remaining = member.file_size  # what comes out counts, not what is declared
        with archive.open(member) as source, target.open("xb") as file:
            while some := source.read(_SLICE):
                remaining -= len(some)
                if remaining < 0:
                    raise BayesreconError(f"{self._path}: {member.filename[:80]!r} unpacks to more than it declares")
                file.write(some)

    def beside(self) -> list[tuple[str, bytes]]:
        """Place and first bytes of everything besides the members, and of members that were replaced."""
        found = around_members(self._path)
        with zipfile.ZipFile(self._path) as archive:
            members = archive.infolist()
            last = {one.filename: one for one in members}
            for member in members:
                if member is not last[member.filename]:
                    with archive.open(member) as old, archive.open(last[member.filename]) as new:
                        some = old.read(_SOME)
                        if some != new.read(_SOME) or member.file_size != last[member.filename].file_size:
                            found.append((f"an earlier {member.filename}", some))
        return found
