"""Draws from a file in posteriordb's layout."""

from pathlib import Path

from bayesrecon.posteriors.contents import Contents, from_named_draws, stamp
from bayesrecon.posteriors.database import read_draws_file
from bayesrecon.posteriors.format import Format
from bayesrecon.types import Progress


def _contents(
    path: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    return from_named_draws(read_draws_file(path, name=name, trusted=trusted), "posteriordb JSON", (stamp(path),))


FORMAT = Format("posteriordb JSON", (".json", ".zip"), read_draws_file, _contents, guarded=True)
