"""Functions of numbers, elementwise, over containers of any type."""

import math
from collections.abc import Callable
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy import special as jsp

from bayesrecon.models.stan import special
from bayesrecon.models.stan.arithmetic import binary
from bayesrecon.models.stan.values import Elements, StanError, V, whole, xp_of


def _either(numpy_name: str, jax_name: str | None = None) -> Callable[[Elements], Elements]:
    return lambda x: getattr(xp_of(x), numpy_name if xp_of(x) is np else jax_name or numpy_name)(x)


def _special(
    of_scipy: Callable[[Elements], Elements], of_jax: Callable[[Elements], Elements]
) -> Callable[[Elements], Elements]:
    return lambda x: (of_scipy if xp_of(x) is np else of_jax)(np.asarray(x, float) if xp_of(x) is np else x)


def _known(f: Callable[[Elements], Elements]) -> Callable[[Elements], Elements]:
    """A function of JAX, whose result is known where its argument is."""
    return lambda x: f(x)


def _round_away(x: Elements) -> Elements:
    xp = xp_of(x)
    return xp.sign(x) * xp.floor(xp.abs(x) + 0.5)


def _root(x: Elements) -> Elements:
    """The square root; its derivative at zero, where what is under it has underflowed, counts as zero."""
    if xp_of(x) is np:
        return np.sqrt(x)
    none = x == 0
    safe = jnp.where(none, 1.0, x)
    return jnp.where(none, 0.0, jnp.sqrt(safe))


ONE: dict[str, Callable[[Elements], Elements]] = {
    **{
        name: _either(name)
        for name in ("exp", "log", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc")
    },
    **{name: _either(name) for name in ("log1p", "expm1", "log10", "log2", "exp2")},
    "sqrt": _root,
    "asin": _either("arcsin"),
    "acos": _either("arccos"),
    "atan": _either("arctan"),
    "asinh": _either("arcsinh"),
    "acosh": _either("arccosh"),
    "atanh": _either("arctanh"),
    "cbrt": _either("cbrt"),
    "round": _round_away,
    "square": lambda x: x * x,
    "inv": lambda x: 1.0 / xp_of(x).asarray(x, float),
    "inv_sqrt": lambda x: 1.0 / xp_of(x).sqrt(x),
    "inv_square": lambda x: 1.0 / (x * 1.0 * x),
    "fabs": _either("abs"),
    "step": lambda x: xp_of(x).where(x >= 0, 1.0, 0.0),
    "inv_logit": _special(scipy.special.expit, jax.nn.sigmoid),
    "logit": _special(scipy.special.logit, lambda x: jnp.log(x) - jnp.log1p(-x)),
    "inv_cloglog": lambda x: -xp_of(x).expm1(-xp_of(x).exp(x)),
    "cloglog": lambda x: xp_of(x).log(-xp_of(x).log1p(-x)),
    "Phi": _special(scipy.special.ndtr, jsp.ndtr),
    "std_normal_qf": _special(scipy.special.ndtri, jsp.ndtri),
    "inv_Phi": _special(scipy.special.ndtri, jsp.ndtri),
    "Phi_approx": lambda x: ONE["inv_logit"](0.07056 * x**3 + 1.5976 * x),
    "lgamma": _special(scipy.special.gammaln, jsp.gammaln),
    "tgamma": _special(scipy.special.gamma, lambda x: jnp.exp(jsp.gammaln(x))),
    "digamma": _special(scipy.special.digamma, jsp.digamma),
    "trigamma": _special(lambda x: scipy.special.polygamma(1, x), lambda x: jsp.polygamma(1, x)),
    "erf": _special(scipy.special.erf, jsp.erf),
    "erfc": _special(scipy.special.erfc, jsp.erfc),
    "log1p_exp": lambda x: xp_of(x).logaddexp(0.0, x),
    "log1m": lambda x: xp_of(x).log1p(-x),
    "log1m_exp": special.log1m_exp,
    "log_inv_logit": special.log_inv_logit,
    "log1m_inv_logit": special.log1m_inv_logit,
    "lambert_w0": _special(lambda x: scipy.special.lambertw(x).real, _known(lambda x: _unsupported("lambert_w0"))),
}
"""Functions of one number."""


def _unsupported(name: str) -> NoReturn:
    raise StanError(f"{name} of a value that is not constant is not supported")


def _max(x: Elements, y: Elements) -> Elements:
    return xp_of(x, y).maximum(x, y)


def _min(x: Elements, y: Elements) -> Elements:
    return xp_of(x, y).minimum(x, y)


def _pow(x: Elements, y: Elements) -> Elements:
    return binary(".^", V("real", x), V("real", y)).a


TWO: dict[str, Callable[[Elements, Elements], Elements]] = {
    "pow": _pow,
    "fmax": _max,
    "fmin": _min,
    "fmod": lambda x, y: xp_of(x, y).fmod(x, y),
    "fdim": lambda x, y: _max(x - y, 0.0),
    "atan2": lambda x, y: xp_of(x, y).arctan2(x, y),
    "hypot": lambda x, y: xp_of(x, y).hypot(x, y),
    "lchoose": special.log_choose,
    "binomial_coefficient_log": special.log_choose,
    "lbeta": lambda x, y: jsp.betaln(jnp.asarray(x, float), jnp.asarray(y, float)),
    "beta": lambda x, y: jnp.exp(jsp.betaln(jnp.asarray(x, float), jnp.asarray(y, float))),
    "multiply_log": special.xlogy,
    "lmultiply": special.xlogy,
    "log_diff_exp": special.log_diff_exp,
    "log_falling_factorial": lambda x, n: jsp.gammaln(x + 1.0) - jsp.gammaln(x - n + 1.0),
    "log_rising_factorial": lambda x, n: jsp.gammaln(x + n * 1.0) - jsp.gammaln(x * 1.0),
    "rising_factorial": lambda x, n: jnp.exp(jsp.gammaln(x + n * 1.0) - jsp.gammaln(x * 1.0)),
    "gamma_p": lambda x, y: jsp.gammainc(x, y),
    "gamma_q": lambda x, y: jsp.gammaincc(x, y),
    "ldexp": lambda x, y: x * 2.0**y,
    "modified_bessel_first_kind": lambda n, x: special.modified_bessel(_order(n), x),
    "lmgamma": lambda k, x: special.lmgamma(int(k), x),
    "log_modified_bessel_first_kind": lambda n, x: jnp.log(special.modified_bessel(_order(n), x)),
}
"""Functions of two numbers."""


def _order(n: Elements) -> int:
    if isinstance(n, jax.Array) or n not in (0, 1):
        raise StanError("only Bessel functions of order 0 and 1 are supported")
    return int(n)


THREE: dict[str, Callable[[Elements, Elements, Elements], Elements]] = {
    "fma": lambda x, y, z: x * y + z,
    "inc_beta": lambda a, b, x: jsp.betainc(a, b, x),
}
"""Functions of three numbers."""

WHOLE = {"int_step", "abs", "max", "min", "floor"}
"""Functions that keep integers whole."""

CONSTANTS: dict[str, float] = {
    "pi": math.pi,
    "e": math.e,
    "sqrt2": math.sqrt(2),
    "log2": math.log(2),
    "log10": math.log(10),
    "negative_infinity": -math.inf,
    "positive_infinity": math.inf,
    "not_a_number": math.nan,
    "machine_precision": 2.0**-52,
}
"""Functions without arguments."""


def _broadcast(*args: V) -> tuple[str, int]:
    """Base and depth of what functions of several numbers return."""
    shaped = [v for v in args if not v.scalar]
    if len({v.shape for v in shaped}) > 1:
        raise StanError(f"containers of shapes {' and '.join(str(v.shape) for v in shaped)} are combined")
    if not shaped:
        return "real", 0
    base = shaped[0].base
    return ("real" if base == "int" else base), shaped[0].depth


def numbers(f: Callable[..., Elements], args: list[V]) -> V:
    """`f` of numbers, elementwise."""
    base, depth = _broadcast(*args)
    return V(base, f(*(v.a for v in args)), depth)


def absolute(x: V) -> V:
    return V(x.base, xp_of(x.a).abs(x.a), x.depth)


def int_step(x: V) -> V:
    return whole(xp_of(x.a).where(x.a > 0, 1, 0))


def is_nan(x: V) -> V:
    return whole(xp_of(x.a).isnan(x.a).astype(int) if not np.isscalar(x.a) else int(x.a != x.a))


def is_inf(x: V) -> V:
    return whole(int(np.isinf(x.a)) if x.known else jnp.isinf(x.a).astype(int))


def to_int(x: V) -> V:
    return V("int", xp_of(x.a).trunc(x.a) if not x.known else np.trunc(x.a).astype(int), x.depth)


def choose(n: V, k: V) -> V:
    """Binomial coefficients, which are integers."""
    if not (n.known and k.known):
        return V("int", jnp.round(numbers(lambda x, y: jnp.exp(special.log_choose(x, y)), [n, k]).a), n.depth)
    coefficients = numbers(lambda x, y: np.round(scipy.special.binom(x, y)), [n, k])
    if np.max(coefficients.a, initial=0.0) >= 2**31:
        raise StanError("a binomial coefficient overflows an integer")
    return V(
        "int", np.asarray(coefficients.a).astype(int) if coefficients.shape else int(coefficients.a), coefficients.depth
    )


def log_mix(args: list[V]) -> V:
    """`log(theta exp(a) + (1 - theta) exp(b))`, or of shares and log densities."""
    if len(args) == 3:
        theta, first, second = (jnp.asarray(v.a, float) for v in args)
        return V("real", jnp.logaddexp(jnp.log(theta) + first, jnp.log1p(-theta) + second))
    theta, logs = (jnp.asarray(v.a, float) for v in args)
    return V("real", jnp.sum(special.log_sum_exp(jnp.log(theta) + logs, axis=-1)))


NUMERIC: dict[str, Callable[..., V]] = {
    "abs": absolute,
    "int_step": int_step,
    "is_nan": is_nan,
    "is_inf": is_inf,
    "to_int": to_int,
    "choose": choose,
    "log_mix": lambda *args: log_mix(list(args)),
}
"""Functions of values that are no plain map of elements."""
