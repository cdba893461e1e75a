"""What is looked at in a file before any model opens it, and how one looks: plain channels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesrecon.auditing.held import DRAWS, LOG_DENSITIES, parameters_of
from bayesrecon.model import Model
from bayesrecon.posteriors.contents import DATA, WIDE, Contents, Variable
from bayesrecon.results.findings import Finding, NotRun

Named = Callable[[Any], str | None]
"""Which private column values are, in words."""


def nobody(values: Any) -> None:
    """There are no private data to compare with."""


@dataclass(frozen=True)
class Look:
    """A file, and what is known about it.

    Attributes:
        named: the private column that values are, where there are private data to compare with.
        found: findings of the channels before.
    """

    contents: Contents
    model: Model | None = None
    named: Named = nobody
    key: int = 0
    found: tuple[Finding, ...] = field(default=())

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

    @cached_property
    def seen(self) -> set[str]:
        """Places that findings name."""
        return {where for f in self.found for where in f.where}

    def is_parameter(self, variable: Variable) -> bool:
        """Whether it is a parameter of the model, or may be one where no model says."""
        own = parameters_of(self.model)
        if variable.group != "posterior" or not variable.per_draw:
            return False
        return variable.name in own if own is not None else variable.name not in LOG_DENSITIES

    @cached_property
    def rows(self) -> set[str]:
        """Places of arrays that gave rows of data: the draws of parameters, and what follows from them, did not."""
        return {where for f in self.found if f.kind != DRAWS and f.severity != "info" for where in f.where}

    @cached_property
    def parameter_axes(self) -> set[str]:
        """Dimensions of parameters."""
        drawn = (v for v in self.contents.variables if self.is_parameter(v) and v.where not in self.rows)
        return {dimension for variable in drawn for dimension in variable.dimensions}

    @cached_property
    def record_axes(self) -> set[str]:
        """Dimensions of what has a value for every record: data, terms, predictions, and arrays that gave rows."""
        groups = (*DATA, *WIDE, "prior_predictive")
        own = (v for v in self.contents.variables if v.group in groups or v.where in self.rows)
        return {dimension for variable in own for dimension in variable.dimensions} - {"chain", "draw", "sample"}


def rows_of(variable: Variable) -> np.ndarray | None:
    """Values as `(draws, columns)`, of arrays of other draws than the file's as well; None of those without draws."""
    values = variable.values
    if values.dtype.kind not in "biuf":
        return None
    if variable.per_draw:
        return values.reshape(len(values), -1).astype(float, copy=False)
    axes = [d for d in variable.dimensions if d in ("chain", "draw", "sample")]
    if not axes or len(variable.dimensions) != values.ndim:
        return None
    order = [variable.dimensions.index(a) for a in axes] + [
        i for i, d in enumerate(variable.dimensions) if d not in axes
    ]
    moved = values.transpose(order)
    count = int(np.prod(moved.shape[: len(axes)], dtype=int))
    return moved.reshape(count, -1).astype(float, copy=False) if count and values.size else None


@dataclass(frozen=True)
class Plain:
    """A channel that needs no model.

    Attributes:
        name: what is looked for.
        find: findings, and what is there and could not be looked at.
        rank: channels look in this order; each knows what those before it found.
    """

    name: str
    find: Callable[[Look], tuple[Sequence[Finding], Sequence[NotRun]]]
    rank: int
