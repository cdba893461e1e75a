"""The secret behind a tilt: a keyed function of what is sanitised, so that nobody can redraw until a tilt suits them.

The key is 32 random bytes (`secrets`). A seed is the HMAC-SHA256 of data, model and worth under this key. The same
inputs give the same tilt, and any change gives an independent one. Two similar tilts would be worse than two
independent ones, because their difference would reveal the random numbers of both.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import numpy as np
from numpy.typing import ArrayLike

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model, Records
from bayesrecon.running.draws_on_disk import Stored

UNNAMED = "releases without their data"
"""What stands for the hash of data that were not supplied."""

_POINTS = 4  # points at which a model is evaluated to identify it: enough to distinguish priors
_DIGITS = 6  # digits of the values there: machines differ only in later digits
_POOL = 8  # words of a seed's entropy pool: all 256 bits


@dataclass(frozen=True)
class Secret:
    """The source of all random numbers of one sanitised release."""

    seed: bytes

    def generator(self, what: str) -> np.random.Generator:
        """Random numbers for one purpose, independent of those for other purposes."""
        mixed = hmac.digest(self.seed, what.encode(), "sha256")
        return np.random.default_rng(np.random.SeedSequence(int.from_bytes(mixed, "big"), pool_size=_POOL))


def keyed(key: bytes, *parts: str) -> Secret:
    """The secret that belongs to these parts under this key.

    >>> keyed(b"k" * 32, "data", "model") == keyed(b"k" * 32, "data", "model") != keyed(b"k" * 32, "datamodel")
    True
    """
    return Secret(hmac.digest(key, json.dumps(parts).encode(), "sha256"))


def hash_of_data(data: Mapping[str, ArrayLike]) -> str:
    """Hash of a table `{column: (N, *shape)}` of numbers or strings. The order of rows and columns does not matter.

    Raises:
        BayesreconError: the columns differ in length, or there are none.

    >>> hash_of_data({"y": [1.0, 2.0], "x": ["a", "b"]}) == hash_of_data({"x": ["b", "a"], "y": [2, 1]})
    True
    """
    columns = {name: np.asarray(data[name]) for name in sorted(data)}
    if len({len(column) for column in columns.values()}) != 1:
        raise BayesreconError("the columns of the data differ in length, or there are none")
    comparable = {
        name: column.astype(float) + 0.0 if column.dtype.kind in "biuf" else column.astype(str)  # zero has one sign
        for name, column in columns.items()
    }
    rows = sorted(
        hashlib.sha256(b"|".join(np.ascontiguousarray(value).tobytes() for value in row)).digest()
        for row in zip(*comparable.values(), strict=True)
    )
    shapes = json.dumps([[name, column.shape[1:]] for name, column in comparable.items()])
    return hashlib.sha256(shapes.encode() + b"".join(rows)).hexdigest()


def hash_of_draws(theta: Array | Stored) -> str:
    """Hash of draws `(T, d)`, in their order."""
    array = np.ascontiguousarray(np.asarray(theta, float))
    return hashlib.sha256(json.dumps(array.shape).encode() + array.tobytes()).hexdigest()


def hash_of_model(model: Model) -> str:
    """Hash of a model: name, settings, coordinates, and its likelihood and prior at a few points."""
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(_POINTS, model.dimension))
    records: Records = {name: f.domain.draw_broad(rng, (_POINTS, *f.shape)) for name, f in model.fields.items()}
    values = jax.vmap(lambda t, z: (model.log_lik(t, z), model.log_prior(t) + model.log_det(t)))(theta, records)
    digits = [[f"{float(v):.{_DIGITS}g}" for v in column] for column in values]
    identity = [model.name, repr(sorted(model.settings.items())), model.coordinates, sorted(model.fields), digits]
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()
