"""Parts of programs with latent variables: non-centred parameters, and their values from published draws."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Records
from bayesrecon.models.catalogue.lazy_numpyro import dist, numpyro

if TYPE_CHECKING:
    from numpyro.distributions import Distribution

Data = Mapping[str, Any]
"""The data of a posterior in posteriordb, a JSON object: numbers and nested lists by name."""

Constant = float | tuple["Constant", ...]
"""A constant of a program: numbers in nested tuples, which can be hashed and stored as JSON."""

Draws = dict[str, np.ndarray]
"""Draws of parameters by name, each `(chains, draws, *shape)`."""

Table = Sequence[Sequence[float]]
"""A matrix as a constant of a program."""

ILLEGAL = -200.0
"""Log odds of an answer that an item does not offer. They are finite, and the probability is below rounding error."""


def latent(name: str, distribution: "Distribution") -> jax.Array:
    """The value of a latent site."""
    return jnp.asarray(numpyro.sample(name, distribution))


def standard(name: str, *shape: int) -> jax.Array:
    """A latent array of independent standard normal values."""
    return latent(name, dist.Normal(0, 1).expand(shape).to_event(len(shape)))


def levels(count: int) -> list[int]:
    """The domain of an index field: units are counted from one."""
    return list(range(1, count + 1))


def observe(response: str, distribution: "Distribution", values: Array | None, count: int) -> None:
    """Observe the response of `count` records; the distribution has one value (or event) per record."""
    with numpyro.plate("records", count):
        numpyro.sample(response, distribution, obs=values)


@dataclass(frozen=True)
class Rebuilt:
    """A rule that computes a non-centred parameter from published draws of the centred one.

    Attributes:
        name: the non-centred parameter.
        published: the centred parameter, which it replaces.
        needs: further parameters of the formula.
        formula: function of the draws of `published` and of `needs`. Draws of scalars have trailing axes to broadcast.
    """

    name: str
    published: str
    needs: tuple[str, ...]
    formula: Callable[..., np.ndarray]


def standardised(name: str, published: str, location: str | None, scale: str) -> Rebuilt:
    """`name = (published - location) / scale`."""
    if location is None:
        return Rebuilt(name, published, (scale,), lambda x, s: x / s)
    return Rebuilt(name, published, (location, scale), lambda x, m, s: (x - m) / s)


def rebuild(*rules: Rebuilt) -> Callable[[Draws], Draws]:
    """A function for `Model.prepare` that applies these rules to draws without the non-centred parameters."""

    def prepare(draws: Draws) -> Draws:
        result = dict(draws)
        for rule in rules:
            if rule.name in draws or rule.published not in draws:
                continue
            missing = [k for k in rule.needs if k not in draws]
            if missing:
                raise BayesreconError(f"draws of {rule.published} need {' and '.join(missing)} to rebuild {rule.name}")
            values = np.asarray(draws[rule.published], float)
            others = [np.asarray(draws[k], float) for k in rule.needs]
            aligned = [x.reshape(*x.shape, *(1,) * (values.ndim - 2)) if x.ndim == 2 else x for x in others]
            result[rule.name] = rule.formula(values, *aligned)
            result.pop(rule.published, None)
        return result

    return prepare


def index(data: Data, name: str) -> np.ndarray:
    """A whole-number column of posteriordb's data."""
    return np.asarray(data[name], np.int64)


def constant(value: object) -> Constant:
    """Numbers as nested tuples, because settings are hashed and stored as JSON."""
    listed = np.asarray(value).tolist()
    return tuple(map(constant, listed)) if isinstance(listed, list) else listed


def given(*same: str, **renamed: str) -> Callable[[Data], dict[str, object]]:
    """Constants that are data of these names, or of other ones: `{constant: name in the data}`."""
    sources = dict(zip(same, same, strict=True)) | renamed
    return lambda data: {name: constant(data[source]) for name, source in sources.items()}


class ByRow(TypedDict):
    """The records of a table whose rows are public: their numbers in a field, and columns of the data."""

    records: Callable[[Data], Records]
    design: tuple[str, ...]


def by_row(unit: str, count: str, *same: str, **renamed: str) -> ByRow:
    """Records with their numbers from 1 to a count of the data as the field `unit`, which is known, and these columns:
    `{field: name in the data}`."""
    sources = dict(zip(same, same, strict=True)) | renamed

    def records(data: Data) -> Records:
        columns = {field: np.asarray(data[source]) for field, source in sources.items()}
        return {unit: np.arange(1, int(data[count]) + 1), **columns}

    return {"records": records, "design": (unit,)}
