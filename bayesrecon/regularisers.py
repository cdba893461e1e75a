"""Penalties that select among reconstructions that a release does not distinguish.

A regulariser is any function `(weights, records) -> scalar` in `jax.numpy`, added to the divergence or to half the
squared residual. Two for images are ready-made. Regularisers can be added with `+`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records

Regulariser = Callable[[Array, Records], jax.Array | float]
"""`(weights (M,), records) -> scalar`."""


class Penalty:
    """A ready-made regulariser, to which others can be added."""

    def __call__(self, weights: Array, records: Records) -> jax.Array | float:
        raise NotImplementedError

    def __add__(self, other: Regulariser) -> "Penalty":
        return Both(self, other)


@dataclass(frozen=True)
class Both(Penalty):
    """The sum of two regularisers."""

    one: Regulariser
    other: Regulariser

    def __call__(self, weights: Array, records: Records) -> jax.Array | float:
        return self.one(weights, records) + self.other(weights, records)


@dataclass(frozen=True)
class TotalVariation(Penalty):
    """Total variation of images: absolute differences of neighbouring pixels, averaged in each image and summed.

    A difference d counts as `sqrt(d^2 + smooth^2) - smooth` (Rudin, Osher and Fatemi 1992, smoothed), so that Newton's
    steps see a curvature where an image is flat.

    Args:
        shape: (height, width) or (height, width, colours) of the field's values.
        strength: strength of the penalty beside the divergence, or half the squared relative residual.
        field: the record's field that holds the image.
        smooth: difference of pixels, in their own units, below which it counts by its square.

    >>> flat, striped = np.ones((1, 16)), np.tile([0.0, 1.0], (1, 8))
    >>> penalty = TotalVariation((4, 4), strength=1.0)
    >>> float(penalty(np.ones(1), {"x": flat})), round(float(penalty(np.ones(1), {"x": striped})), 2)
    (0.0, 0.74)
    """

    shape: tuple[int, ...]
    strength: float = 1e-4
    field: str = "x"
    smooth: float = 0.01

    def __post_init__(self) -> None:
        if len(self.shape) not in (2, 3) or min(self.shape) < 1:
            raise BayesreconError(f"shape={self.shape}: expected (height, width) or (height, width, colours)")
        _check(self.strength)
        if not self.smooth > 0:
            raise BayesreconError(f"smooth={self.smooth}: expected a positive number")

    def __call__(self, weights: Array, records: Records) -> jax.Array | float:
        images = _images(records, self.field, self.shape)
        steps = (jnp.diff(images, axis=1), jnp.diff(images, axis=2))
        total = sum(jnp.sum(jnp.sqrt(d**2 + self.smooth**2) - self.smooth) for d in steps)
        return self.strength * total / np.prod(self.shape)


@dataclass(frozen=True)
class Box(Penalty):
    """The squared distance from `low <= value <= high`, a mean over each record's values, summed over records.

    Unlike a domain, it is a soft limit, and records may start outside.

    >>> float(Box(0.0, 1.0, strength=1.0)(np.ones(1), {"x": np.array([[0.5, 3.0]])}))
    2.0
    """

    low: float
    high: float
    strength: float = 1.0
    field: str = "x"

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise BayesreconError(f"low={self.low}, high={self.high}: expected low < high")
        _check(self.strength)

    def __call__(self, weights: Array, records: Records) -> jax.Array:
        values = _field(records, self.field)
        beyond = jnp.maximum(self.low - values, 0.0) + jnp.maximum(values - self.high, 0.0)
        return self.strength * jnp.sum(beyond**2) / max(1, int(np.prod(values.shape[1:])))


def described(regulariser: Regulariser | None) -> str:
    """Name of a regulariser in files, with its parameters if it is ready-made."""
    if isinstance(regulariser, Penalty):
        return repr(regulariser)
    return "" if regulariser is None else getattr(regulariser, "__qualname__", type(regulariser).__qualname__)


def _check(strength: float) -> None:
    if not (strength >= 0 and np.isfinite(strength)):
        raise BayesreconError(f"strength={strength}: expected a number that is not negative")


def _field(records: Records, name: str) -> jax.Array:
    if name not in records:
        raise BayesreconError(f"field={name!r}: the records have {', '.join(records)}")
    return jnp.asarray(records[name])


def _images(records: Records, name: str, shape: tuple[int, ...]) -> jax.Array:
    values = _field(records, name)
    if int(np.prod(values.shape[1:])) != int(np.prod(shape)):
        raise BayesreconError(f"shape={shape}: a value of {name!r} has {int(np.prod(values.shape[1:]))} numbers")
    return values.reshape(-1, *shape)
