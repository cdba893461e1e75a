"""The result of `witness`: a density of the private records over one or two fields."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bayesrecon.json_types import Json
from bayesrecon.results.base import Result

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True, repr=False)
class Witness(Result):
    """The witness on a grid.

    Attributes:
        fields: names of the one or two fields.
        grids: grid values of each field, `(G,)` each.
        values, se: density of the private records and its standard error, `(G,)` or `(G, G)`, first field first. For a
            field with finitely many values, shares of the records. `se` is zero for a trained parameter.
        visibility: `(G,)` or `(G, G)`, share of each bump function that the release determines.
    """

    plotted_by = "witness.plot_witness"

    release: str
    fields: tuple[str, ...]
    grids: tuple[np.ndarray, ...]
    values: np.ndarray
    se: np.ndarray
    visibility: np.ndarray
    model: str = ""
    draws: int = 0

    def to_dataframe(self) -> "DataFrame":
        """One row per grid point."""
        import pandas as pd

        mesh = np.meshgrid(*self.grids, indexing="ij")
        columns = {name: m.ravel() for name, m in zip(self.fields, mesh, strict=True)}
        found = {"density": self.values.ravel(), "se": self.se.ravel(), "visibility": self.visibility.ravel()}
        return pd.DataFrame({**columns, **found})

    def to_dict(self) -> Json:
        """Plain types only."""
        return self._document(**vars(self))

    @property
    def headline(self) -> str:
        return f"{self.release}: density of the private records over {' and '.join(self.fields)}"
