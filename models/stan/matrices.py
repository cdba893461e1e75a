"""Functions of matrices, and covariance functions of Gaussian processes."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.models.stan.linear_algebra import cholesky, lower_solve, solve
from bayesrecon.models.stan.special import matrix_exp
from bayesrecon.models.stan.values import StanError, V, check_size, number, real, xp_of


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
