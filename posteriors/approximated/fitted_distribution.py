"""`FittedDistribution`: a normal distribution or a mode, in the parameters of its optimiser."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

from bayesrecon.arrays import Array
from bayesrecon.errors import BayesreconError, near
from bayesrecon.model import Model
from bayesrecon.posteriors.approximated.normal import order_of

_TOLERANCE = 1e-5  # of transformed values: guides are often fitted in single precision


@dataclass(frozen=True, eq=False)
class FittedDistribution:
    """A fitted distribution.

    Attributes:
        kind: "variational", "laplace" (a mode with its covariance) or "mode".
        name: name for display.
        native: `(g,)`, the optimiser's parameters, unconstrained.
        phi: function from native parameters to the parameter of the derived model (`approximated.normal`), or to theta
            for a mode.
        iterates: native parameters at other steps.
        jacobian: for a mode with its covariance, whether its density includes the Jacobian of the transforms.
        draws: number of draws of the distribution if it is estimated from them, else None.
        printed: `(d,)` half units of the last printed digit of the mean; None if it is not rounded.
        slow: the reason why only a stated residual shows the distance from the optimum; empty if iterates do too.
    """

    kind: str
    name: str
    native: np.ndarray
    phi: Callable[[Array], Array]
    iterates: tuple[np.ndarray, ...] = ()
    jacobian: bool = True
    draws: int | None = None
    printed: np.ndarray | None = None
    slow: str = ""


def phi_of(model: Model, mean: Array, factor: Array) -> jax.Array:
    """The parameter phi of a mean `(d,)` and a covariance `F F'`, as a differentiable function of any `F (d, g)`."""
    order = order_of(model)
    rows = factor[order]
    lower = jnp.linalg.cholesky(rows @ rows.T)
    return jnp.concatenate([mean, lower[np.tril_indices(model.dimension)]])


def positions_in_model(model: Model, positions: Mapping[str, Array], label: str) -> np.ndarray:
    """Positions `(d,)` of the model's coordinates in the vector of a fit, from the positions of each site."""
    expected = {p.name: p for p in model.parameters}
    for name in expected:
        if name not in positions:
            raise BayesreconError(
                f"the {label} has no site {name}, which model {model.name} has{near(name, positions)}: it belongs to "
                "another model"
            )
    for name in positions:
        if name not in expected:
            raise BayesreconError(
                f"the {label} has a site {name}, which model {model.name} does not have{near(name, expected)}: it "
                "belongs to another model"
            )
    for name, p in expected.items():
        if np.shape(positions[name]) != p.free_shape:
            raise BayesreconError(
                f"{name} of the {label} has shape {np.shape(positions[name])} unconstrained, and {p.free_shape} in "
                f"model {model.name}: it belongs to another model"
            )
    return np.concatenate([np.ravel(np.asarray(positions[name], int)) for name in expected])


def probes(model: Model) -> dict[str, np.ndarray]:
    """Unconstrained values of every parameter, at which transforms are compared."""
    grids = {p.name: np.linspace(-0.6, 0.9, p.size).reshape(p.free_shape) for p in model.parameters}
    return {name: np.where(values == 0, 0.3, values) for name, values in grids.items()}


@lru_cache(maxsize=256)
def _transformed(model: Model) -> dict[str, np.ndarray]:
    points = probes(model)
    transformed = jax.jit(lambda: {p.name: p.transform(jnp.asarray(points[p.name])) for p in model.parameters})()
    return {name: np.asarray(values) for name, values in transformed.items()}


def check_transforms(model: Model, values: Mapping[str, Array], label: str) -> None:
    """Refuse a fit in other coordinates than the model's.

    Args:
        values: `{parameter: value}`, the probes transformed by the fit.
        label: name of the fit, for the message.
    """
    for p in model.parameters:
        expected, actual = _transformed(model)[p.name], np.asarray(values[p.name])
        if expected.shape != actual.shape or not np.allclose(expected, actual, rtol=_TOLERANCE, atol=_TOLERANCE):
            raise BayesreconError(
                f"the {label} transforms {p.name} differently from model {model.name} "
                f"({type(p.transform).__name__}): the two are not in the same coordinates"
            )


def numbers(values: object, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """A parameter of a fit as a checked array."""
    try:
        result = np.asarray(values, float)
    except (TypeError, ValueError, OverflowError):
        raise BayesreconError(f"{name} must be numeric") from None
    if result.shape != shape:
        raise BayesreconError(f"{name} has shape {result.shape}, expected {shape}")
    if not np.isfinite(result).all():
        raise BayesreconError(f"{name} holds missing or infinite values: did the fit diverge?")
    return result


def named_entries(params: object, names: Sequence[str], label: str) -> dict[str, object]:
    """The named entries of a fit's parameters."""
    if not isinstance(params, Mapping):
        raise BayesreconError(f"{label}: expected a dict of the fit's parameters, got a {type(params).__name__}")
    for name in names:
        if name not in params:
            raise BayesreconError(f"{label} lack {name}{near(name, params)} (they hold {', '.join(map(str, params))})")
    return {name: params[name] for name in names}
