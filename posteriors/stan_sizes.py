"""Sizes of the parameters of a Stan program, from draws."""

from collections.abc import Sequence
from typing import Any

from bayesrecon.posteriors.formats import read_draws


def sizes_of_draws(sources: Sequence[Any]) -> dict[str, tuple[int, ...]]:
    """`{variable: shape}` of everything in files of draws, chains of one fit; nothing where none is a file of draws."""
    from bayesrecon.posteriors.door import is_file

    files = [s for s in sources if is_file(s)]
    if not files:
        return {}
    table = read_draws(files[0])
    return {name: values.shape[2:] for name, values in table.values.items()}
