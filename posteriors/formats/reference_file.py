"""Draws from a file in posteriordb's layout."""

from dataclasses import replace
from pathlib import Path

from bayesrecon.arrays import Progress
from bayesrecon.errors import reading
from bayesrecon.posteriors.contents import Contents, entry_of_bytes, from_named_draws, stamp
from bayesrecon.posteriors.fitting.database import read_draws_file
from bayesrecon.posteriors.formats.format import Format
from bayesrecon.untrusted.guarded import opened
from bayesrecon.untrusted.json_file import JsonFile


def _contents(
    path: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    draws = read_draws_file(path, name=name, trusted=trusted)
    with reading(path.name, "JSON"), opened(JsonFile, path, trusted) as file:
        entries = tuple(entry_of_bytes(*item) for item in file.beside())
    return replace(from_named_draws(draws, "posteriordb JSON", (stamp(path),)), entries=entries)


FORMAT = Format("posteriordb JSON", (".json", ".zip"), read_draws_file, _contents, guarded=True)
