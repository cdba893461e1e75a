"""Models from a differentiable prediction, a loss and a regulariser."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from bayesrecon.arrays import Array
from bayesrecon.domains import REAL
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Field, Model, Parameter, Prediction
from bayesrecon.precision import in_float64
from bayesrecon.stated_domains import domains_of


def named_leaves(params: object) -> dict[str, npt.ArrayLike]:
    """The arrays of a nested dict or list, or of an Equinox module, by path, such as `layers/0/w`.

    >>> named_leaves({"layers": [{"w": 1.0}, {"w": 2.0}]})
    {'layers/0/w': 1.0, 'layers/1/w': 2.0}
    """
    leaves = jax.tree_util.tree_flatten_with_path(params)[0]
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves if _is_array(leaf)}


def _is_array(leaf: object) -> bool:
    """Whether a leaf is a number or an array of NumPy, JAX or PyTorch. Modules have other leaves, too."""
    return hasattr(leaf, "__array__") or (isinstance(leaf, float | int) and not isinstance(leaf, bool))


@in_float64
def from_loss(
    apply: Callable[..., Array],
    loss: Callable[[Array, Array], Array],
    regulariser: Callable[[Any], Array] | None = None,
    *,
    params: object,
    record: Mapping[str, tuple[int, ...]],
    response: str = "y",
    domain: Mapping[str, object] | None = None,
    name: str | None = None,
) -> Model:
    """A `Model` of a predictor that was trained by minimising a loss.

    A trained parameter is stationary for `sum_n loss(apply(params, x_n), y_n) + regulariser(params)`. The loss is
    summed, not averaged. If training averaged the loss, multiply the regulariser by the number of records, or treat its
    strength as unknown.

    Args:
        apply: function `(params, *inputs) -> prediction` for one record, written with `jax.numpy`. The inputs are the
            fields of the record except for the response, in their order.
        loss: function `(prediction, response) -> scalar`.
        regulariser: function `(params) -> scalar`; none by default.
        params: parameters, or arrays of the same shapes: nested dicts and lists (Flax), an Equinox module, or PyTorch's
            `state_dict()`. `posteriors.dirac` takes the same.
        record: `{field: shape of one record's value}`.
        response: the field that the loss takes.
        domain: `{field: domain}`, as in `from_numpyro`.

    Raises:
        BayesreconError: prediction, loss or regulariser cannot be evaluated, or loss or regulariser is not a scalar.

    >>> import jax.numpy as jnp
    >>> model = from_loss(
    ...     lambda p, x: jnp.tanh(x @ p["w"]) @ p["v"],
    ...     lambda out, y: (out - y) ** 2,
    ...     lambda p: 0.1 * jnp.sum(p["w"] ** 2),
    ...     params={"w": jnp.zeros((3, 4)), "v": jnp.zeros(4)}, record={"x": (3,), "y": ()})
    >>> model.dimension
    16
    """
    title = name or getattr(apply, "__name__", "predictor").replace("<lambda>", "predictor")
    all_leaves, structure = jax.tree_util.tree_flatten(params)
    arrays = named_leaves(params)
    if not arrays:
        raise BayesreconError(f"{title}: params contains no arrays")
    if response not in record:
        raise BayesreconError(f"{title}: the response {response!r} is not a field of the record ({', '.join(record)})")
    domains = domains_of(domain, record)
    inputs = [k for k in record if k != response]

    def rebuild(values: dict[str, Array]) -> Any:
        names = iter(arrays)
        leaves = [values[next(names)] if _is_array(leaf) else leaf for leaf in all_leaves]
        return jax.tree_util.tree_unflatten(structure, leaves)

    def output(values: dict[str, Array], record: dict[str, Array | float]) -> Array:
        return apply(rebuild(values), *(fields[k].domain.typed(record[k]) for k in inputs))

    def log_lik(prediction: Array, record: dict[str, Array | float]) -> jax.Array:
        return -jnp.asarray(loss(prediction, fields[response].domain.typed(record[response])))

    def log_prior_at(values: dict[str, Array]) -> jax.Array:
        return jnp.zeros(()) if regulariser is None else -jnp.asarray(regulariser(rebuild(values)))

    fields = {k: Field(tuple(shape), domains.get(k, REAL)) for k, shape in record.items()}
    model = Model(
        name=title,
        parameters=tuple(Parameter(n, tuple(np.shape(v))) for n, v in arrays.items()),
        fields=fields,
        log_lik_at=lambda values, record_values: log_lik(output(values, record_values), record_values),
        log_prior_at=log_prior_at,
        prediction=Prediction(output, log_lik),
    )
    _check(model)
    return model


def _check(model: Model) -> None:
    """Refuse a loss or a regulariser that is not a scalar. Only shapes are computed."""
    values = {p.name: jax.ShapeDtypeStruct(p.shape, jnp.float64) for p in model.parameters}
    shapes = {k: jax.ShapeDtypeStruct(f.shape, f.domain.dtype) for k, f in model.fields.items()}
    for description, function, arguments in (
        ("loss", model.log_lik_at, (values, shapes)),
        ("regulariser", model.log_prior_at, (values,)),
    ):
        try:
            shape = jax.eval_shape(function, *arguments).shape
        except Exception as error:
            text = " ".join(str(error).split())[:200]
            raise BayesreconError(
                f"{model.name}: the {description} of one record cannot be evaluated: {text}"
            ) from None
        if shape != ():
            raise BayesreconError(f"{model.name}: the {description} has shape {shape}; it must be one number")


# Networks of maximum margin: the Karush-Kuhn-Tucker conditions as a `Model`, and a ReLU with a smooth slope.


def from_margin(
    apply: Callable[..., Array],
    *,
    params: Mapping[str, Array],
    record: Mapping[str, tuple[int, ...]],
    response: str = "y",
    domain: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> Model:
    """A `Model` of a binary classifier whose loss and weight decay are unknown.

    A homogeneous network that is trained on a logistic or exponential loss without a regulariser converges in direction
    to a point that satisfies the Karush-Kuhn-Tucker conditions of the maximum margin (Lyu and Li 2020; Haim et al.
    2022, equation 4),

        theta = sum_n lambda_n s_n grad f(theta, x_n),    lambda_n >= 0,    s_n = 2 y_n - 1

    A network trained with weight decay satisfies the same equation, for any strength and for any loss that decreases
    with the margin. The multipliers absorb the scale of theta, so their sum is not the number of records. Use
    `GradientMatching(multipliers="free")`, which keeps the multipliers non-negative.

    Args:
        apply: function `(params, *inputs) -> f`, one number per record. If training used no weight decay, it must be
            homogeneous in the parameters (no bias above the first layer).
        params, record, response, name: as in `from_loss`.
        domain: `{field: domain}` of the inputs. The domain of the response is 0 and 1.

    Raises:
        BayesreconError: another domain is stated for the response, or `from_loss` refuses the arguments.

    >>> import jax.numpy as jnp
    >>> model = from_margin(
    ...     lambda p, x: jnp.maximum(x @ p["w"], 0.0) @ p["v"],
    ...     params={"w": jnp.zeros((3, 4)), "v": jnp.zeros(4)}, record={"x": (3,), "y": ()}, domain={"x": (0.0, 1.0)})
    >>> model.dimension, model.fields["y"].domain.levels
    (16, (0.0, 1.0))
    """
    domains = dict(domain or {})
    if list(domains.pop(response, (0, 1))) != [0, 1]:
        raise BayesreconError(f"a margin needs two classes: the domain of {response!r} must be 0 and 1")
    if tuple(record.get(response, ())) != ():
        raise BayesreconError(f"a margin needs two classes: {response!r} must be one number, 0 or 1")

    def norm(p: Mapping[str, Array]) -> jax.Array:
        return 0.5 * jnp.asarray(sum(jnp.sum(jnp.asarray(leaf) ** 2) for leaf in jax.tree_util.tree_leaves(p)))

    return from_loss(
        apply,
        lambda out, y: -(2.0 * y - 1.0) * out,
        norm,
        params=params,
        record=record,
        response=response,
        domain=domains | {response: [0, 1]},
        name=name,
    )


def smoothed_relu(sharpness: float) -> Callable[[Array | float], jax.Array]:
    """A ReLU whose slope is `1 / (1 + exp(-sharpness z))` instead of a step function.

    The gradient of a ReLU network is discontinuous where a record crosses a kink, and gradient descent cannot cross it.
    Haim et al. (2022, section 4.2) keep the values and smooth the slope. Only the attacker's copy of the model uses it.

    Args:
        sharpness: in units of one over the pre-activation. Infinity gives the step function.

    Raises:
        BayesreconError: the sharpness is not positive.

    >>> relu = smoothed_relu(10.0)
    >>> float(relu(-1.0)), float(jax.grad(relu)(0.0)), round(float(jax.grad(relu)(0.5)), 3)
    (0.0, 0.5, 0.993)
    """
    if not sharpness > 0:
        raise BayesreconError(f"sharpness={sharpness}: expected a positive number")

    @jax.custom_jvp
    def relu(z: Array | float) -> jax.Array:
        return jnp.maximum(z, 0.0)

    @relu.defjvp
    def _(primals: tuple[jax.Array], tangents: tuple[jax.Array]) -> tuple[jax.Array, jax.Array]:
        (z,), (tangent,) = primals, tangents
        slope = jnp.heaviside(z, 0.5) if sharpness == float("inf") else jax.nn.sigmoid(sharpness * z)
        return relu(z), slope * tangent

    return relu
