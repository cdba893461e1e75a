"""Networks of maximum margin: the Karush-Kuhn-Tucker conditions as a `Model`, and a ReLU with a smooth slope."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError
from bayesrecon.model import Model
from bayesrecon.models.losses import from_loss


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
