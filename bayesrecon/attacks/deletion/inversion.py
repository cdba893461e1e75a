"""Records from estimates of their embeddings: solve `phi(x) ~ f` for x by descent from several starts.

The error of an estimated embedding (`HRec`) is a weighted sum of the deviations of public records from their mean. It
is therefore large in directions in which public embeddings vary a lot. For this reason the misfit is measured in the
metric of the inverse covariance of the embeddings,

    misfit(x) = 1 - <phi(x) - c, f - c> / (|phi(x) - c| |f - c|),   <a, b> = a' (Cov + r I)^-1 b,

where c is the mean public embedding. The misfit does not depend on the scale of `f - c`, which the estimate may get
wrong. Descent starts from the public records of smallest misfit and from their mean. The end point of smallest misfit
is returned.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.precision import in_float64
from bayesrecon.results.deletion import Inversion

if TYPE_CHECKING:
    from optax import OptState

Embedding = Callable[[Array], Array]
"""From a record `(p,)` to its embedding `(D,)`, written with `jax.numpy`."""

_RANK, _SOME = 300, 1500  # leading directions of the covariance, and number of public records for its estimate
_RIDGE = 0.1  # r, in units of the mean variance
_BLOCK = 2**22  # doubles of embeddings per block
_STEP = 0.05  # first step, in units of a field's range


@in_float64
def invert_embedding(
    embedding: Embedding,
    targets: Array,
    public: Array,
    *,
    starts: int = 3,
    steps: int = 60,
    bounds: tuple[Array, Array] | None = None,
) -> Inversion:
    """Find the records whose embeddings are closest to the targets.

    Args:
        embedding: function `(p,) -> (D,)`, written with `jax.numpy`.
        targets: `(N, D)` estimated embeddings of N records.
        public: `(m, p)` records from the same distribution. They provide the starts, the metric and the bounds.
        starts: number of public records to start from.
        steps: number of Adam steps. The step size decreases to zero.
        bounds: smallest and largest value of each field. Defaults to the range of the public records.

    Raises:
        BayesreconError: the embedding cannot be evaluated or differs in width from the targets, there are fewer than
            two public records, or `starts` or `steps` is less than one.

    >>> import jax.numpy as jnp
    >>> rng = np.random.default_rng(0)
    >>> w, x = rng.normal(size=(2, 20)), rng.uniform(size=(50, 2))
    >>> phi = lambda x: jnp.cos(x @ w)
    >>> found = invert_embedding(phi, phi(x[:1]), x[1:])
    >>> bool(abs(found.x - x[:1]).max() < 0.02)
    True
    """
    public, targets = np.asarray(public, float), np.atleast_2d(np.asarray(targets, float))
    if public.ndim != 2 or len(public) < 2:
        raise BayesreconError(f"public records have shape {public.shape}; expected (m, p) with m at least two")
    if starts < 1 or steps < 1:
        raise BayesreconError("starts and steps are at least one")
    features = embed(embedding, public)
    if features.shape[1] != targets.shape[1]:
        raise BayesreconError(f"the embedding has {features.shape[1]} features, the targets {targets.shape[1]}")
    low, high = (public.min(axis=0), public.max(axis=0)) if bounds is None else bounds
    low, high = (np.broadcast_to(np.asarray(v, float), public.shape[1:]) for v in (low, high))
    centre, metric = features.mean(axis=0), feature_metric(features)
    kept = min(starts, len(public))
    block = max(1, _BLOCK // (features.shape[1] * (kept + 1)))
    records, misfits = [], []
    for first in range(0, len(targets), block):
        about = targets[first : first + block] - centre
        near = np.argsort(np.asarray(_apart(features - centre, about, metric)), axis=1)[:, :kept]
        begin = np.concatenate([public[near], public[near].mean(axis=1, keepdims=True)], axis=1)
        flat = np.repeat(about, kept + 1, axis=0)
        x = begin.reshape(len(flat), -1)
        end, misfit = _descend(embedding, x, flat, low, high, centre, metric, steps)
        records.append(np.asarray(end).reshape(begin.shape))
        misfits.append(np.asarray(misfit).reshape(begin.shape[:2]))
    every, all_misfits = np.concatenate(records), np.concatenate(misfits)
    best, n = all_misfits.argmin(axis=1), np.arange(len(every))
    return Inversion(every[n, best], all_misfits[n, best], best, all_misfits)


@in_float64
def embed(embedding: Embedding, records: np.ndarray) -> np.ndarray:
    """The embeddings `(m, D)` of records `(m, p)`."""
    record_shape = jax.ShapeDtypeStruct(records.shape[1:], jnp.float64)
    try:
        shape = jax.eval_shape(embedding, record_shape).shape
    except Exception as error:
        raise _unusable(error) from None
    if len(shape) != 1:
        raise BayesreconError(f"the embedding of one record has shape {shape}; expected (D,)")
    block = max(1, _BLOCK // shape[0])
    try:
        parts = [np.asarray(_embed(embedding, records[i : i + block])) for i in range(0, len(records), block)]
    except ValueError as error:  # JAX keeps NumPy constants of a function in the precision in which it first ran
        raise _unusable(error, "; make its constants JAX arrays (jax.numpy.asarray)") from None
    embeddings = np.concatenate(parts)
    if not np.isfinite(embeddings).all():
        raise BayesreconError("the embedding of public records holds missing or infinite values")
    return embeddings


def _unusable(error: Exception, advice: str = "") -> BayesreconError:
    text = " ".join(str(error).split())[:120]
    return BayesreconError(f"the embedding of one record cannot be evaluated: {text}{advice}")


@partial(jax.jit, static_argnames="embedding")
def _embed(embedding: Embedding, records: Array) -> Array:
    return jax.vmap(embedding)(records)


def feature_metric(features: np.ndarray) -> dict[str, np.ndarray | float]:
    """`(Cov + r I)^-1` as leading directions with their weights, and one weight for all other directions."""
    sample = features[:: -(-len(features) // _SOME)]
    centred = sample - sample.mean(axis=0)
    values, vectors = np.linalg.eigh(centred @ centred.T / len(sample))
    rank = min(_RANK, len(sample) - 1, features.shape[1])
    values, vectors = values[-rank:], vectors[:, -rank:]
    nonzero = values > 1e-12 * values[-1]
    values, vectors = values[nonzero], vectors[:, nonzero]
    total = float((centred**2).sum() / len(sample))
    if not total > 0:
        raise BayesreconError("all public records have the same embedding")
    ridge = _RIDGE * total / features.shape[1]
    others = max(total - values.sum(), 0.0) / max(features.shape[1] - len(values), 1)
    directions = centred.T @ vectors / np.sqrt(values * len(sample))
    return {"directions": directions, "inverse": 1 / (values + ridge), "rest": 1 / (others + ridge)}


def inner_product(a: Array, b: Array, metric: Mapping[str, Array | float]) -> Array:
    """Row-wise inner product `<a, b>` in the metric."""
    inside, outside = a @ metric["directions"], b @ metric["directions"]
    plain = (a * b).sum(axis=-1) - (inside * outside).sum(axis=-1)
    return (inside * outside) @ metric["inverse"] + metric["rest"] * plain


@jax.jit
def _apart(features: Array, about: Array, metric: Mapping[str, Array]) -> Array:
    """Misfit of every public record to every target, `(N, m)`."""
    lengths = jnp.sqrt(inner_product(features, features, metric))
    inside, outside = about @ metric["directions"], features @ metric["directions"]
    products = (inside * metric["inverse"]) @ outside.T + metric["rest"] * (about @ features.T - inside @ outside.T)
    return 1 - products / lengths / jnp.sqrt(inner_product(about, about, metric))[:, None]


@partial(jax.jit, static_argnames=("embedding", "steps"))
def _descend(
    embedding: Embedding,
    x: Array,
    about: Array,
    low: Array,
    high: Array,
    centre: Array,
    metric: Mapping[str, Array],
    steps: int,
) -> tuple[Array, Array]:
    import optax

    unit = about / jnp.sqrt(inner_product(about, about, metric))[:, None]

    def misfits(u: Array) -> Array:
        found = jax.vmap(embedding)(low + u * (high - low)) - centre
        return 1 - inner_product(found, unit, metric) / jnp.sqrt(inner_product(found, found, metric) + 1e-300)

    rule = optax.adam(optax.cosine_decay_schedule(_STEP, steps))

    def step(_: Array, carry: tuple[Array, "OptState"]) -> tuple[Array, "OptState"]:
        u, state = carry
        slope = jax.grad(lambda v: misfits(v).sum())(u)
        change: Any
        change, state = rule.update(slope, state)  # one array, as u is
        return jnp.clip(u + change, 0.0, 1.0), state

    wide = jnp.where(high > low, high - low, 1.0)
    u = jnp.clip((x - low) / wide, 0.0, 1.0)
    u = jax.lax.fori_loop(0, steps, step, (u, rule.init(u)))[0]
    return low + u * (high - low), misfits(u)
