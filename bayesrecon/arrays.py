"""Types of arrays, of draws in a file, of random keys and of progress. JAX is loaded with the types that need it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import jax

    Array = np.ndarray | jax.Array
    """NumPy's in this process; JAX's on a device, or in a program that is compiled."""

    Key = int | jax.Array
    """A seed, or a random key of JAX."""

Progress = Callable[[str, float], None]
"""Function that is called with a label and the fraction done."""


def __getattr__(name: str) -> Any:
    if name not in ("Array", "Key"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import jax

    return (np.ndarray if name == "Array" else int) | jax.Array


class Stored(ABC):
    """An array `(T, d)` in a file. `numpy.asarray` reads all of it."""

    shape: tuple[int, int]

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, at: slice | npt.ArrayLike) -> np.ndarray:
        """Read rows: a slice without step, or increasing positions."""

    @abstractmethod
    def part(self, start: int, stop: int) -> "Stored":
        """Rows `start` to `stop`, without reading them."""

    @abstractmethod
    def columns(self, start: int, stop: int) -> np.ndarray:
        """Read columns `start` to `stop`, `(T, stop - start)`."""

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(dtype or np.float64, copy=False)
