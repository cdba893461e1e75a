"""Densities by their names in Stan: sums over containers, distribution functions, truncation, linear predictors."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import betainc, betaln, gammainc, gammaincc, gammaln, log_ndtr

from bayesrecon.arrays import Array
from bayesrecon.models.stan.multivariate import MULTIVARIATE, categorical_logit, ordered_logistic
from bayesrecon.models.stan.special import LOG_2PI, log1m_exp, log_choose, log_inv_logit, xlogy
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


# Log probabilities of one integer, elementwise, as the Stan functions reference defines them.


def bernoulli(y: jax.Array, p: jax.Array) -> jax.Array:
    return xlogy(y, p) + xlogy(1 - y, 1 - p)


def bernoulli_logit(y: jax.Array, eta: jax.Array) -> jax.Array:
    return y * log_inv_logit(eta) + (1 - y) * log_inv_logit(-eta)


def _ways(n: jax.Array, y: jax.Array) -> jax.Array:
    """`log(n choose y)`, finite for y above n, too: a search for both may pass through such values."""
    return gammaln(n + 1.0) - gammaln(y + 1.0) - gammaln(jnp.maximum(n - y, 0) + 1.0)


def binomial(y: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
    return _ways(n, y) + xlogy(y, p) + xlogy(n - y, 1 - p)


def binomial_logit(y: jax.Array, n: jax.Array, eta: jax.Array) -> jax.Array:
    return _ways(n, y) + y * log_inv_logit(eta) + (n - y) * log_inv_logit(-eta)


def beta_binomial(y: jax.Array, n: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return log_choose(n, y) + betaln(y + a, n - y + b) - betaln(a, b)


def poisson(y: jax.Array, rate: jax.Array) -> jax.Array:
    return xlogy(y, rate) - rate - gammaln(y + 1.0)


def poisson_log(y: jax.Array, eta: jax.Array) -> jax.Array:
    return y * eta - jnp.exp(eta) - gammaln(y + 1.0)


def neg_binomial(y: jax.Array, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    return log_choose(y + alpha - 1, y) + alpha * (jnp.log(beta) - jnp.log1p(beta)) - y * jnp.log1p(beta)


def neg_binomial_2(y: jax.Array, mu: jax.Array, phi: jax.Array) -> jax.Array:
    normaliser = gammaln(y + phi) - gammaln(phi) - gammaln(y + 1.0)
    return normaliser + xlogy(y, mu / (mu + phi)) - phi * jnp.log1p(mu / phi)


def neg_binomial_2_log(y: jax.Array, eta: jax.Array, phi: jax.Array) -> jax.Array:
    normaliser = gammaln(y + phi) - gammaln(phi) - gammaln(y + 1.0)
    both = jnp.logaddexp(eta, jnp.log(phi))
    return normaliser + y * (eta - both) - phi * (both - jnp.log(phi))


def geometric(y: jax.Array, p: jax.Array) -> jax.Array:
    return jnp.log(p) + y * jnp.log1p(-p)


def hypergeometric(y: jax.Array, drawn: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return log_choose(a, y) + log_choose(b, drawn - y) - log_choose(a + b, drawn)


def discrete_range(y: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return jnp.where((y >= low) & (y <= high), -jnp.log(high - low + 1.0), -jnp.inf)


DISCRETE = {
    f.__name__: f
    for f in (
        bernoulli, bernoulli_logit, binomial, binomial_logit, beta_binomial, poisson, poisson_log, neg_binomial,
        neg_binomial_2, neg_binomial_2_log, geometric, hypergeometric, discrete_range,
    )
}  # fmt: skip
"""Functions by their name in Stan."""


# Logarithms of distribution functions and of their complements, elementwise; discrete ones at integers.


def _student(z: jax.Array, nu: jax.Array) -> jax.Array:
    """P(T <= z)."""
    x = nu / (nu + z * z)
    tail = 0.5 * betainc(nu / 2, 0.5 * jnp.ones_like(x), x)
    return jnp.where(z > 0, 1 - tail, tail)


def _laplace(z: jax.Array) -> jax.Array:
    low, high = jnp.minimum(z, 0.0), jnp.maximum(z, 0.0)
    return jnp.where(z < 0, math.log(0.5) + low, jnp.log1p(-0.5 * jnp.exp(-high)))


def _arctan(z: jax.Array) -> jax.Array:
    return 0.5 + jnp.arctan(z) / math.pi


Cdfs = tuple[Callable[..., jax.Array], Callable[..., jax.Array]]
"""Functions of y and the parameters: `log P(Y <= y)` and `log P(Y > y)`."""


def _logarithms(below: Callable[..., jax.Array], above: Callable[..., jax.Array]) -> Cdfs:
    """The pair of logarithms of two probabilities."""
    return lambda *a: jnp.log(below(*a)), lambda *a: jnp.log(above(*a))


def _symmetric(log_below: Callable[..., jax.Array]) -> Cdfs:
    """A symmetric location-scale family, from the log distribution function at a standardised point."""
    return (
        lambda y, *a: log_below((y - a[-2]) / a[-1], *a[:-2]),
        lambda y, *a: log_below(-(y - a[-2]) / a[-1], *a[:-2]),
    )


def _binomial(y: jax.Array, n: jax.Array, p: jax.Array) -> jax.Array:
    complete = jnp.asarray(y >= n)
    failures = jnp.where(complete, 1.0, n - y)
    return jnp.where(complete, 1.0, betainc(failures, y + 1.0, 1.0 - p))


CUMULATIVE: dict[str, Cdfs] = {
    "normal": _symmetric(log_ndtr),
    "std_normal": (log_ndtr, lambda y: log_ndtr(-y)),
    "logistic": _symmetric(log_inv_logit),
    "cauchy": _symmetric(lambda z: jnp.log(_arctan(z))),
    "student_t": _symmetric(lambda z, nu: jnp.log(_student(z, nu))),
    "double_exponential": _symmetric(_laplace),
    "lognormal": (
        lambda y, mu, sigma: log_ndtr((jnp.log(y) - mu) / sigma),
        lambda y, mu, sigma: log_ndtr(-(jnp.log(y) - mu) / sigma),
    ),
    "exponential": (lambda y, b: log1m_exp(-b * y), lambda y, b: -b * y),
    "weibull": (lambda y, a, s: log1m_exp(-((y / s) ** a)), lambda y, a, s: -((y / s) ** a)),
    "frechet": (lambda y, a, s: -((y / s) ** -a), lambda y, a, s: log1m_exp(-((y / s) ** -a))),
    "gumbel": (
        lambda y, mu, b: -jnp.exp(-(y - mu) / b),
        lambda y, mu, b: log1m_exp(-jnp.exp(-(y - mu) / b)),
    ),
    "rayleigh": (lambda y, s: log1m_exp(-0.5 * (y / s) ** 2), lambda y, s: -0.5 * (y / s) ** 2),
    "loglogistic": (
        lambda y, a, b: -jnp.log1p((y / a) ** -b),
        lambda y, a, b: -jnp.log1p((y / a) ** b),
    ),
    "pareto": (
        lambda y, low, a: log1m_exp(a * jnp.log(low / y)),
        lambda y, low, a: a * jnp.log(low / y),
    ),
    "uniform": _logarithms(
        lambda y, a, b: jnp.clip((y - a) / (b - a), 0.0, 1.0), lambda y, a, b: jnp.clip((b - y) / (b - a), 0.0, 1.0)
    ),
    "gamma": _logarithms(lambda y, a, b: gammainc(a, b * y), lambda y, a, b: gammaincc(a, b * y)),
    "inv_gamma": _logarithms(lambda y, a, b: gammaincc(a, b / y), lambda y, a, b: gammainc(a, b / y)),
    "chi_square": _logarithms(lambda y, nu: gammainc(nu / 2, y / 2), lambda y, nu: gammaincc(nu / 2, y / 2)),
    "beta": _logarithms(lambda y, a, b: betainc(a, b, y), lambda y, a, b: betainc(b, a, 1 - y)),
    "poisson": _logarithms(lambda y, m: gammaincc(y + 1.0, m), lambda y, m: gammainc(y + 1.0, m)),
    "bernoulli": _logarithms(lambda y, p: 1 - (y < 1) * p, lambda y, p: (y < 1) * p),
    "binomial": _logarithms(_binomial, lambda y, n, p: 1 - _binomial(y, n, p)),
    "neg_binomial_2": _logarithms(
        lambda y, m, phi: betainc(phi, y + 1.0, phi / (phi + m)),
        lambda y, m, phi: betainc(y + 1.0, phi, m / (phi + m)),
    ),
    "neg_binomial": _logarithms(
        lambda y, a, b: betainc(a, y + 1.0, b / (b + 1.0)), lambda y, a, b: betainc(y + 1.0, a, 1.0 / (b + 1.0))
    ),
}
"""By the name in Stan."""


# Log densities of one real number, elementwise, as the Stan functions reference defines them.


def _inside(holds: jax.Array, value: jax.Array) -> jax.Array:
    return jnp.where(holds, value, -jnp.inf)


def normal(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    return -0.5 * z * z - jnp.log(sigma) - 0.5 * LOG_2PI


def std_normal(y: jax.Array) -> jax.Array:
    return -0.5 * y * y - 0.5 * LOG_2PI


def student_t(y: jax.Array, nu: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    scale = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * jnp.log(nu * math.pi) - jnp.log(sigma)
    return scale - (nu + 1) / 2 * jnp.log1p(z * z / nu)


def cauchy(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    return -math.log(math.pi) - jnp.log(sigma) - jnp.log1p(z * z)


def double_exponential(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    return -jnp.log(2 * sigma) - jnp.abs(y - mu) / sigma


def logistic(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    z = (y - mu) / sigma
    return log_inv_logit(z) + log_inv_logit(-z) - jnp.log(sigma)


def gumbel(y: jax.Array, mu: jax.Array, beta: jax.Array) -> jax.Array:
    z = (y - mu) / beta
    return -jnp.log(beta) - z - jnp.exp(-z)


def lognormal(y: jax.Array, mu: jax.Array, sigma: jax.Array) -> jax.Array:
    return normal(jnp.log(y), mu, sigma) - jnp.log(y)


def chi_square(y: jax.Array, nu: jax.Array) -> jax.Array:
    return gamma(y, nu / 2, 0.5)


def inv_chi_square(y: jax.Array, nu: jax.Array) -> jax.Array:
    return inv_gamma(y, nu / 2, 0.5)


def scaled_inv_chi_square(y: jax.Array, nu: jax.Array, s: jax.Array) -> jax.Array:
    return inv_gamma(y, nu / 2, nu / 2 * s * s)


def exponential(y: jax.Array, beta: jax.Array) -> jax.Array:
    return jnp.log(beta) - beta * y


def gamma(y: jax.Array, alpha: jax.Array, beta: jax.Array | float) -> jax.Array:
    return alpha * jnp.log(beta) - gammaln(alpha) + xlogy(alpha - 1, y) - beta * y


def inv_gamma(y: jax.Array, alpha: jax.Array, beta: jax.Array | float) -> jax.Array:
    return alpha * jnp.log(beta) - gammaln(alpha) - (alpha + 1) * jnp.log(y) - beta / y


def weibull(y: jax.Array, alpha: jax.Array, sigma: jax.Array) -> jax.Array:
    return jnp.log(alpha / sigma) + xlogy(alpha - 1, y / sigma) - (y / sigma) ** alpha


def frechet(y: jax.Array, alpha: jax.Array, sigma: jax.Array) -> jax.Array:
    return jnp.log(alpha / sigma) - (alpha + 1) * jnp.log(y / sigma) - (y / sigma) ** -alpha


def rayleigh(y: jax.Array, sigma: jax.Array) -> jax.Array:
    return jnp.log(y) - 2 * jnp.log(sigma) - 0.5 * (y / sigma) ** 2


def loglogistic(y: jax.Array, alpha: jax.Array, beta: jax.Array) -> jax.Array:
    return jnp.log(beta / alpha) + (beta - 1) * jnp.log(y / alpha) - 2 * jnp.log1p((y / alpha) ** beta)


def pareto(y: jax.Array, low: jax.Array, alpha: jax.Array) -> jax.Array:
    return _inside(y >= low, jnp.log(alpha) + alpha * jnp.log(low) - (alpha + 1) * jnp.log(y))


def pareto_type_2(y: jax.Array, mu: jax.Array, scale: jax.Array, alpha: jax.Array) -> jax.Array:
    return jnp.log(alpha / scale) - (alpha + 1) * jnp.log1p((y - mu) / scale)


def beta(y: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    return xlogy(a - 1, y) + xlogy(b - 1, 1 - y) - betaln(a, b)


def beta_proportion(y: jax.Array, mu: jax.Array, kappa: jax.Array) -> jax.Array:
    return beta(y, mu * kappa, (1 - mu) * kappa)


def uniform(y: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return _inside((y >= low) & (y <= high), -jnp.log(jnp.asarray(high - low, float)) + 0 * y)


def von_mises(y: jax.Array, mu: jax.Array, kappa: jax.Array) -> jax.Array:
    from jax.scipy.special import i0e

    return kappa * (jnp.cos(mu - y) - 1) - LOG_2PI - jnp.log(i0e(kappa))


def exp_mod_normal(y: jax.Array, mu: jax.Array, sigma: jax.Array, rate: jax.Array) -> jax.Array:
    shift = mu + rate * sigma * sigma - y
    return jnp.log(rate) + rate * (shift - 0.5 * rate * sigma * sigma) + log_ndtr(-shift / sigma)


def skew_normal(y: jax.Array, xi: jax.Array, omega: jax.Array, alpha: jax.Array) -> jax.Array:
    return math.log(2) + normal(y, xi, omega) + log_ndtr(alpha * (y - xi) / omega)


def skew_double_exponential(y: jax.Array, mu: jax.Array, sigma: jax.Array, tau: jax.Array) -> jax.Array:
    residual = y - mu
    weight = jnp.where(residual < 0, 1 - tau, tau)
    return math.log(2) + jnp.log(tau) + jnp.log1p(-tau) - jnp.log(sigma) - 2 * weight * jnp.abs(residual) / sigma


CONTINUOUS = {
    f.__name__: f
    for f in (
        normal, std_normal, student_t, cauchy, double_exponential, logistic, gumbel, lognormal, chi_square,
        inv_chi_square, scaled_inv_chi_square, exponential, gamma, inv_gamma, weibull, frechet, rayleigh, loglogistic,
        pareto, pareto_type_2, beta, beta_proportion, uniform, von_mises, exp_mod_normal, skew_normal,
        skew_double_exponential,
    )
}  # fmt: skip
"""Functions by their name in Stan."""
