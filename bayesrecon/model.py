"""The `Model` behind a release (a likelihood per record and a prior), and `PseudoData` that represent records.

Shapes follow the notation table in docs/glossary.md: d unconstrained coordinates, M pseudo-records.
"""

import functools
import html
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array, Stored
from bayesrecon.arrays import Progress as Progress
from bayesrecon.domains import Field as Field
from bayesrecon.domains import Records as Records
from bayesrecon.errors import BayesreconError

if TYPE_CHECKING:
    import pandas as pd

Params = dict[str, Any]
"""Arrays of parameters by name."""


class Transform(Protocol):
    """A bijection from unconstrained to constrained values. NumPyro's transforms have this interface."""

    def __call__(self, x: Array) -> Array: ...
    def _inverse(self, y: Array) -> Array: ...
    def log_abs_det_jacobian(self, x: Array, y: Array) -> Array: ...
    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]: ...


class Identity:
    """The transform of a parameter that is already unconstrained."""

    def __call__(self, x: Array) -> Array:
        return x

    def _inverse(self, y: Array) -> Array:
        return y

    def log_abs_det_jacobian(self, x: Array, y: Array) -> jax.Array:
        return jnp.zeros_like(x)

    def inverse_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return shape


@dataclass(frozen=True)
class Parameter:
    """A named parameter: its constrained shape, its transform and its elementwise bounds.

    `bounds` is None if the support is not a box (a simplex, an ordered vector, a correlation matrix).
    """

    name: str
    shape: tuple[int, ...] = ()
    transform: Transform = field(default_factory=Identity)
    bounds: tuple[float, float] | None = (-math.inf, math.inf)

    @functools.cached_property
    def free_shape(self) -> tuple[int, ...]:
        return tuple(self.transform.inverse_shape(self.shape))

    @property
    def size(self) -> int:
        return math.prod(self.free_shape)

    def unconstrained(self, value: Array) -> jax.Array:
        """The unconstrained form of a value of this parameter."""
        return jnp.asarray(self.transform._inverse(value))  # pyright: ignore[reportPrivateUsage]  # NumPyro's name


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """A likelihood that depends on its record only through `eta = W x + b`: `l(theta, z) = h(eta, y)`.

    Args:
        coef: name of the parameter W, `(K, p)`.
        intercept: name of the parameter b, `(K,)`, or None.
        x, y: names of the fields: features `(p,)`, and the response.
        log_lik: h, a function `(eta (K,), y) -> scalar`.
        loss: name of the loss, such as "softmax".
        labels: values of the response if there are finitely many.
    """

    coef: str
    intercept: str | None
    x: str
    y: str
    log_lik: Callable[[Array, Array], Array]
    loss: str
    labels: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Prediction:
    """A likelihood that depends on its parameters only through a prediction: `l(theta, z) = h(f(theta), z)`.

    Args:
        output: f, a function `(params, record) -> array`.
        log_lik: h, a function `(array, record) -> scalar`.
    """

    output: Callable[[Params, Records], Array]
    log_lik: Callable[[Array, Records], Array]


@dataclass(frozen=True, eq=False)
class GaussianPredictor:
    """A Gaussian linear regression. The kernel then has a closed form.

    The residual is `r = y - b(z) - x(z) beta`, and `r / (s sigma)` is standard normal.

    Args:
        coefficients: positions of beta in theta.
        design: function `(beta (p,), records) -> r (M,), x (M, p), s (M,)`.
        scale: position in theta of the parameter of which sigma is a power; None if sigma is one.
        power: that power.
        logarithm: whether theta holds the logarithm of that parameter.
    """

    MOST: ClassVar[int] = 64
    """Largest number of coefficients if a record has few of them, as in a group. Their products would otherwise
    outnumber the records of a kernel's basis."""

    MOST_DENSE: ClassVar[int] = 128
    """Largest number of coefficients if a record has most of them. The kernel then takes at least a gigabyte."""

    coefficients: tuple[int, ...]
    design: Callable[[np.ndarray, Records], tuple[Array, Array, Array]]
    scale: int | None = None
    power: float = 1.0
    logarithm: bool = True


@dataclass(frozen=True, eq=False)
class Model:
    """A likelihood per record and a prior, in terms of named parameters.

    Args:
        name: name in tables and stored results.
        parameters: in the order in which `theta` stacks their unconstrained values.
        fields: the fields of a record.
        log_lik_at: function `(params, record) -> scalar`, log likelihood of one record.
        log_prior_at: function `(params) -> scalar`, log prior density in the coordinates in which it was written.
        prepare: function from published draws to `params` if the two differ, for example to rebuild a non-centred
            latent variable. It takes and returns `{name: (chains, draws, *shape)}`.
        program: the NumPyro program of the model, if there is one. `posteriors.nuts` samples such models.
        simulate: function `(params, records, key) -> records` that draws the observed fields from the model, if
            possible.
        settings: arguments that rebuild the model through `models.load(name, **settings)`.
        identities: totals that the program fixes for all data, `{name: (f, total)}` with `sum_n f(x_n) = total` and
            `f(record) -> scalar`. For example, a covariate that the program centres by its own mean sums to zero.
        linear: the parts of the likelihood if the record enters through a linear predictor. Attacks on trained
            parameters then have closed forms.
        prediction: the parts of the likelihood if a loss compares a prediction with the record.
        gaussian: the parts of the likelihood if it is a Gaussian linear regression.
        forward: whether NUTS computes gradients in forward mode. This is faster for few parameters and many steps, as
            in a differential equation.
        power: power of the likelihood in a tempered posterior; `models.tempered` sets it.
        smooth: whether the score is known to be continuous. Other models are checked when draws are attacked.
        notes: what was changed to build the model, for readers of results.

    Models compare and hash by identity, so that compiled functions are reused.
    """

    name: str
    parameters: tuple[Parameter, ...]
    fields: Mapping[str, Field]
    log_lik_at: Callable[[Params, Records], jax.Array]
    log_prior_at: Callable[[Params], jax.Array]
    prepare: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] | None = None
    program: Callable[..., object] | None = None
    simulate: Callable[[Params, Records, jax.Array], Records] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    identities: Mapping[str, tuple[Callable[[Records], Array], float]] = field(default_factory=dict)
    linear: LinearPredictor | None = None
    prediction: Prediction | None = None
    gaussian: GaussianPredictor | None = None
    forward: bool = False
    power: float = 1.0
    smooth: bool = False
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: the coordinates and the fields of a record."""
        tempered = "" if self.power == 1 else f", power {self.power:g}"
        return f"Model({self.name!r}: {listed(self.coordinates)}; record of {listed(tuple(self.fields))}{tempered})"

    def _repr_html_(self) -> str:
        return as_html(repr(self))

    @functools.cached_property
    def dimension(self) -> int:
        """d, the number of unconstrained coordinates."""
        return sum(p.size for p in self.parameters)

    @functools.cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the d coordinates, `name` or `name[i,j]`, counted from one."""
        return tuple(entry(p.name, index) for p in self.parameters for index in np.ndindex(p.free_shape))

    def split(self, theta: Array) -> Params:
        """Unconstrained values by parameter name, for `theta (d,)`."""
        values_by_name, start = {}, 0
        for p in self.parameters:
            values_by_name[p.name] = theta[start : start + p.size].reshape(p.free_shape)
            start += p.size
        return values_by_name

    def constrain(self, theta: Array) -> Params:
        """Parameters in their own space, from one unconstrained vector `(d,)`."""
        free = self.split(theta)
        return {p.name: p.transform(free[p.name]) for p in self.parameters}

    def unconstrain(self, params: Mapping[str, npt.ArrayLike]) -> jax.Array:
        """The unconstrained vector `(d,)` of one set of parameters."""
        return jnp.concatenate(
            [jnp.reshape(p.unconstrained(jnp.asarray(params[p.name])), (-1,)) for p in self.parameters]
        )

    def log_lik(self, theta: Array, record: Records) -> jax.Array:
        """l(theta, z): the contribution of one record to the log posterior at one unconstrained vector.

        It is the log likelihood of the record times the power.
        """
        value = self.log_lik_at(self.constrain(theta), record)
        return value if self.power == 1 else self.power * value

    def log_prior(self, theta: Array) -> jax.Array:
        """log pi0 at one unconstrained vector, without the Jacobian of the transforms."""
        return self.log_prior_at(self.constrain(theta))

    def log_det(self, theta: Array) -> jax.Array:
        """Log absolute determinant of the constraining map at one unconstrained vector."""
        free = self.split(theta)
        terms = [
            jnp.sum(p.transform.log_abs_det_jacobian(free[p.name], p.transform(free[p.name]))) for p in self.parameters
        ]
        return jnp.asarray(sum(terms))

    @functools.cached_property
    def untempered(self) -> "Model":
        """The model with power one, which the records follow."""
        if self.power == 1:
            return self
        return replace(self, name=self.name.removesuffix(power_suffix(self.power)), power=1.0)

    @functools.cached_property
    def in_constrained_coordinates(self) -> "Model":
        """The same model with the constrained values as coordinates."""
        for p in self.parameters:
            if p.bounds is None:
                raise BayesreconError(
                    f"coordinates='constrained' is not available: the support of {p.name} is not a box; "
                    "use coordinates='unconstrained'"
                )
        untransformed = tuple(Parameter(p.name, p.shape, bounds=p.bounds) for p in self.parameters)
        gaussian = self.gaussian
        if gaussian is not None and gaussian.scale is not None:
            parameter = [p for p in self.parameters for _ in range(p.size)][gaussian.scale]
            gaussian = replace(gaussian, logarithm=parameter.bounds != (0.0, math.inf))
        return replace(self, parameters=untransformed, gaussian=gaussian)


class Atoms(Protocol):
    """The part of a release that kernels use: weighted atoms and a model."""

    temperature: ClassVar[float]

    @property
    def theta(self) -> Array | Stored: ...
    @property
    def weights(self) -> Array: ...
    @property
    def chain(self) -> Array: ...
    @property
    def model(self) -> Model: ...
    @property
    def default_metric(self) -> str: ...
    def own_metric(self) -> np.ndarray: ...
    @property
    def size(self) -> int: ...
    @property
    def spans(self) -> bool: ...


def power_suffix(power: float) -> str:
    """End of the name of a tempered model."""
    return "" if power == 1 else f" to the power {power:g}"


def listed(names: tuple[str, ...], most: int = 6) -> str:
    """The first names, separated by commas, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def as_html(text: str) -> str:
    """The text as HTML code."""
    return f"<code>{html.escape(text)}</code>"


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class PseudoData:
    """The measure `sum_m w_m delta_{z_m}`: `weights` `(M,)` and `records` `{field: (M, *shape)}`."""

    weights: Array
    records: Records

    def to_dataframe(self, **more: npt.ArrayLike) -> "pd.DataFrame":
        """One row per record: its weight, `more` columns, and its fields."""
        import pandas as pd

        columns = {"weight": np.asarray(self.weights), **more}
        for name, values in self.records.items():
            values = np.asarray(values)
            for index in np.ndindex(values.shape[1:]):
                columns[entry(name, index)] = values[(slice(None), *index)]
        return pd.DataFrame(columns).rename_axis("record")


def entry(name: str, index: tuple[int, ...]) -> str:
    """Name of an entry of an array, counted from one: `name[i,j]`, or `name` without an index."""
    return f"{name}[{','.join(str(i + 1) for i in index)}]" if index else name


@functools.partial(jax.jit, static_argnames="model")
def simulated(model: Model, theta: jax.Array, records: Records, keys: jax.Array) -> Records:
    """Records `{field: (S, M, *shape)}` with their responses drawn anew, for S parameters `(S, d)` and keys."""
    simulate = model.simulate
    if simulate is None:
        raise BayesreconError(f"{model.name} cannot simulate records")
    return jax.vmap(lambda t, key: simulate(model.constrain(t), records, key))(theta, keys)
