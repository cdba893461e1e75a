"""The cells of a design: what its columns are at each combination of the levels of factors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bayesrecon.factors import Factor

MOST_CELLS = 48
"""Combinations of levels that are looked at one by one: a 6 by 8 layout; beyond it searches take minutes."""


def parts_of(label: str) -> list[str]:
    """The columns that a line of a table is the product of; colons inside of brackets are none.

    >>> parts_of("C(g)[T.a:b]:x"), parts_of("2.g#c.age")
    (['C(g)[T.a:b]', 'x'], ['2.g', 'age'])
    """
    found, depth, begin, text = [], 0, 0, label.strip()
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth == 0 and letter in ":#":
            found.append(text[begin:i])
            begin = i + 1
    found.append(text[begin:])
    whole = [part.strip().removeprefix("c.") for part in found if part.strip()]
    return whole or [text]


@dataclass(frozen=True, eq=False)
class Layout:
    """Combinations of levels, and the columns of a design that are functions of them.

    Attributes:
        factors: whose levels are combined.
        cells: `(C, F)` positions of levels.
        columns: positions of the coefficients whose column is a function of the cells, the intercept's among them.
        design: `(C, len(columns))`.
        whole: whether these are all columns of the design.
    """

    factors: tuple[Factor, ...]
    cells: np.ndarray
    columns: tuple[int, ...]
    design: np.ndarray
    whole: bool

    @property
    def saturated(self) -> bool:
        """Whether every cell has a mean of its own."""
        return self.whole and len(self.cells) == len(self.columns)

    def named(self, cell: Sequence[int]) -> str:
        """A cell as it stands in the name of a statistic: `g=b,h=c`."""
        return ",".join(f"{f.name}={f.levels[k]}" for f, k in zip(self.factors, cell, strict=True))

    def margins(self) -> dict[str, np.ndarray]:
        """`{g=b: (C,)}`, which cells are of each level of each factor."""
        return {
            f"{factor.name}={level}": self.cells[:, i] == k
            for i, factor in enumerate(self.factors)
            for k, level in enumerate(factor.levels)
        }


def layout_of(
    labels: Sequence[str], fields: Mapping[str, str], binary: Sequence[str], factors: Sequence[Factor]
) -> Layout | None:
    """The layout of a design with an intercept first; None where no column is one of levels, or combinations are many.

    Args:
        labels: of the other coefficients, products with colons.
        fields: the name of a field by each part of a label.
        binary: fields that are 0 or 1 and belong to no factor.
        factors: with columns among the fields.

    >>> found = layout_of(["g2", "g3"], {"g2": "g2", "g3": "g3"}, [], [Factor("g", ("g2", "g3"))])
    >>> found.design.astype(int).tolist(), found.saturated
    ([[1, 0, 0], [1, 1, 0], [1, 0, 1]], True)
    """
    pieces = [[fields[part] for part in parts_of(label)] for label in labels]
    used = {field for row in pieces for field in row}
    chosen = [f for f in factors if used & set(f.columns)]
    taken = {column for f in factors for column in f.columns}
    chosen += [Factor(name, (name,), ("0", "1")) for name in dict.fromkeys(binary) if name in used - taken]
    if not chosen or np.prod([float(len(f.levels)) for f in chosen]) > MOST_CELLS:
        return None
    cells = np.array(list(product(*(range(len(f.levels)) for f in chosen))))
    values: dict[str, Any] = {}
    for i, factor in enumerate(chosen):
        for column, at_levels in zip(factor.columns, factor.matrix.T, strict=True):
            values[column] = at_levels[cells[:, i]]
    at, columns = [0], [np.ones(len(cells))]
    for k, row in enumerate(pieces):
        if all(field in values for field in row):
            at.append(k + 1)
            columns.append(np.prod([values[field] for field in row], axis=0))
    return Layout(tuple(chosen), cells, tuple(at), np.column_stack(columns), len(at) == len(labels) + 1)
