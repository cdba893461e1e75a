"""What a family says of each model that it ships."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bayesrecon.model import Model, Records


@dataclass(frozen=True)
class Shipped:
    """One shipped model.

    Attributes:
        name: posteriordb's model name, or a generic name.
        build: makes the `Model`; generic models take settings, posteriordb models the public constants.
        records: turns posteriordb's data into records, `{field: (N, *shape)}`; None for generic models.
        posteriors: the posteriordb posteriors it belongs to.
        constants: picks from posteriordb's data what is public to the attacker, as settings of `build`.
        design: fields that whoever attacks this model is taken to know, the unit of a record first; empty
            where the whole record is private.
        response: the field that is private in any case.
        summary: one line for the table.
    """

    name: str
    build: Callable[..., Model]
    summary: str
    records: Callable[[Mapping[str, Any]], Records] | None = None
    posteriors: tuple[str, ...] = ()
    constants: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    design: tuple[str, ...] = ()
    response: str | None = None
