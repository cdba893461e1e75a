"""An HDF5 file as plain descriptions and arrays. Files that refer to other files are refused.

HDF5 follows external links, builds virtual datasets from other files, and reads raw data from any file that a dataset
names. A malicious file could therefore copy files of this machine into a report.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from bayesrecon.errors import BayesreconError
from bayesrecon.json_types import Json
from bayesrecon.untrusted.hdf5_inventory import (
    Members,
    address,
    inventory,
    is_bare_dimension,
    is_of_format,
    is_readable,
    opened_item,
)
from bayesrecon.untrusted.plain_values import ArrayReader, Inventory, Key

if TYPE_CHECKING:
    import h5py

_HARD, _SOFT = 0, 1  # kinds of links, as HDF5 counts them
_SCALE = b"DIMENSION_SCALE"
_RENAMED = "_nc4_non_coord_"  # prefix of a variable with the name of a dimension that it does not belong to


class HDF5File(ArrayReader):
    """An open HDF5 file. It describes groups and reads arrays as plain data.

    Raises:
        BayesreconError: the file contains an external link, a virtual dataset or external storage.

    >>> import h5py
    >>> with h5py.File("fit.h5", "w") as file:
    ...     file["posterior/mu"] = [[1.0, 2.0]]
    ...     file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/")
    >>> HDF5File(Path("fit.h5"))
    Traceback (most recent call last):
    bayesrecon.errors.BayesreconError: fit.h5: '/elsewhere' is an external link, into another file; refused
    """

    def __init__(self, path: Path) -> None:
        import h5py

        self._file, self._path = h5py.File(path, "r"), path
        try:
            self._members = members_within(self._file, path)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def describe(self, groups: Sequence[str] | None = None) -> Json:
        """The contents of the file, without the values.

        Args:
            groups: names of the groups whose variables are described; by default all groups at the root.

        Returns:
            `attributes` of the root, names of all `groups` at the root, and by group, in `contents`, its `attributes`,
            the `size` in bytes that its arrays declare, and its `variables`: `shape`, `dtype` (None for text),
            `dimensions`, `attributes`, and the `name` in the file.
        """
        import h5py

        names = [key for key, item in self._items(self._file) if isinstance(item, h5py.Group)]
        wanted = names if groups is None else [name for name in names if name in groups]
        return {
            "attributes": attributes_of(self._file),
            "groups": names,
            "contents": {name: self.describe_group(name) for name in wanted},
        }

    def describe_group(self, name: str) -> Json:
        """The description of one group, as in `describe`. It may be nested, or the root, "/"."""
        import h5py

        group = self._file[name]
        assert isinstance(group, h5py.Group)
        scales, variables, size = self._scales(group), {}, 0
        for key, item in self._items(group):
            if not isinstance(item, h5py.Dataset):
                continue
            size += _declared(item)
            if not is_bare_dimension(item) and is_readable(item):
                variables[key.removeprefix(_RENAMED)] = {
                    "name": f"{name.rstrip('/')}/{key}",
                    "shape": list(item.shape),
                    "dtype": None if _is_text(item) else item.dtype.str,
                    "dimensions": _dimensions(item, scales),
                    "attributes": attributes_of(item),
                }
        return {"attributes": attributes_of(group), "variables": variables, "size": size}

    def _items(self, group: "h5py.Group") -> "Iterator[tuple[str, h5py.HLObject | None]]":
        """What is in a group, by name, also by links; None where a link leads nowhere."""
        import h5py

        for key, item in self._members[address(group)].items():
            yield key, cast("h5py.HLObject | None", group.get(key)) if isinstance(item, h5py.SoftLink) else item

    def _scales(self, group: "h5py.Group") -> dict[int, str]:
        """Names of the dimensions that the group and its parents declare, by address."""
        import h5py

        names: dict[int, str] = {}
        while True:
            for key, item in self._items(group):
                if isinstance(item, h5py.Dataset) and "CLASS" in item.attrs and item.attrs["CLASS"] == _SCALE:
                    names[address(item)] = key.removeprefix(_RENAMED)
            if group.name == "/":
                return names
            parent = group.parent
            assert isinstance(parent, h5py.Group)
            group = parent

    def inventory(self) -> Inventory:
        """Everything that `describe` omits (`bayesrecon.untrusted.hdf5_inventory`)."""
        return inventory(self._file, self._path, self._members)

    def read(self, name: str, key: Key) -> np.ndarray:
        """Values of the array with this name. Text is an array of objects."""
        import h5py

        item = self._file[name]
        assert isinstance(item, h5py.Dataset)
        key = tuple(key)
        if _is_text(item):
            return np.asarray(item.asstr(errors="backslashreplace")[key], object)
        return np.asarray(item[key])


def members_within(file: "h5py.File", path: Path) -> Members:
    """Everything in a file, opened once. Soft links are not followed: their targets are visited anyway.

    Raises:
        BayesreconError: it refers to other files.
    """
    import h5py

    waiting: list[h5py.Group] = [file]
    members: Members = {address(file): {}}
    while waiting:
        group = waiting.pop()
        for key in map(str, group):
            where, name = f"{(group.name or '').rstrip('/')}/{key}", key.encode("utf-8", "surrogateescape")
            kind = group.id.links.get_info(name).type
            if kind not in (_HARD, _SOFT):
                raise BayesreconError(f"{path}: {where[:80]!r} is an external link, into another file; refused")
            item = opened_item(group, name) if kind == _HARD else cast(h5py.SoftLink, group.get(key, getlink=True))
            members[address(group)][key] = item
            if isinstance(item, h5py.Dataset):
                _check_storage(item, where, path)
            elif isinstance(item, h5py.Group) and address(item) not in members:
                members[address(item)] = {}
                waiting.append(item)
    return members


def _check_storage(item: "h5py.Dataset", where: str, path: Path) -> None:
    import h5py

    plist = item.id.get_create_plist()
    layout = plist.get_layout()
    if layout == h5py.h5d.VIRTUAL:
        raise BayesreconError(f"{path}: {where[:80]!r} is a virtual dataset, made of other files; refused")
    if plist.get_external_count():
        raise BayesreconError(f"{path}: {where[:80]!r} has external storage, in another file; refused")


def attributes_of(item: "h5py.HLObject") -> dict[str, object]:
    """Attributes of a group or dataset that are not part of the file format."""
    import h5py

    attributes, stored = dict[str, object](), item.attrs
    for key in stored:
        if not is_of_format(key):
            value = stored[key]
            if isinstance(value, h5py.Empty):
                value = ""
            elif np.ndim(value) and np.size(value) == 1:
                value = np.asarray(value).reshape(-1)[0]
            attributes[key] = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return attributes


def _declared(item: "h5py.Dataset") -> int:
    """Size in memory, in bytes: eight or more per number, plus one unpacked chunk."""
    return ((item.size or 0) + math.prod(item.chunks or (0,))) * max(8, item.dtype.itemsize)


def _is_text(item: "h5py.Dataset") -> bool:
    import h5py

    text = h5py.check_string_dtype(item.dtype)
    return text is not None and text.length is None


def _dimensions(item: "h5py.Dataset", names: dict[int, str]) -> list[str]:
    import h5py

    def name_of(reference: "h5py.Reference") -> str | None:
        return names.get(h5py.h5o.get_info(h5py.h5r.dereference(reference, item.id)).addr)  # pyright: ignore

    attributes = item.attrs
    if "DIMENSION_LIST" in attributes:
        listed = [group[0] if len(group) else None for group in np.asarray(attributes["DIMENSION_LIST"])]
        dimensions = [name_of(ref) if ref else None for ref in listed]
    else:  # a dimension scale is its own dimension
        dimensions = [names.get(address(item))] if item.ndim == 1 else [None] * item.ndim
    return [name or f"dim_{k}" for k, name in enumerate(dimensions)]
