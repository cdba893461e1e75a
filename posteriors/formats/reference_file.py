"""Draws from a file in posteriordb's layout."""

from pathlib import Path

from bayesrecon.arrays import Progress
from bayesrecon.posteriors.contents import Contents, from_named_draws, stamp
from bayesrecon.posteriors.fitting.database import read_draws_file
from bayesrecon.posteriors.formats.format import Format


def _contents(
    path: Path, *, name: str | None = None, progress: Progress | None = None, trusted: bool = False
) -> Contents:
    draws = read_draws_file(path, name=name, trusted=trusted)
    several = draws.chains > 1 or any(values.ndim > 2 for values in draws.values.values())
    sign = "chains in posteriordb's layout" if several else ""  # of one chain, each name may be a column of records
    return from_named_draws(draws, "posteriordb JSON", (stamp(path),), sign=sign)


FORMAT = Format("posteriordb JSON", (".json", ".zip"), read_draws_file, _contents, guarded=True)
