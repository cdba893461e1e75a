"""Stan programs by their path."""

from collections.abc import Mapping
from typing import Any

from bayesrecon.model import Model
from bayesrecon.models.described import is_program


def adapted(given: Any, sizes: Mapping[str, tuple[int, ...]] | None = None) -> Model | None:
    """The model of a Stan program; None for anything else."""
    if not is_program(given):
        return None
    from bayesrecon.models.stan import from_stan  # only then: a language takes a fifth of a second to load

    return from_stan(given, sizes=sizes)


ADAPTS = adapted
