"""Reading draws of any format, which is found from the suffix of a path or from the attributes of an object.

Every module of `bayesrecon.posteriors` that has `FORMAT` is a format (`formats.format.Format`) or several, and so is a
plug-in.
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import NoReturn

from bayesrecon.arrays import Progress
from bayesrecon.discovery import discover, plugins
from bayesrecon.errors import BayesreconError, beside
from bayesrecon.posteriors.contents import Contents, Unread, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws
from bayesrecon.posteriors.formats.exports import content_of, other_tool
from bayesrecon.posteriors.formats.format import Format, of_plugin


@cache
def formats() -> tuple[Format, ...]:
    """All formats, by rank."""
    found: list[Format | tuple[Format, ...]] = discover("bayesrecon.posteriors", "FORMAT")
    builtin = [kind for one in found for kind in (one if isinstance(one, tuple) else (one,))]

    def wrong(name: str, plugin: object, before: Mapping[str, Format]) -> str:
        if not isinstance(plugin, Format):
            return "it is no Format"
        taken = {s: f.name for f in (*builtin, *before.values()) if f.claims is None for s in f.suffixes}
        doubled = [suffix for suffix in plugin.suffixes if suffix in taken and plugin.claims is None]
        return f"{doubled[0]} is of {taken[doubled[0]]}; define claims= to say which files are yours" if doubled else ""

    added = [of_plugin(plugin) for plugin in plugins("formats", wrong).by_name.values()]
    return tuple(sorted([*builtin, *added], key=lambda f: f.rank))


@cache
def suffixes() -> Mapping[str, Format]:
    """File name suffix -> format (read-only)."""
    # Formats without claims come last, so that of several formats of a suffix theirs is the default.
    ordered = sorted(formats(), key=lambda f: f.claims is None)
    first = {suffix: f for f in formats() for suffix in f.suffixes}
    return MappingProxyType(first | {suffix: f for f in ordered for suffix in f.suffixes})


def format_of(path: Path) -> Format:
    """The format of a file of a known suffix: the first that claims the file, or the one that makes no claims."""
    suffix = suffix_of(path)
    for kind in formats():
        if suffix in kind.suffixes and kind.claims is not None and path.is_file() and kind.claims(path):
            return kind
    return suffixes()[suffix]


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The suffix that says a file's format: the last two parts if they are known, else the last.

    >>> suffix_of("fit-1.CSV.gz"), suffix_of("a.b.nc")
    ('.csv.gz', '.nc')
    """
    parts = [part.lower() for part in Path(path).suffixes]
    two = "".join(parts[-2:])
    return two if two in suffixes() else (parts or [""])[-1]


def read_draws(source: object, *, name: str | None = None, trusted: bool = False) -> Draws:
    """Draws from a file or an object.

    Args:
        source: a path ending in one of `suffixes()`; a list of paths, one per chain, of CmdStan's
            `.csv` or of chains as text; a dictionary of arrays `(chains, draws, *shape)`; `Draws`; an ArviZ
            InferenceData or xarray DataTree; a CmdStanPy fit; a NumPyro MCMC that has run.
        name: for display; from the file's name unless given.
        trusted: a file of your own: HDF5 is read in this process, and there are no limits on time and memory.

    Raises:
        BayesreconError: no such file, an unknown suffix or object, or what the reader in question raises.
        MissingExtraError: a `.zarr` directory, and zarr is not installed.

    Example:
        >>> import numpy as np
        >>> read_draws({"beta": np.zeros((4, 100, 3))}).values["beta"].shape
        (4, 100, 3)
    """
    if isinstance(source, Draws):
        return source
    located = _of_paths(source)
    if located is None:
        return _of_object(source).draws(source, name=name)
    kind, paths = located
    return kind.draws(paths if len(paths) > 1 else paths[0], name=name, **kind.options(trusted))


def read_contents(
    source: object, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Everything in a file or an object.

    Args:
        source: what `read_draws` takes.
        name: for display.
        progress: called with a label and the fraction read.
        trusted: as in `read_draws`.

    Raises:
        BayesreconError: no such file, an unknown suffix, damage, or nothing to audit in it.

    >>> import numpy as np
    >>> contents = read_contents({"beta": np.zeros((2, 50)), "log_lik": np.zeros((2, 50, 7))})
    >>> contents.groups, contents.group("log_likelihood")[0].shape
    (['posterior', 'log_likelihood'], (7,))
    """
    if isinstance(source, Contents):
        return source
    if isinstance(source, Draws):
        return from_named_draws(source, "draws", sign="the type Draws")
    located = _of_paths(source, audited=True)
    if located is None:
        return _of_object(source).contents(source, name=name, progress=progress)
    kind, paths = located
    return kind.contents(paths if kind.several else paths[0], name=name, progress=progress, **kind.options(trusted))


def _of_paths(source: object, audited: bool = False) -> tuple[Format, list[Path]] | None:
    """The format of a path or a list of paths, and the paths; None for other objects.

    Of a file that nothing here reads an audit searches the bytes.
    """
    if isinstance(source, str | os.PathLike):
        listed = [source]
    elif isinstance(source, Sequence) and not isinstance(source, bytes):
        listed = list(source)
    else:
        return None
    if not listed or not all(isinstance(path, str | os.PathLike) for path in listed):
        raise BayesreconError("a list of draws must be a list of CmdStan .csv paths, one per chain")
    paths = [Path(path) for path in listed]
    if len(paths) == 1 and paths[0].is_file():
        known = suffix_of(paths[0]) in suffixes()
        if other_tool(paths[0], known) or (audited and not known):
            return _OTHER, paths
    for path in paths:
        suffix = suffix_of(path)
        if suffix not in suffixes():
            if path.is_dir():
                raise BayesreconError(f"{path} is a folder; name a file in it, or a zarr store, a folder named *.zarr")
            known = ", ".join(suffixes())
            told = other_tool(path, False)
            hint = f"; it looks like {told[0]}: {told[1]}" if told else ""
            raise BayesreconError(f"{path}: unknown suffix {suffix!r}{hint}; known suffixes: {known}")
        kind = format_of(path)
        if not kind.takes(paths) or kind is not format_of(paths[0]):
            raise BayesreconError(f"{path}: several files must be CmdStan chains, with names that end in .csv")
    for path in paths:
        if not path.exists():
            raise BayesreconError(f"{path}: no such file{beside(path)}")
        if path.is_dir() != format_of(path).directory:
            raise BayesreconError(f"{path} is {'a directory' if path.is_dir() else 'not a directory'}")
    return format_of(paths[0]), paths


def _told(path: Path) -> str:
    tool, export = other_tool(path, suffix_of(path) in suffixes()) or (
        f"in no format that is read ({path.suffix or 'no suffix'})",
        "draws are best written as .nc, tables as .csv",
    )
    return f"this is {tool}; not read; {export}"


def _refuse(source: Path, *, name: str | None = None) -> NoReturn:
    raise BayesreconError(f"{source}: {_told(source)}")


def _not_read(source: Path, *, name: str | None = None, progress: Progress | None = None) -> Contents:
    """A note that the file was not read, with its bytes."""
    unread = Unread(source.name, _told(source), content_of(source))
    return Contents(name or source.name, "file of another tool", (stamp(source),), unread=(unread,))


_OTHER = Format("file of another tool", (), _refuse, _not_read)


def _of_object(source: object) -> Format:
    for kind in formats():
        if kind.holds(source):
            return kind
    module = type(source).__module__.partition(".")[0]
    whose = "" if module == "builtins" else f" of {module}"
    raise BayesreconError(
        f"cannot read draws from a {type(source).__name__}{whose}; pass {{name: array (chains, draws, *shape)}}"
    )
