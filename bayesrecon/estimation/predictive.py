"""Responses that a posterior predicts for generic records, since data lie where their fit predicts them."""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import jax
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.model import Atoms, Model, Records
from bayesrecon.running.draws_on_disk import as_rows

_AT_ONCE = 512  # records of a call, so that one program serves all numbers of them
_LARGEST_COUNT = 2**53  # whole numbers up to which are kept exactly on the way


def responses(release: Atoms, known: Collection[str]) -> Callable[[np.random.Generator, Records], Records] | None:
    """A sampler of the posterior predictive distribution, `(rng, records) -> records`.

    Every record gets its own draw. Fields that are known, or that the model does not draw, stay unchanged. So does a
    response whose draw is not a number or overflows. The result is None if the model cannot be simulated.
    """
    model, theta = release.model, as_rows(release.theta)
    if model.simulate is None:
        return None

    def predict(rng: np.random.Generator, records: Records) -> Records:
        count, found = len(next(iter(records.values()))), []
        for start in range(0, count, _AT_ONCE):
            rows = np.minimum(np.arange(start, start + _AT_ONCE), count - 1)
            some = {k: v[rows] for k, v in records.items()}
            drawn = theta[np.sort(rng.integers(len(theta), size=_AT_ONCE))]
            keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), _AT_ONCE)
            found.append(jax.device_get(_responses(model, drawn, some, keys)))
        new = {k: np.concatenate([one[k] for one in found])[:count] for k in records}
        return {k: v if k in known else _representable(new[k], v) for k, v in records.items()}

    return predict


def _representable(drawn: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Drawn values in the type of `otherwise`, whose values replace those that are not finite or too large."""
    whole = np.issubdtype(otherwise.dtype, np.integer)
    return np.where(np.abs(drawn) < (_LARGEST_COUNT if whole else np.inf), drawn, otherwise).astype(otherwise.dtype)


@partial(jax.jit, static_argnames="model")
def _responses(model: Model, theta: Array, records: Records, keys: Array) -> Records:
    simulate: Any = model.simulate

    def one(t: Array, record: Records, key: Array) -> Records:
        drawn = simulate(model.constrain(t), {k: v[None] for k, v in record.items()}, key)
        return {k: v[0] for k, v in drawn.items()}

    return jax.vmap(one)(theta, records, keys)
