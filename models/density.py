"""Log densities that other software evaluates (for example a Stan program) as `Model`."""

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.domains import REAL
from bayesrecon.errors import BayesreconError, first_line, near
from bayesrecon.model import Field, Model, Parameter, Params, Records
from bayesrecon.models.inspection import parameter, typical_values
from bayesrecon.precision import in_float64
from bayesrecon.stated_domains import domains_of

if TYPE_CHECKING:
    from numpyro.distributions.constraints import Constraint

D = TypeVar("D")
"""Data as the other software takes them."""

_INTERVALS = ((0.1, 0.4), (-0.4, 0.3), (1.0, 3.0), (3.0, 6.0), (-3.0, -1.0))  # theta runs evenly over one of these

_MOST_DATA_SETS = 20_000  # data sets that are kept as `dataset` returned them
_MOST_BLOCKS = 4  # blocks of points whose log densities without a record are kept


@in_float64
def from_density(
    log_density: Callable[[np.ndarray, D], tuple[float, npt.ArrayLike]],
    parameters: Mapping[str, tuple[int, ...]],
    record: Mapping[str, tuple[int, ...]],
    dataset: Callable[[Records], D],
    *,
    support: Mapping[str, str | tuple[float, float]] | None = None,
    domain: Mapping[str, object] | None = None,
    jacobian: bool = True,
    prepare: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None,
    name: str | None = None,
) -> Model:
    """A `Model` from a posterior density that other software evaluates, such as a Stan program through BridgeStan.

    The likelihood term of a record is the difference between data sets with and without it,
    `l(theta, z) = log p(theta | D and z) - log p(theta | D)`. D is empty, or has one record for a program that does not
    accept an empty data set. The prior is what remains. Second derivatives are central differences of gradients. There
    are no derivatives with respect to the data, so attacks that optimise records by gradients raise an error.

    Args:
        log_density: function `(theta (d,), data) -> (value, gradient (d,))`, up to a constant that may depend on the
            data. theta stacks the parameters in their order, unconstrained, each in Stan's coordinates of its support.
        parameters: `{name: shape}` in the order in which theta stacks them.
        record: `{field: shape of one record's value}`.
        dataset: function `{field: (N, *shape)} -> data`. It returns whatever `log_density` takes: Stan's data as a
            dictionary, or a model that has read them. Whole numbers arrive as integers.
        support: `{parameter: support}`: "positive", `(low, high)` (either may be infinite) or "ordered". Others are
            real.
        domain: `{field: domain}`, as in `from_numpyro`.
        jacobian: whether `log_density` includes the log Jacobian of the constraining map, as Stan's does by default.
        prepare: function that maps published draws, `{name: (chains, draws, *shape)}`, to the parameters if they
            differ, for example draws of a simplex to the unconstrained values that the program itself assigns to them.
        name: name in tables.

    Raises:
        BayesreconError: a function fails or returns something else, or the density is not a product over records.

    >>> import numpy as np
    >>> def log_density(theta, y):  # a mean with a standard normal prior
    ...     return -0.5 * theta @ theta - 0.5 * np.sum((y - theta) ** 2), np.sum(y - theta) - theta
    >>> from_density(log_density, {"mu": ()}, {"y": ()}, lambda records: records["y"]).coordinates
    ('mu',)
    """
    title = name or getattr(log_density, "__name__", "density").replace("<lambda>", "density")
    if not parameters:
        raise BayesreconError(f"{title}: there are no parameters, so there is no posterior")
    if not record:
        raise BayesreconError(f"{title}: the record has no fields, so there is nothing to recover")
    for k in support or {}:
        if k not in parameters:
            raise BayesreconError(f"support: {k!r} is not a parameter ({', '.join(parameters)}){near(k, parameters)}")
    domains = domains_of(domain, record)
    fields = {k: Field(tuple(shape), domains.get(k, REAL)) for k, shape in record.items()}
    stacked = tuple(_parameter(n, tuple(shape), (support or {}).get(n), title) for n, shape in parameters.items())
    oracle = _Oracle(title, log_density, dataset, fields, sum(p.size for p in stacked))
    record_term, remainder = from_callback(oracle.terms), from_callback(oracle.priors)

    def log_lik_at(params: Params, record: Records) -> jax.Array:
        return record_term(model.unconstrain(params), {k: record[k] for k in fields})

    def log_prior_at(params: Params) -> jax.Array:
        theta = model.unconstrain(params)
        value = remainder(theta, {})
        return value - model.log_det(theta) if jacobian else value

    model = Model(title, stacked, fields, log_lik_at, log_prior_at, prepare=prepare)
    oracle.check()
    return model


def _parameter(name: str, shape: tuple[int, ...], support: object, title: str) -> Parameter:
    """The parameter in Stan's coordinates of its support."""
    from numpyro.distributions import constraints

    if support is None or support == "real":
        constraint: Constraint[Any] = constraints.real
    elif support == "positive":
        constraint = constraints.positive
    elif support == "ordered":
        constraint = constraints.ordered_vector
    elif isinstance(support, tuple) and len(support) == 2 and support[0] < support[1]:
        low, high = (float(end) for end in support)
        if math.isfinite(low) and math.isfinite(high):
            constraint = constraints.interval(low, high)
        elif math.isfinite(low):
            constraint = constraints.greater_than(low)
        else:
            constraint = constraints.less_than(high) if math.isfinite(high) else constraints.real
    else:
        raise BayesreconError(
            f'{title}: the support of {name} is "real", "positive", "ordered" or (low, high), got {support!r}; '
            "for other supports use unconstrained parameters, and supply prepare=, which maps the draws to them"
        )
    return parameter(name, shape, constraint, title)


class _Oracle(Generic[D]):
    """Values and gradients of record terms and of the prior, as differences of log densities of data sets.

    Attributes:
        data_sets: results of `dataset`, by the bytes of the records.
        base: records of the smallest data set that the program accepts: none, or one.
        without: values and gradients at `base`, by the bytes of theta.
    """

    def __init__(
        self,
        title: str,
        log_density: Callable[[np.ndarray, D], tuple[float, npt.ArrayLike]],
        dataset: Callable[[Records], D],
        fields: Mapping[str, Field],
        size: int,
    ) -> None:
        self.title, self.log_density, self.dataset, self.fields, self.size = title, log_density, dataset, fields, size
        self.data_sets: dict[tuple[bytes, ...], D] = {}
        self.without: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}
        self.base = self._random_records(0, np.random.default_rng(0))
        if self._failure(self.base) is not None:
            self.base = self._random_records(1, np.random.default_rng(0))
            if (reason := self._failure(self.base)) is not None:
                raise BayesreconError(f"{title}: the log density of one record cannot be used: {reason}")

    def terms(self, theta: np.ndarray, record: Records) -> tuple[np.ndarray, np.ndarray]:
        """Terms of one record and their gradients, `(T,)` and `(T, d)`, at `(T, d)`."""
        with_record = {k: np.concatenate([v, np.asarray(record[k])[None]]) for k, v in self.base.items()}
        return _difference(self._at(theta, with_record), self._without(theta))

    def priors(self, theta: np.ndarray, _: Records) -> tuple[np.ndarray, np.ndarray]:
        """The log density without its record terms: values and gradients as in `terms`."""
        value = self._without(theta)
        for n in range(self._count):
            value = _difference(value, self.terms(theta, {k: v[n] for k, v in self.base.items()}))
        return value

    def check(self) -> None:
        """Check that the terms of three records sum to their joint likelihood, and that gradients match the values."""
        records = self._random_records(3, np.random.default_rng(1))
        for low, high in _INTERVALS:
            theta = np.linspace(low, high, self.size)[None]
            joint = self._at(theta, records)
            if np.isfinite(joint[0]).all():
                break
        else:
            raise BayesreconError(
                f"{self.title}: the log density is not finite at any point that was tried, so it cannot be "
                "checked; state where the fields lie with domain="
            )
        single = self.priors(theta, {})
        for n in range(3):
            value, slope = self.terms(theta, {k: v[n] for k, v in records.items()})
            single = single[0] + value, single[1] + slope
        if not all(np.allclose(a, b, rtol=1e-8, atol=1e-8) for a, b in zip(joint, single, strict=True)):
            raise BayesreconError(
                f"{self.title}: the likelihood is not a product over records (three records jointly give "
                f"{joint[0][0]:.6g}, separately {single[0][0]:.6g}); a mean, a scale or a lag computed from the data "
                "belongs in the record itself, or in what dataset= holds fixed"
            )
        self._check_gradient(theta, records, joint)

    def _check_gradient(self, theta: np.ndarray, records: Records, at: tuple[np.ndarray, np.ndarray]) -> None:
        step = 1e-5  # errors of 1e-10 and of 1e-11 of the value
        for i, unit in enumerate(np.eye(self.size)):
            (up, _), (down, _) = (self._at(theta + sign * step * unit, records) for sign in (1, -1))
            numeric, grad = (up - down).item() / (2 * step), at[1][0, i]
            if not abs(numeric - grad) <= 1e-4 * (1 + abs(grad) + 1e-6 * abs(at[0].item())):
                raise BayesreconError(
                    f"{self.title}: the gradient of the log density in coordinate {i + 1} is {grad:.6g}, its values "
                    f"change by {numeric:.6g}; log_density gives (value, gradient) at unconstrained theta"
                )

    @property
    def _count(self) -> int:
        return len(next(iter(self.base.values())))

    def _random_records(self, count: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
        return {k: typical_values(f.domain, rng, (count, *f.shape)) for k, f in self.fields.items()}

    def _data(self, records: Records) -> D:
        typed = {k: self._typed(k, v) for k, v in records.items()}
        key = tuple(v.tobytes() for v in typed.values())
        if key not in self.data_sets:
            if len(self.data_sets) >= _MOST_DATA_SETS:
                self.data_sets.clear()
            self.data_sets[key] = self.dataset(typed)
        return self.data_sets[key]

    def _typed(self, name: str, values: Array) -> np.ndarray:
        integer = np.issubdtype(self.fields[name].domain.dtype, np.integer)
        return np.rint(values).astype(int) if integer else np.asarray(values, float)

    def _without(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients at `base`, stored because every record needs them at the same points."""
        key = theta.tobytes()
        if key not in self.without:
            while len(self.without) >= _MOST_BLOCKS:
                self.without.pop(next(iter(self.without)))
            self.without[key] = self._at(theta, self.base)
        return self.without[key]

    def _at(self, theta: np.ndarray, records: Records) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients at the rows of theta; NaN where the program refuses the point."""
        value, slope = np.full(len(theta), np.nan), np.full(theta.shape, np.nan)
        data = self._data(records)
        for n, t in enumerate(theta):
            if np.isfinite(t).all():
                try:
                    value[n], slope[n] = self.log_density(t, data)
                except (ArithmeticError, RuntimeError, ValueError):
                    continue  # as BridgeStan does for a point outside the support
        return value, slope

    def _failure(self, records: Records) -> str | None:
        """Why the log density of these data cannot be used; None if it is finite at one of the points."""
        reason = "it is not finite at any point that was tried; state where the fields lie with domain="
        try:
            data = self._data(records)
        except Exception as error:
            return f"dataset fails: {first_line(error)}"
        for low, high in _INTERVALS:
            try:
                value, slope = self.log_density(np.linspace(low, high, self.size), data)
            except Exception as error:
                reason = first_line(error)
                continue
            if np.shape(value) != () or np.shape(slope) != (self.size,):
                return (
                    f"log_density gives a value of shape {np.shape(value)} and a gradient of shape {np.shape(slope)}, "
                    f"expected () and ({self.size},)"
                )
            if math.isfinite(float(value)) and np.isfinite(np.asarray(slope, float)).all():
                return None
        return reason


def _difference(
    minuend: tuple[np.ndarray, np.ndarray], subtrahend: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    return minuend[0] - subtrahend[0], minuend[1] - subtrahend[1]


# A function that other software evaluates, with its gradient, as one that JAX maps and differentiates twice.

ValueAndGradient = Callable[[np.ndarray, Records], tuple[np.ndarray, np.ndarray]]
"""`(theta (T, d), one record) -> values (T,), gradients (T, d)`."""

_STEP = 1e-3
"""Step of central differences, in lengths of the direction. The kernel's directions have about a posterior standard
deviation; the relative error is about 1e-7 for a second derivative that varies on this scale."""

_FARTHEST = 1e-3
"""Largest step in a coordinate, as a share of `1 + max |theta|`, for directions in other units."""


def from_callback(value_and_gradient: ValueAndGradient) -> Callable[[Array, Records], jax.Array]:
    """`f(theta (d,), record) -> scalar`, whose second derivatives in theta are differences of gradients."""

    def both_on_host(theta: np.ndarray, record: Records) -> tuple[np.ndarray, np.ndarray]:
        result = _mapped(lambda t, z: np.column_stack(value_and_gradient(t, z)), np.shape(theta)[-1] + 1, theta, record)
        return result[..., 0], result[..., 1:]

    def hessian_product_on_host(theta: np.ndarray, v: np.ndarray, record: Records) -> np.ndarray:
        theta, v = np.broadcast_arrays(np.asarray(theta), np.asarray(v))
        d = theta.shape[-1]

        def hessian_product(points: np.ndarray, z: Records) -> np.ndarray:
            t, w = points[:, :d], points[:, d:]
            largest = np.maximum(np.abs(w).max(axis=1), np.finfo(float).tiny)
            h = np.minimum(_STEP, _FARTHEST * (1 + np.abs(t).max(axis=1)) / largest)[:, None]
            return (value_and_gradient(t + h * w, z)[1] - value_and_gradient(t - h * w, z)[1]) / (2 * h)

        return _mapped(hessian_product, d, np.concatenate([theta, v], axis=-1), record)

    @jax.custom_jvp
    def value(theta: Array, record: Records) -> jax.Array:
        return both(theta, record)[0]

    @jax.custom_jvp
    def both(theta: Array, record: Records) -> tuple[jax.Array, jax.Array]:
        shapes = (jax.ShapeDtypeStruct((), theta.dtype), jax.ShapeDtypeStruct(theta.shape, theta.dtype))
        return jax.pure_callback(both_on_host, shapes, theta, record, vmap_method="expand_dims")

    @jax.custom_jvp
    def hessian_product(theta: Array, v: Array, record: Records) -> jax.Array:
        shapes = jax.ShapeDtypeStruct(theta.shape, theta.dtype)
        return jax.pure_callback(hessian_product_on_host, shapes, theta, v, record, vmap_method="expand_dims")

    def value_jvp(primals: tuple[Array, Mapping[str, Array]], tangents: Any) -> tuple[jax.Array, jax.Array]:
        _check_no_derivative(tangents[1])
        v, slope = both(*primals)
        return v, slope @ _dense(tangents[0], primals[0])

    def both_jvp(
        primals: tuple[Array, Mapping[str, Array]], tangents: Any
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        _check_no_derivative(tangents[1])
        (theta, record), t = primals, _dense(tangents[0], primals[0])
        v, slope = both(theta, record)
        return (v, slope), (slope @ t, hessian_product(theta, t, record))

    def third_derivative(primals: object, tangents: object) -> NoReturn:
        raise BayesreconError("a density evaluated by other software has no third derivatives")

    value.defjvp(value_jvp, symbolic_zeros=True)
    both.defjvp(both_jvp, symbolic_zeros=True)
    hessian_product.defjvp(third_derivative)
    return lambda theta, record: value(jnp.asarray(theta, float), {k: jnp.asarray(v) for k, v in record.items()})


def _dense(tangent: Any, theta: Array) -> jax.Array:
    return jnp.zeros_like(theta) if _no_derivative(tangent) else tangent


def _no_derivative(tangent: Any) -> bool:
    return isinstance(tangent, jax.custom_derivatives.SymbolicZero) or tangent.dtype == jax.dtypes.float0


def _check_no_derivative(record: object) -> None:
    if not all(
        _no_derivative(leaf) for leaf in jax.tree_util.tree_leaves(record, is_leaf=lambda x: hasattr(x, "dtype"))
    ):
        raise BayesreconError(
            "this attack needs derivatives of the density with respect to the data, which other software does not "
            "give; write the model with models.from_numpyro"
        )


def _mapped(
    function: Callable[[np.ndarray, Records], np.ndarray], width: int, theta: Array, record: Records
) -> np.ndarray:
    """Map `function(theta (T, d), one record) -> (T, width)` over the leading axes of both, which broadcast.

    All points of a record are passed at once.
    """
    theta, leaves = np.asarray(theta), {k: np.asarray(v) for k, v in record.items()}
    axes = theta.ndim - 1
    record_axes = np.broadcast_shapes((1,) * axes, *(v.shape[:axes] for v in leaves.values()))
    result = np.empty((*np.broadcast_shapes(record_axes, theta.shape[:axes]), width))
    for index in np.ndindex(record_axes):
        # Along axes of length one of the record, all points of theta are taken.
        selection = tuple(slice(None) if n == 1 else slice(i, i + 1) for i, n in zip(index, record_axes, strict=True))
        points = theta[tuple(s if n > 1 else slice(None) for s, n in zip(selection, theta.shape, strict=False))]
        record_at = {
            k: v[tuple(0 if n == 1 else i for i, n in zip(index, v.shape, strict=False))] for k, v in leaves.items()
        }
        result[selection] = function(points.reshape(-1, theta.shape[-1]), record_at).reshape(*points.shape[:-1], width)
    return result
