"""Calls functions of the language by name, except those that take functions."""

import math
from collections.abc import Callable
from typing import NoReturn

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax.scipy import special as jsp

from bayesrecon.arrays import Array
from bayesrecon.errors import near
from bayesrecon.models.stan import named_densities as densities
from bayesrecon.models.stan import special
from bayesrecon.models.stan.arithmetic import binary
from bayesrecon.models.stan.containers import CONTAINERS
from bayesrecon.models.stan.linear_algebra import cholesky, lower_solve, solve
from bayesrecon.models.stan.special import matrix_exp
from bayesrecon.models.stan.values import Elements, StanError, V, check_size, number, real, whole, xp_of

# Functions of numbers, elementwise, over containers of any type.


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


_NUMBERS: dict[int, dict[str, Callable[..., Elements]]] = {1: ONE, 2: TWO, 3: THREE}


def apply(name: str, args: list[V]) -> V:
    """A function of the language.

    Known values give known ones, also while something is being traced.

    Raises:
        StanError: there is none of this name, or it does not take these values.
    """
    tainted = any(v.tainted for v in args)
    if not all(v.known for v in args):
        return _applied(name, args).with_taint(tainted)
    with jax.ensure_compile_time_eval():
        result = _applied(name, args)
        if isinstance(result.a, jax.Array):
            result = V(result.base, np.asarray(result.a)[()], result.depth)
    return result.with_taint(tainted)


def _applied(name: str, args: list[V]) -> V:
    try:
        if not args and name in CONSTANTS:
            return real(CONSTANTS[name])
        if name in _NUMBERS.get(len(args), {}):
            return numbers(_NUMBERS[len(args)][name], args)
        function = NUMERIC.get(name) or CONTAINERS.get(name) or MATRICES.get(name)
        if function is not None:
            return function(*args)
        density = densities.density_of_call(name)
        if density is not None and args:
            return V("real", jnp.asarray(densities.log_density(density, args)))
        cumulative = densities.cumulative(name)
        if cumulative is not None and args:
            return V("real", cumulative(args))
    except StanError:
        raise
    except (TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
        if isinstance(error, jax.errors.JAXTypeError):
            raise
        raise StanError(f"{name} does not take ({', '.join(f'{v.words} {v.shape}' for v in args)})") from error
    if name.endswith("_rng"):
        raise StanError(f"{name} draws at random, which a log density cannot depend on")
    raise StanError(f"there is no function {name}{near(name, [*ONE, *TWO, *CONTAINERS, *MATRICES])}")


# Functions of matrices, and covariance functions of Gaussian processes.


def _matrix(a: Array) -> V:
    return V("matrix", a)


def _product(x: Array, y: Array) -> V:
    check_size((x.shape[0], y.shape[1]), "a product")
    return _matrix(x @ y)


def _symmetric(vectors: bool) -> Callable[[V], V]:
    def decompose(x: V) -> V:
        values, eigenvectors = xp_of(x.a).linalg.eigh(x.a)
        return _matrix(eigenvectors) if vectors else V("vector", values)

    return decompose


def _log_determinant(x: V) -> V:
    return real(xp_of(x.a).linalg.slogdet(x.a)[1])


def _spd_log_determinant(x: V) -> V:
    factor = cholesky(x.a)
    return real(2 * xp_of(factor).sum(xp_of(factor).log(xp_of(factor).diagonal(factor))))


def _inverse(x: V) -> V:
    if x.known:
        try:
            return _matrix(np.linalg.inv(x.a))
        except np.linalg.LinAlgError:
            raise StanError("a singular matrix cannot be inverted") from None
    return _matrix(jnp.linalg.inv(x.a))


def _diagonal(x: V) -> V:
    return V("vector", xp_of(x.a).diagonal(x.a))


def _diagonal_matrix(x: V) -> V:
    check_size(x.shape * 2, "a diagonal matrix")
    return _matrix(xp_of(x.a).diag(x.a))


def _add_diagonal(x: V, y: V) -> V:
    size = x.shape[0]
    return _matrix(x.a + xp_of(y.a).broadcast_to(y.a, (size,)) * np.eye(size))


def _quadratic(a: V, b: V) -> V:
    """`b' a b`."""
    form = b.a.T @ a.a @ b.a
    return real(form) if b.base == "vector" else _matrix(form)


def _trace_quad(a: V, b: V) -> V:
    return real(xp_of(a.a, b.a).trace(b.a.T @ a.a @ b.a))


def _identity(n: V) -> V:
    size = number(n, "a size")
    check_size((size, size), "an identity matrix")
    return _matrix(np.eye(size))


def _lower(x: V) -> Array:
    return xp_of(x.a).tril(x.a)


def _left_divide(x: V, y: V) -> V:
    return V(y.base, solve(x.a, y.a))


def _left_divide_lower(x: V, y: V) -> V:
    return V(y.base, lower_solve(_lower(x), y.a))


def _right_divide(y: V, x: V) -> V:
    return V(y.base, solve(x.a.T, y.a.T).T)


def _right_divide_lower(y: V, x: V) -> V:
    upper = _lower(x).T
    return V(y.base, solve(upper, y.a.T).T)


def _along(axis: int) -> Callable[[V, V], V]:
    def product(x: V, y: V) -> V:
        return V("row_vector" if axis == 0 else "vector", xp_of(x.a, y.a).sum(x.a * y.a, axis=axis))

    return product


def _qr(which: str, thin: bool) -> Callable[[V], V]:
    def decompose(x: V) -> V:
        check_size(x.shape if thin else (x.shape[0], x.shape[0]), "a factor")
        q, r = xp_of(x.a).linalg.qr(x.a, "reduced" if thin else "complete")
        sign = xp_of(r).sign(xp_of(r).diagonal(r))
        sign = xp_of(r).where(sign == 0, 1.0, sign)
        k = sign.shape[0]
        if which == "Q":
            return _matrix(xp_of(q).concatenate([q[:, :k] * sign, q[:, k:]], axis=1))
        return _matrix(xp_of(r).concatenate([r[:k] * sign[:, None], r[k:]], axis=0))

    return decompose


def _points(x: V) -> Array:
    """Places as `(n, dimension)`."""
    a = xp_of(x.a).asarray(x.a, float)
    return a[:, None] if a.ndim == 1 else a


def _kernel(shape: Callable[[Array], Array], smooth: bool) -> Callable[..., V]:
    """A covariance function from a function of scaled distances, or of their squares if `smooth`."""

    def covariance(*args: V) -> V:
        *places, sigma, scale = args
        first, second = _points(places[0]), _points(places[-1])
        check_size((len(first), len(second), first.shape[1]), "a covariance matrix")
        length = xp_of(scale.a).atleast_1d(scale.a)
        differences = (first[:, None, :] - second[None, :, :]) / length
        squares = xp_of(differences).sum(differences * differences, axis=-1)
        if not smooth:
            xp = xp_of(squares)
            none = squares == 0
            squares = xp.where(none, 0.0, xp.sqrt(xp.where(none, 1.0, squares)))
        return _matrix(sigma.a * sigma.a * shape(squares))

    return covariance


def _matern32(r: Array) -> Array:
    return (1 + np.sqrt(3.0) * r) * xp_of(r).exp(-np.sqrt(3.0) * r)


def _matern52(r: Array) -> Array:
    return (1 + np.sqrt(5.0) * r + 5.0 / 3.0 * r * r) * xp_of(r).exp(-np.sqrt(5.0) * r)


def _periodic(*args: V) -> V:
    *places, sigma, scale, period = args
    first, second = _points(places[0]), _points(places[-1])
    check_size((len(first), len(second), first.shape[1]), "a covariance matrix")
    differences = first[:, None, :] - second[None, :, :]
    xp = xp_of(differences, period.a, scale.a, sigma.a)
    waves = xp.sum(xp.sin(np.pi * xp.abs(differences) / period.a) ** 2, axis=-1)
    return _matrix(sigma.a * sigma.a * xp.exp(-2 * waves / (scale.a * scale.a)))


def _dot_product_cov(*args: V) -> V:
    *places, sigma = args
    return _matrix(sigma.a * sigma.a + _product(_points(places[0]), _points(places[-1]).T).a)


_exponentiated = _kernel(lambda s: xp_of(s).exp(-0.5 * s), True)

MATRICES: dict[str, Callable[..., V]] = {
    "transpose": lambda x: V(
        {"vector": "row_vector", "row_vector": "vector"}.get(x.base, "matrix"), x.a.T if x.base == "matrix" else x.a
    ),
    "cholesky_decompose": lambda x: _matrix(cholesky(x.a)),
    "inverse": _inverse,
    "inverse_spd": _inverse,
    "chol2inv": lambda x: _inverse(_matrix(x.a @ x.a.T)),
    "log_determinant": _log_determinant,
    "log_determinant_spd": _spd_log_determinant,
    "determinant": lambda x: real(xp_of(x.a).linalg.det(x.a)),
    "trace": lambda x: real(xp_of(x.a).trace(x.a)),
    "diagonal": _diagonal,
    "diag_matrix": _diagonal_matrix,
    "identity_matrix": _identity,
    "add_diag": _add_diagonal,
    "diag_pre_multiply": lambda v, m: _matrix(v.a[:, None] * m.a),
    "diag_post_multiply": lambda m, v: _matrix(m.a * v.a[None, :]),
    "quad_form": _quadratic,
    "quad_form_sym": _quadratic,
    "trace_quad_form": _trace_quad,
    "quad_form_diag": lambda m, v: _matrix(v.a[:, None] * m.a * v.a[None, :]),
    "multiply_lower_tri_self_transpose": lambda x: _matrix(_lower(x) @ _lower(x).T),
    "tcrossprod": lambda x: _product(x.a, x.a.T),
    "crossprod": lambda x: _product(x.a.T, x.a),
    "mdivide_left": _left_divide,
    "mdivide_left_spd": _left_divide,
    "mdivide_left_tri_low": _left_divide_lower,
    "mdivide_right": _right_divide,
    "mdivide_right_spd": _right_divide,
    "mdivide_right_tri_low": _right_divide_lower,
    "columns_dot_product": _along(0),
    "rows_dot_product": _along(1),
    "columns_dot_self": lambda x: V("row_vector", xp_of(x.a).sum(x.a * x.a, axis=0)),
    "rows_dot_self": lambda x: V("vector", xp_of(x.a).sum(x.a * x.a, axis=1)),
    "eigenvalues_sym": _symmetric(False),
    "eigenvectors_sym": _symmetric(True),
    "matrix_exp": lambda x: _matrix(matrix_exp(x.a)),
    "qr_Q": _qr("Q", False),
    "qr_R": _qr("R", False),
    "qr_thin_Q": _qr("Q", True),
    "qr_thin_R": _qr("R", True),
    "singular_values": lambda x: V("vector", xp_of(x.a).linalg.svd(x.a, compute_uv=False)),
    "gp_exp_quad_cov": _exponentiated,
    "cov_exp_quad": _exponentiated,
    "gp_exponential_cov": _kernel(lambda r: xp_of(r).exp(-r), False),
    "gp_matern32_cov": _kernel(_matern32, False),
    "gp_matern52_cov": _kernel(_matern52, False),
    "gp_periodic_cov": _periodic,
    "gp_dot_prod_cov": _dot_product_cov,
}
"""Functions by their name in Stan."""
