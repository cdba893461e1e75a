"""The result of every loader."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class LabelledData:
    """Records and their labels. `games.table(data.x, data.y, classification=True)` makes a table from them.

    Attributes:
        name: for display.
        x: `(N, p)`, float32.
        y: `(N,)` classes from zero as int64 or numbers as float64, or `(N, A)` binary attributes.
        names: names of the classes or attributes; empty if y contains numbers.
        columns: names of the features; empty for images.
        shape: shape of one image, whose product is p; empty if records are not images.

    >>> data = LabelledData("two", np.zeros((2, 4), np.float32), np.array([0, 1]), ("a", "b"), shape=(2, 2))
    >>> data.rows([1]).y.tolist(), data.images().shape
    ([1], (2, 2, 2))
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()

    def rows(self, index: Sequence[int]) -> "LabelledData":
        """The records at these indices."""
        return replace(self, x=self.x[index], y=self.y[index])

    def images(self) -> np.ndarray:
        """The records as images, `(N, *shape)`."""
        return self.x.reshape(len(self.x), *(self.shape or self.x.shape[1:]))


def joined(parts: list[LabelledData]) -> LabelledData:
    """Concatenate parts of one data set."""
    arrays = {field: np.concatenate([getattr(part, field) for part in parts]) for field in ("x", "y")}
    return replace(parts[0], **arrays)
