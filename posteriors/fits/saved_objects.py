"""Saved objects of Python: pickles, files of joblib, torch, skops, safetensors, ONNX and PMML. Nothing is unpickled."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.arrays import Progress
from bayesrecon.errors import BayesreconError, reading
from bayesrecon.json_types import Json
from bayesrecon.posteriors.contents import Contents, Saved, Unread, from_named_draws, stamp
from bayesrecon.posteriors.draws import Draws, is_numeric
from bayesrecon.posteriors.fits.saved.entries import parts_of
from bayesrecon.posteriors.fits.saved.fits_of_saved import fits_of
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.posteriors.formats.npz import from_arrays
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
        draws = _draws_of(content["items"], name or path.stem)
    names = tuple((str(module), str(attribute), bool(called)) for module, attribute, called in content["names"])
    form = f"saved object ({content['form']})"
    result = Contents(name or path.stem, form, (stamp(path),), entries=parts)
    if draws is not None:
        others = tuple(part for part in parts if part.kind != "array" and str(part.values) not in draws.values)
        result = from_named_draws(draws, form, result.files, entries=others)
    unread = tuple(Unread(str(where), str(reason)) for where, reason in content["unread"])
    return replace(result, unread=unread, saved=Saved(objects, names, tuple(map(str, content["code"])), fits))


def _draws_of(items: Sequence[Json], name: str) -> Draws | None:
    """The arrays of a dictionary that holds nothing else and whose arrays have the same length; otherwise None."""
    values = [item for item in items if item["kind"] != "name"]
    if not values or any(len(item["path"]) != 1 or item["path"][0][0] != "/" for item in values):
        return None
    arrays = {item["path"][0][1:]: np.asarray(item["values"]) for item in values}
    if not all(is_numeric(array.dtype) and array.ndim for array in arrays.values()):
        return None
    if any(name.isdigit() for name in arrays) or max(map(len, arrays.values())) == 1:  # places in a list, and scalars
        return None
    try:
        return from_arrays(arrays, name=name)
    except BayesreconError:  # other shapes than those of draws
        return None


def release_of_saved(source: object, model: object, power: float | None) -> "Release | None":
    """The only fit in a file of saved objects; None if the source is anything else."""
    if not isinstance(source, str | os.PathLike) or Path(source).suffix.lower() not in SUFFIXES:
        return None
    contents = read_saved(source)
    if contents.draws is not None:
        return None
    if model is not None or power is not None:
        raise BayesreconError("a saved model needs no model= or power=; omit them")
    fits = contents.saved.fits if contents.saved is not None else ()
    releases = [fit.release for fit in fits if fit.release is not None]
    if len(releases) == 1:
        return releases[0]
    reason = f"{len(releases)} fits" if releases else fits[0].reason if fits else "no fit of a supported kind"
    raise BayesreconError(f"{source}: it holds {reason}; bayesrecon audit lists its content")


def _read_draws(source: str | os.PathLike[str], *, name: str | None = None, trusted: bool = False) -> Draws:
    """The draws in a dictionary of arrays, such as `mcmc.get_samples()`."""
    draws = read_saved(source, name=name, trusted=trusted).draws
    if draws is None:
        raise BayesreconError(f"{source}: a saved object is not a file of draws; bayesrecon audit lists its content")
    return draws


FORMAT = Format("saved object", SUFFIXES, _read_draws, read_saved, rank=80, guarded=True)


SOURCE = release_of_saved
