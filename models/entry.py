"""The entry of a shipped model in its family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bayesrecon.domains import Records
from bayesrecon.json_types import Json


@dataclass(frozen=True)
class Shipped:
    """One shipped model.

    Attributes:
        name: posteriordb's model name, or a generic name.
        build: function that returns the `Model`. Generic models take settings, posteriordb models the public constants.
        records: function from posteriordb's data to records, `{field: (N, *shape)}`; None for generic models.
        posteriors: the posteriordb posteriors of this model.
        constants: function that selects from posteriordb's data what the attacker knows, as settings of `build`.
        design: fields that the attacker is assumed to know, the unit of a record first; empty if the whole record is
            private.
        summary: one line for the table of models.
    """

    name: str
    build: Callable[..., Any]
    summary: str
    records: Callable[[Mapping[str, Any]], Records] | None = None
    posteriors: tuple[str, ...] = ()
    constants: Callable[[Json], Json] | None = None
    design: tuple[str, ...] = ()
