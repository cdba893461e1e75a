"""Saved objects of Python: pickles, files of joblib, torch, skops, safetensors, ONNX and PMML. Nothing is unpickled."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.posteriors.contents import Contents, Saved, Unread, stamp
from bayesrecon.posteriors.fits.saved.entries import parts_of
from bayesrecon.posteriors.fits.saved.fits_of_saved import fits_of
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.saved.file import SavedFile

if TYPE_CHECKING:
    from bayesrecon.releases import Release

SUFFIXES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".skops", ".safetensors", ".onnx", ".pmml")
"""Suffixes of files that are read as saved objects."""


def read_saved(
    source: str | os.PathLike[str], *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    """Everything in a file of saved objects, without unpickling any of it.

    An interpreter that imports nothing and calls nothing reads the opcodes of pickles, and describes the objects that
    they would create. Only arrays of plain types are read.

    Raises:
        BayesreconError: the file does not exist, is damaged or is not a saved object.

    >>> import numpy as np
    >>> from bayesrecon.untrusted.saved.file import SavedFile
    >>> _ = Path("hostile.pkl").write_bytes(b"cos\\nsystem\\n(S'echo'\\ntR.")
    >>> read_saved("hostile.pkl").saved.names
    (('os', 'system', True),)
    """
    path = Path(source)
    with reading(path, "a saved object"), opened(SavedFile, path, trusted) as file:
        content = file.everything()
        objects = tuple((str(where), str(class_name)) for where, class_name in content["objects"])
        fits = fits_of(objects, file.values)
        parts = parts_of(content["items"], objects)
    names = tuple((str(module), str(attribute), bool(called)) for module, attribute, called in content["names"])
    return Contents(
        name or path.stem,
        f"saved object ({content['form']})",
        (stamp(path),),
        entries=parts,
        unread=tuple(Unread(str(where), str(reason)) for where, reason in content["unread"]),
        saved=Saved(objects, names, tuple(map(str, content["code"])), fits),
    )


def release_of_saved(source: object, model: object, power: float | None) -> "Release | None":
    """The only fit in a file of saved objects; None if the source is anything else.

    Raises:
        BayesreconError: the file has no supported fit or several, or a model or a power is stated.
    """
    if not isinstance(source, str | os.PathLike) or Path(source).suffix.lower() not in SUFFIXES:
        return None
    if model is not None or power is not None:
        raise BayesreconError("a saved model needs no model= or power=; omit them")
    contents = read_saved(source)
    fits = contents.saved.fits if contents.saved is not None else ()
    releases = [fit.release for fit in fits if fit.release is not None]
    if len(releases) == 1:
        return releases[0]
    reason = f"{len(releases)} fits" if releases else fits[0].reason if fits else "no fit of a supported kind"
    raise BayesreconError(f"{source}: it holds {reason}; bayesrecon audit lists its content")


def _no_draws(source: object, *, name: str | None = None, trusted: bool = False) -> NoReturn:
    raise BayesreconError(f"{source}: a saved object is not a file of draws; bayesrecon audit lists its content")


FORMAT = Format("saved object", SUFFIXES, _no_draws, read_saved, rank=80, guarded=True)


SOURCE = release_of_saved
