"""Plain channels, which need no model, and what they know about a file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.auditing.sensitive_values import DRAWS, LOG_DENSITIES, parameters_of
from bayesrecon.posteriors.contents import DATA, WIDE, Contents, Variable
from bayesrecon.results.findings import Finding, NotRun

if TYPE_CHECKING:
    from bayesrecon.model import Model

Named = Callable[[object], str | None]
"""Function that names the private column that values are equal to, or returns None."""


def nobody(values: object) -> None:
    """The `Named` function if there are no private data."""


@dataclass(frozen=True)
class Look:
    """A file and what is known about it.

    Attributes:
        contents: the file.
        model: the model behind the draws, if known.
        named: function that compares values with the private columns.
        key: seed of everything random.
        findings: findings of earlier channels.
    """

    contents: Contents
    model: "Model | None" = None
    named: Named = nobody
    key: int = 0
    findings: tuple[Finding, ...] = field(default=())

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.key)

    @cached_property
    def reported(self) -> set[str]:
        """Places that earlier findings name."""
        return {where for f in self.findings for where in f.where}

    def is_parameter(self, variable: Variable) -> bool:
        """Whether a variable is a parameter of the model, or without a model, may be one."""
        parameters = parameters_of(self.model)
        if variable.group != "posterior" or not variable.per_draw:
            return False
        return variable.name in parameters if parameters is not None else variable.name not in LOG_DENSITIES

    @cached_property
    def rows(self) -> set[str]:
        """Places of arrays that contain rows of data, according to findings other than the draws."""
        return {where for f in self.findings if f.kind != DRAWS and f.severity != "info" for where in f.where}

    @cached_property
    def parameter_axes(self) -> set[str]:
        """Names of the dimensions of parameters."""
        drawn = (v for v in self.contents.variables if self.is_parameter(v) and v.where not in self.rows)
        return {dimension for variable in drawn for dimension in variable.dimensions}

    @cached_property
    def record_axes(self) -> set[str]:
        """Names of dimensions with an entry per record: of data, log likelihoods, predictions, and arrays of rows."""
        groups = (*DATA, *WIDE, "prior_predictive")
        variables = (v for v in self.contents.variables if v.group in groups or v.where in self.rows)
        return {dimension for variable in variables for dimension in variable.dimensions} - {"chain", "draw", "sample"}


def rows_of(variable: Variable) -> np.ndarray | None:
    """Values as `(draws, columns)`, also for draws of other groups; None if an array has no draws."""
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
        name: name of the channel.
        find: function that returns findings, and values that are present and could not be examined.
        rank: order of the channels. Each channel knows the findings of earlier ones.
    """

    name: str
    find: Callable[[Look], tuple[Sequence[Finding], Sequence[NotRun]]]
    rank: int
