"""Stan programs by their path."""

from collections.abc import Mapping

from bayesrecon.model import Model
from bayesrecon.models.descriptions import is_program


def adapted(source: object, sizes: Mapping[str, tuple[int, ...]] | None = None) -> Model | None:
    """The model of a Stan program, by its path; None for other sources."""
    if not is_program(source):
        return None
    from bayesrecon.models.stan import from_stan  # it takes a fifth of a second to load

    return from_stan(source, sizes=sizes)


ADAPTS = adapted
