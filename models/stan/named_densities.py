"""Densities by their names in Stan: sums over containers, distribution functions, truncation, linear predictors."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.models.stan.cdfs import CUMULATIVE
from bayesrecon.models.stan.continuous import CONTINUOUS
from bayesrecon.models.stan.discrete import DISCRETE
from bayesrecon.models.stan.multivariate import MULTIVARIATE, categorical_logit, ordered_logistic
from bayesrecon.models.stan.special import log1m_exp
from bayesrecon.models.stan.values import StanError, V, xp_of

SUFFIXES = ("_lpdf", "_lpmf", "_lupdf", "_lupmf", "_log")
"""Suffixes of log densities' names; the last is from old programs."""

_CUMULATIVE = {
    "_lcdf": (0, True),
    "_lccdf": (1, True),
    "_cdf_log": (0, True),
    "_ccdf_log": (1, True),
    "_cdf": (0, False),
    "_ccdf": (1, False),
}


def linear_predictor(x: V, alpha: V, beta: V) -> V:
    """`alpha + x beta` of rows of a design, or of one row."""
    rows = jnp.asarray(x.a, float)
    if x.base == "row_vector":
        rows = rows[None]
    return V("vector", alpha.a + rows @ beta.a)


def _glm(name: str) -> Callable[..., jax.Array]:
    def density(y: V, x: V, alpha: V, beta: V, *more: V) -> jax.Array:
        eta = linear_predictor(x, alpha, beta)
        return log_density(name, [_as_array(y, eta), eta, *more])

    return density


def _as_array(y: V, eta: V) -> V:
    """A response, which may be one number for all rows."""
    return V(y.base, jnp.broadcast_to(y.a, eta.shape), 1 if y.scalar else y.depth)


def _binomial_glm(y: V, n: V, x: V, alpha: V, beta: V) -> jax.Array:
    eta = linear_predictor(x, alpha, beta)
    return log_density("binomial_logit", [_as_array(y, eta), n, eta])


def _categorical_glm(y: V, x: V, alpha: V, beta: V) -> jax.Array:
    rows = jnp.asarray(x.a, float)
    rows = rows[None] if x.base == "row_vector" else rows
    return categorical_logit(y, V("vector", alpha.a + rows @ beta.a, 1))


def _ordered_glm(y: V, x: V, beta: V, cuts: V) -> jax.Array:
    rows = jnp.asarray(x.a, float)
    rows = rows[None] if x.base == "row_vector" else rows
    return ordered_logistic(y, V("vector", rows @ beta.a), cuts)


OF_PREDICTORS = {
    "normal_id_glm": "normal",
    "bernoulli_logit_glm": "bernoulli_logit",
    "poisson_log_glm": "poisson_log",
    "neg_binomial_2_log_glm": "neg_binomial_2_log",
}
"""Densities of linear predictors, and the same of the predictor."""

GENERALISED: dict[str, Callable[..., jax.Array]] = {
    **{name: _glm(plain) for name, plain in OF_PREDICTORS.items()},
    "binomial_logit_glm": _binomial_glm,
    "categorical_logit_glm": _categorical_glm,
    "ordered_logistic_glm": _ordered_glm,
}


def known(name: str) -> bool:
    """Whether there is a density of this name."""
    return any(name in table for table in (CONTINUOUS, DISCRETE, MULTIVARIATE, GENERALISED))


def _entries(f: Callable[..., jax.Array], args: list[V]) -> jax.Array:
    """A function of numbers over containers, which all have one length."""
    shapes = {v.shape for v in args if v.shape}
    if len(shapes) > 1 and len({s if len(s) == 1 else None for s in shapes}) > 1:
        raise StanError(f"containers of {' and '.join(str(s[0]) for s in sorted(shapes))} elements are combined")
    return f(*(jnp.asarray(v.a, float) for v in args))


def log_density(name: str, args: list[V]) -> jax.Array:
    """The logarithm of a density or probability, summed over containers; unlike `~` in Stan, with its constants."""
    f = CONTINUOUS.get(name) or DISCRETE.get(name)
    try:
        if f is not None:
            return jnp.sum(_entries(f, args))
        return (MULTIVARIATE.get(name) or GENERALISED[name])(*args)
    except TypeError as error:
        if "positional argument" in str(error):
            raise StanError(f"{name} does not take {len(args) - 1} parameters") from None
        raise


def cumulative(call: str) -> Callable[[list[V]], jax.Array] | None:
    """The distribution function that a call names."""
    for suffix, (side, logarithm) in _CUMULATIVE.items():
        name = call.removesuffix(suffix)
        if name != call and name in CUMULATIVE:
            f = CUMULATIVE[name][side]

            def total(args: list[V], f: Callable[..., jax.Array] = f, logarithm: bool = logarithm) -> jax.Array:
                log_probability = jnp.sum(_entries(f, args))
                return log_probability if logarithm else jnp.exp(log_probability)

            return total
    return None


def density_of_call(call: str) -> str | None:
    """The density that a call such as `normal_lpdf` names."""
    for suffix in SUFFIXES:
        if call.endswith(suffix) and known(call.removesuffix(suffix)):
            return call.removesuffix(suffix)
    return None


def truncation(name: str, y: V, args: list[V], low: V | None, high: V | None) -> jax.Array:
    """Log normaliser of the truncation `T[low, high]`."""
    if name not in CUMULATIVE:
        raise StanError(f"{name} is truncated, which is not supported for this density")
    below, above = CUMULATIVE[name]
    count = y.shape[0] if y.shape else 1
    discrete = name in DISCRETE

    def log_probability(f: Callable[..., jax.Array], end: V) -> jax.Array:
        values = _entries(f, [end, *args])
        return values * count if not values.shape else jnp.sum(values)

    if low is not None and discrete:
        low = V(low.base, low.a - 1, low.depth)
    if low is None and high is None:
        return jnp.zeros(())
    if low is None:
        assert high is not None
        return log_probability(below, high)
    if high is None:
        return log_probability(above, low)

    def between(*values: jax.Array) -> jax.Array:
        end_low, end_high, *rest = values
        log_upper, lower = below(end_high, *rest), below(end_low, *rest)
        near, far = above(end_low, *rest), above(end_high, *rest)
        upper = lower > jnp.log(0.5)
        top, bottom = jnp.where(upper, near, log_upper), jnp.where(upper, far, lower)
        empty = jnp.isneginf(bottom)
        return top + jnp.where(empty, 0.0, log1m_exp(jnp.where(empty, -1.0, bottom - top)))

    values = _entries(between, [low, high, *args])
    return values * count if not values.shape else jnp.sum(values)


def outside(y: V, low: V | None, high: V | None) -> Array | bool:
    """Whether an element lies outside of what a density is truncated to."""
    xp = xp_of(*(v.a for v in (y, low, high) if v is not None))
    result: Array | bool = False
    if low is not None:
        result = result | xp.any(xp.asarray(y.a) < low.a)
    if high is not None:
        result = result | xp.any(xp.asarray(y.a) > high.a)
    return result
